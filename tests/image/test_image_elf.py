"""Images as files: what readers of ELF see, and that nothing damaged or foreign gets through."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import random
import shutil
import subprocess
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from image_samples import sample, with_contents, with_digest

from dsalang._backend.errors import ImageError, InternalError
from dsalang._backend.image import elf
from dsalang._backend.image.elf import load, save
from dsalang._backend.image.reader import read_object
from dsalang._backend.isa.encode import encode
from dsalang._backend.isa.table import Engine, Instruction
from dsalang._backend.llvm.riscv import compile_object


def test_save_and_load():
    image = sample()
    data = save(image)
    assert load(data) == image
    assert save(load(data)) == data
    assert load(bytearray(data)).file == data


def test_save_does_not_trust_an_old_file():
    changed = dataclasses.replace(sample(), credits=(1, 1))
    data = save(changed)
    assert data != sample().file
    assert load(data) == changed


def test_save_refuses_code_that_the_glue_does_not_give():
    with pytest.raises(InternalError, match="glue"):
        save(dataclasses.replace(sample(), code=b"\0\0\0\0"))


def test_code_is_linked():
    image = sample()
    obj = read_object(image.file)
    assert {r.type for r in obj.relocations} == {0}
    text = obj.contents(obj.section(".text"))
    assert image.code.startswith(text)
    words = [int.from_bytes(text[i : i + 4], "little") for i in range(0, len(text), 4)]
    assert sum(word & 0xFFFF8FFF == 0x00B5050B for word in words) == 8
    # the big constant stands behind the code
    assert (1234567890123456789).to_bytes(8, "little") in image.code[len(text) :]


def test_readelf_is_content(tmp_path):
    readelf = shutil.which("readelf")
    if readelf is None:
        pytest.skip("no readelf here")
    path = tmp_path / "sample.o"
    path.write_bytes(sample().file)
    run = subprocess.run([readelf, "-aW", path], capture_output=True, check=True)
    out = run.stdout.decode()
    assert run.stderr == b"" and "Warning" not in out and "Error" not in out
    for text in ("REL (Relocatable file)", "RISC-V", ".dsa.templates", ".dsa.meta", "dsa_kernel"):
        assert text in out


def test_pyelftools_reads_it():
    elffile = pytest.importorskip("elftools.elf.elffile")
    parsed = elffile.ELFFile(io.BytesIO(sample().file))
    assert parsed["e_machine"] == "EM_RISCV" and parsed["e_type"] == "ET_REL"
    meta = json.loads(parsed.get_section_by_name(".dsa.meta").data())
    assert meta["name"] == "sample" and meta["arguments"][1]["name"] == "n"
    symbol = parsed.get_section_by_name(".symtab").get_symbol_by_name("dsa_kernel")[0]
    assert symbol["st_value"] == sample().entry


def test_every_damaged_byte_is_noticed():
    data = sample().file
    rng = random.Random(1)
    for at in range(0, len(data), 3):
        damaged = bytearray(data)
        damaged[at] ^= 1 << rng.randrange(8)
        with pytest.raises(ImageError):
            load(bytes(damaged))


def test_every_truncation_is_noticed():
    data = sample().file
    for size in [*range(0, len(data), 17), len(data) - 1]:
        with pytest.raises(ImageError):
            load(data[:size])
    with pytest.raises(ImageError):
        load(data + b"\0")


@settings(max_examples=400, derandomize=True, deadline=None)
@given(st.data())
def test_damage_under_a_right_digest_is_refused_or_harmless(data):
    file = bytearray(sample().file)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(file) - 1))
        file[at] = data.draw(st.sampled_from((0, 1, 0x7F, 0x80, 0xFF)) | st.integers(0, 255))
    with contextlib.suppress(ImageError):
        load(with_digest(bytes(file)))


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda b: sample().file[:64] + b))
def test_any_bytes_are_refused(data):
    with pytest.raises(ImageError):
        load(data)


def test_foreign_objects_are_refused():
    plain = compile_object("define void @dsa_kernel() {\n ret void\n}\n")
    with pytest.raises(ImageError, match="without dsalang's sections"):
        load(plain)
    x86 = bytearray(sample().file)
    x86[18] = 62
    with pytest.raises(ImageError, match="not a RISC-V"):
        load(bytes(x86))
    with pytest.raises(ImageError, match="ELF64"):
        load(b"#!/bin/sh\n" * 100)


def test_other_version_is_refused_as_such():
    data = bytearray(sample().file)
    data[read_object(bytes(data)).section(".dsa.ident").offset + 8] = 99
    with pytest.raises(ImageError, match="version is 99") as error:
        load(with_digest(bytes(data)))
    assert "compile the kernel again" in str(error.value)


def meta_with(**changes: object) -> bytes:
    obj = read_object(sample().file)
    meta = json.loads(obj.contents(obj.section(".dsa.meta")))
    meta.update(changes)
    return json.dumps(meta).encode()


SET = encode(Instruction("set", Engine.LD, {"sem": 0}))
DEEP_LOC: dict[str, object] | None = None
for _ in range(200):
    DEEP_LOC = {"file": "f", "line": 1, "col": 1, "caller": DEEP_LOC}


@pytest.mark.parametrize(
    ("section", "contents", "message"),
    [
        (".dsa.meta", b"", "metadata"),
        (".dsa.meta", b"[]", "metadata"),
        (".dsa.meta", b"\xff\xff", "metadata"),
        (".dsa.meta", b"[" * 100000, "metadata"),
        (".dsa.meta", meta_with(name=3), "not of type str"),
        (".dsa.meta", meta_with(extra=3), "is not a Meta"),
        (".dsa.meta", meta_with(credits=[True]), "not of type int"),
        (".dsa.meta", meta_with(credits=[-1]), "out of range"),
        (".dsa.meta", meta_with(credits=[1 << 70]), "too big"),
        (".dsa.meta", meta_with(credits=[0.5]), "not of type int"),
        (".dsa.meta", meta_with(code_address=1 << 40), "out of range"),
        (".dsa.meta", meta_with(programs=2), "vector programs"),
        (".dsa.meta", meta_with(templates=[]), "more instructions"),
        (".dsa.meta", meta_with(asserts=[{"message": "", "loc": DEEP_LOC}]), "too deeply"),
        (".dsa.meta", meta_with(arguments=[]), "no argument"),
        (
            ".dsa.meta",
            meta_with(templates=[{"open": ["nope"], "loc": None, "hbm_arg": -1}]),
            "no open field",
        ),
        (
            ".dsa.meta",
            meta_with(templates=[{"open": ["sem", "sem"], "loc": None, "hbm_arg": -1}]),
            "open field twice",
        ),
        (".dsa.templates", SET[:-1], "cut off"),
        (".dsa.templates", b"\xff" * 64, "unknown opcode"),
        (".dsa.programs", b"", "vector program"),
        (".dsa.programs", b"\xff" * 64, "cut off"),
        (".dsa.glue", b"", "glue"),
        (".dsa.glue", b"abc", "glue"),
        (".dsa.glue", zlib.compress(b"\xff\xff"), "glue"),
        (".dsa.glue", zlib.compress(b"x" * 1000)[:-3], "cut off or too big"),
        (".text", b"", "entry point"),
    ],
)
def test_wrong_contents_are_refused(section, contents, message):
    with pytest.raises(ImageError, match=message):
        load(with_contents(section, contents))


def test_decompression_is_bounded(monkeypatch):
    monkeypatch.setattr(elf, "MAX_GLUE_BYTES", 1 << 20)
    bomb = zlib.compress(bytes(64 << 20), 9)
    with pytest.raises(ImageError, match="too big"):
        load(with_contents(".dsa.glue", bomb))
