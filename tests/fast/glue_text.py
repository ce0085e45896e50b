"""Glue for hand-made streams of calls, in the form that the compiler writes."""

from __future__ import annotations

from collections.abc import Sequence

from dsalang._backend.image.model import Template
from dsalang._backend.isa.rv64 import CALLS


def glue_of(
    calls: Sequence[tuple[int, int, int]], operands: Sequence[int], templates: Sequence[Template]
) -> str:
    """Straight-line glue that makes `calls`; operands as in `engine.machine.Stream`."""
    lines = [f"declare i64 @__dsa_{name}(i64, i64) nounwind" for name in CALLS]
    lines += [
        "define void @dsa_kernel(ptr %a0, i64 %a1, i64 %a2) nounwind {",
        "entry:",
        "  %v5 = alloca [64 x i64]",
        "  %v6 = ptrtoint ptr %v5 to i64",
    ]
    number = 10
    for call, first, second in calls:
        count = len(templates[first].open) if CALLS[call] == "issue" else 0
        for k in range(count):
            lines.append(f"  %v{number} = getelementptr i64, ptr %v5, i64 {k}")
            lines.append(f"  store i64 {operands[second + k]}, ptr %v{number}")
            number += 1
        where = "%v6" if count else str(second)
        lines.append(f"  %v{number} = call i64 @__dsa_{CALLS[call]}(i64 {first}, i64 {where})")
        number += 1
    return "\n".join([*lines, "  ret void", "}"]) + "\n"
