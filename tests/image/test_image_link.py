"""Linking: what LLVM emits is placed right, and anything unexpected is named."""

from __future__ import annotations

import pytest

from dsalang._backend.errors import InternalError
from dsalang._backend.image import link
from dsalang._backend.image.reader import read_object
from dsalang._backend.isa.rv64 import decode_rv64
from dsalang._backend.llvm.riscv import compile_object

DECLARE = "declare i64 @__dsa_issue(i64, i64)\n"


def linked(glue: str) -> bytes:
    return link.memory(read_object(link.link(compile_object(glue), 0x10000)), 0x10000)


def test_a_call_becomes_custom_0_and_nop():
    code = linked(
        DECLARE
        + 'define void @dsa_kernel(i64 %a, i64 %b) nounwind "disable-tail-calls"="true" {\n'
        + " %r = call i64 @__dsa_issue(i64 %a, i64 %b)\n ret void\n}\n"
    )
    words = [int.from_bytes(code[i : i + 4], "little") for i in range(0, len(code), 4)]
    at = words.index(0x00B5050B)
    assert words[at + 1] == 0x13
    decoded = decode_rv64(words[at])
    assert decoded is not None and (decoded.mnemonic, decoded.rd) == ("dsa.issue", 10)


def test_constants_are_reached():
    value = 0x1122334455667788
    code = linked(
        f"define i64 @dsa_kernel(i64 %a) nounwind {{\n %r = mul i64 %a, {value}\n ret i64 %r\n}}\n"
    )
    words = [int.from_bytes(code[i : i + 4], "little") for i in range(0, len(code), 4)]
    decoded = [d for d in map(decode_rv64, words) if d is not None]
    (lui,) = (d for d in decoded if d.mnemonic == "lui")
    (load,) = (d for d in decoded if d.mnemonic == "ld")
    at = lui.imm + load.imm - 0x10000
    assert int.from_bytes(code[at : at + 8], "little") == value


@pytest.mark.parametrize(
    ("glue", "message"),
    [
        (
            "declare void @free(ptr)\ndefine void @dsa_kernel(ptr %p) nounwind {\n"
            " call void @free(ptr %p)\n ret void\n}\n",
            "call of 'free'",
        ),
        (
            DECLARE + "define void @dsa_kernel() nounwind {\n"
            " %r = tail call i64 @__dsa_issue(i64 1, i64 2)\n ret void\n}\n",
            "pair through ra",
        ),
        (
            "@g = external global i64\ndefine ptr @dsa_kernel() nounwind {\n ret ptr @g\n}\n",
            "undefined symbol 'g'",
        ),
        (
            "@g = global i64 1\ndefine void @dsa_kernel() nounwind {\n"
            " store i64 2, ptr @g\n ret void\n}\n",
            "unexpected section",
        ),
        (
            "define i128 @dsa_kernel(i128 %a, i128 %b) nounwind {\n"
            " %r = udiv i128 %a, %b\n ret i128 %r\n}\n",
            "call of '__udivti3'",
        ),
    ],
)
def test_what_cannot_be_linked_is_named(glue, message):
    with pytest.raises(InternalError, match=message):
        linked(glue)


def test_far_branches_are_resolved():
    """A loop body over 4 KiB needs an inverted branch around a jump; both must land right."""
    calls = " call i64 @__dsa_issue(i64 %i, i64 %n)\n" * 600
    code = linked(
        DECLARE
        + 'define void @dsa_kernel(i64 %n) nounwind "disable-tail-calls"="true" {\n'
        + "start:\n br label %loop\nloop:\n %i = phi i64 [0, %start], [%j, %loop]\n"
        + calls
        + " %j = add i64 %i, 1\n %c = icmp slt i64 %j, %n\n br i1 %c, label %loop, label %end\n"
        + "end:\n ret void\n}\n"
    )
    words = [int.from_bytes(code[i : i + 4], "little") for i in range(0, len(code), 4)]
    targets = [
        4 * i + d.imm
        for i, d in enumerate(map(decode_rv64, words))
        if d is not None and d.mnemonic in ("jal", "blt", "bge")
    ]
    assert targets and all(0 <= target < len(code) for target in targets)
    assert min(targets) < 100
