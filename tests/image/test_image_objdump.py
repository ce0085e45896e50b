"""The dump of an image says everything a person looks for."""

from __future__ import annotations

from image_samples import sample

from dsalang._backend.image.objdump import objdump

EXPECTED = """
kernel sample for target edge
  0  x  *fp16
  1  n  int32
  0x80  0x164  2      100    50 fp16  x      sample.py:3:4
  0       2        VE#4    LD#0
  1       0        LD#2    CORE@
  #0 wait.LD sem=0
  #1 dma.load.LD elem_bytes=2 ndim=1 size=[50] hbm=?0 hbm_stride=[-2] sram=?1 sram_stride=[2] hi=[50]  ; argument x  ; lib.py:9:2
  #2 set.LD sem=1
  #3 vexec.VE program=0 ndim=1 size=[50] inputs=1 outputs=1 in=[?0] in_stride=[2] out=[?1] out_stride=[2]
  0: program inputs(fp16) scalars() outputs(fp16)
     r0 = fadd.fp16 r0, r0
  print 0: 'i' int32, 5x10 fp16
  assert 0: 'in range'
  dsa_kernel:
dsa.issue a0, a0, a1  ; template #1
dsa.wait a0, a0, a1  ; semaphore 1
dsa.assert a0, a0, a1  ; assert 0
"""


def test_dump_has_everything_in_order():
    text = objdump(sample())
    at = 0
    for line in EXPECTED.strip().splitlines():
        at = text.find(line, at)
        assert at >= 0, f"missing or out of order: {line}\n{text}"


def test_constants_are_not_disassembled():
    text = objdump(sample())
    assert (1234567890123456789).to_bytes(8, "little").hex(" ") in text
    assert ".word" not in text


def test_labels_match_branches():
    lines = objdump(sample()).splitlines()
    labels = {line.strip()[2:-1] for line in lines if line.strip().startswith(".L")}
    targets = {
        line.rsplit(" ", 1)[1][2:]
        for line in lines
        if any(f" {b} " in line for b in ("beq", "bne", "blt", "bge", "bltu", "bgeu", "jal zero,"))
    }
    assert targets and targets <= labels
