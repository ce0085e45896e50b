"""Images for tests, and files with wrong contents but a right digest."""

from __future__ import annotations

import hashlib
from functools import lru_cache

from dsalang._backend.dialects import parse_ir
from dsalang._backend.image.model import Image
from dsalang._backend.image.reader import read_object
from dsalang._backend.passes.lower import lower
from dsalang._backend.target import Target

KERNEL = r"""
func.func @sample(%x: i64, %n: i32) attributes {
    dsa.args = ["x", "n"], dsa.formats = ["*fp16", "i32"], dsa.credits = array<i64: 2, 0>} {
  %ring = "dsa.ring"() <{label = "x", bytes = 100 : i64, slots = 2 : i64, address = 128 : i64,
    shape = array<i64: 50>, fmt = "fp16"}> : () -> !dsa.ring loc("sample.py":3:4)
  %one = arith.constant 1 : i32
  %zero = arith.constant 0 : i32
  %big = arith.constant 1234567890123456789 : i64
  scf.for %i = %zero to %n step %one : i32 {
    %s = "dsa.acquire"(%ring) : (!dsa.ring) -> !dsa.slot
    %wide = arith.extsi %i : i32 to i64
    %off = arith.muli %wide, %big : i64
    %a = arith.addi %x, %off : i64
    "dsa.wait"() <{engine = 0 : i32, sem = 0 : i32}> : () -> ()
    "dsa.issue"(%a, %s) <{op = "dma.load", bind = ["hbm", "sram"],
      fields = {elem_bytes = 2 : i64, ndim = 1 : i64, size = array<i64: 50>, hi = array<i64: 50>,
      hbm_stride = array<i64: -2>, sram_stride = array<i64: 2>}, hbm_arg = 0 : i64}>
      : (i64, !dsa.slot) -> () loc(callsite("lib.py":9:2 at "sample.py":7:1))
    "dsa.set"() <{engine = 0 : i32, sem = 1 : i32}> : () -> ()
    "dsa.wait"() <{engine = 4 : i32, sem = 1 : i32}> : () -> ()
    "dsa.issue"(%s, %s) <{op = "vexec", bind = ["in.0", "out.0"], fields = {ndim = 1 : i64,
      size = array<i64: 50>, in_stride = array<i64: 2>, out_stride = array<i64: 2>},
      program = "program inputs(fp16) scalars() outputs(fp16)\0Ar0 = in.fp16 0\0Ar0 = fadd.fp16 r0, r0\0Aout.fp16 r0, 0"
      }> : (!dsa.slot, !dsa.slot) -> ()
    "dsa.set"() <{engine = 3 : i32, sem = 0 : i32}> : () -> ()
    "dsa.print"(%i, %s) <{prefix = "i", fmts = ["int32", "fp16"],
      shapes = [array<i64>, array<i64: 5, 10>]}> : (i32, !dsa.slot) -> ()
    %ok = arith.cmpi slt, %i, %n : i32
    "dsa.assert"(%ok) <{message = "in range"}> : (i1) -> ()
  }
  func.return
}
"""


@lru_cache(maxsize=1)
def sample() -> Image:
    """A small image that has some of everything."""
    return lower(parse_ir(KERNEL), Target.by_name("edge"))


def with_digest(data: bytes) -> bytes:
    """The file with its digest made right again."""
    at = read_object(data).section(".dsa.ident").offset + 16
    zeroed = data[:at] + bytes(32) + data[at + 32 :]
    return data[:at] + hashlib.sha256(zeroed).digest() + data[at + 32 :]


def with_contents(section: str, new: bytes) -> bytes:
    """The sample with a section's contents replaced (they move to the end), digest right."""
    data = bytearray(sample().file)
    obj = read_object(bytes(data))
    header = int.from_bytes(data[40:48], "little") + 64 * obj.section(section).index
    data[header + 24 : header + 32] = len(data).to_bytes(8, "little")
    data[header + 32 : header + 40] = len(new).to_bytes(8, "little")
    return with_digest(bytes(data) + new)
