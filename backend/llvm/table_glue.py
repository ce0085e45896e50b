"""The glue of a static schedule: one loop over a table of what each core issues, and when.

A row of the table is template, start cycle, number of operands, and four words per operand: an operand is
the low bits of a kernel argument (shifted up and back down), masked, plus an offset. The ABI is that of
`glue.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Operand:
    """The low `bits` of kernel argument `argument`, sign-extended (-1: 0), plus `offset`."""

    argument: int
    bits: int
    offset: int


@dataclass(frozen=True)
class TimedIssue:
    """An instruction that starts at cycle `start`."""

    template: int
    start: int
    operands: tuple[Operand, ...]


_CODE = """\
declare i64 @"__dsa_issue"(i64, i64) nounwind
declare i64 @"__dsa_at"(i64, i64) nounwind

@"dsa_rows" = internal constant [{words} x i64] [{rows}]
@"dsa_begins" = internal constant [{ends} x i64] [{begins}]

define void @"dsa_kernel"(ptr %"args", i64 %"core", i64 %"cores") "no-jump-tables"="true" "no-builtins" \
"disable-tail-calls"="true" nounwind
{{
entry:
  %operands = alloca [{widest} x i64]
  %address = ptrtoint ptr %operands to i64
  %begin.at = getelementptr i64, ptr @"dsa_begins", i64 %"core"
  %first = load i64, ptr %begin.at
  %end.at = getelementptr i64, ptr %begin.at, i64 1
  %last = load i64, ptr %end.at
  %empty = icmp eq i64 %first, %last
  br i1 %empty, label %done, label %row
row:
  %at = phi i64 [ %first, %entry ], [ %next, %issue ]
  %row.at = getelementptr i64, ptr @"dsa_rows", i64 %at
  %template = load i64, ptr %row.at
  %start.at = getelementptr i64, ptr %row.at, i64 1
  %start = load i64, ptr %start.at
  %count.at = getelementptr i64, ptr %row.at, i64 2
  %count = load i64, ptr %count.at
  %body = add i64 %at, 3
  %bare = icmp eq i64 %count, 0
  br i1 %bare, label %issue, label %operand
operand:
  %number = phi i64 [ 0, %row ], [ %following, %operand ]
  %where = phi i64 [ %body, %row ], [ %after, %operand ]
  %argument.at = getelementptr i64, ptr @"dsa_rows", i64 %where
  %argument = load i64, ptr %argument.at
  %shift.at = getelementptr i64, ptr %argument.at, i64 1
  %shift = load i64, ptr %shift.at
  %mask.at = getelementptr i64, ptr %argument.at, i64 2
  %mask = load i64, ptr %mask.at
  %offset.at = getelementptr i64, ptr %argument.at, i64 3
  %offset = load i64, ptr %offset.at
  %value.at = getelementptr i64, ptr %"args", i64 %argument
  %raw = load i64, ptr %value.at
  %up = shl i64 %raw, %shift
  %down = ashr i64 %up, %shift
  %kept = and i64 %down, %mask
  %value = add i64 %kept, %offset
  %slot = getelementptr i64, ptr %operands, i64 %number
  store i64 %value, ptr %slot
  %following = add i64 %number, 1
  %after = add i64 %where, 4
  %more = icmp ult i64 %following, %count
  br i1 %more, label %operand, label %issue
issue:
  %next = phi i64 [ %body, %row ], [ %after, %operand ]
  %timed = call i64 @"__dsa_at"(i64 %start, i64 0)
  %issued = call i64 @"__dsa_issue"(i64 %template, i64 %address)
  %over = icmp eq i64 %next, %last
  br i1 %over, label %done, label %row
done:
  ret void
}}
"""


def build_table_glue(cores: Sequence[Sequence[TimedIssue]]) -> str:
    """The LLVM IR of a kernel whose cores issue what the schedule says."""
    words: list[int] = []
    begins = [0]
    widest = 1
    for issues in cores:
        for issue in issues:
            words += [issue.template, issue.start, len(issue.operands)]
            widest = max(widest, len(issue.operands))
            for operand in issue.operands:
                known = operand.argument < 0
                words += [
                    max(operand.argument, 0),
                    64 - operand.bits,
                    0 if known else -1,
                    operand.offset,
                ]
        begins.append(len(words))
    words = words or [0]
    return _CODE.format(
        words=len(words),
        rows=_constants(words),
        ends=len(begins),
        begins=_constants(begins),
        widest=widest,
    )


def _constants(words: Sequence[int]) -> str:
    return ", ".join(f"i64 {word}" for word in words)


_TABLE = re.compile(
    r'^@"dsa_(rows|begins)" = internal constant \[\d+ x i64\] \[(.*)\]$', re.MULTILINE
)


def read_table_glue(glue: str) -> list[list[TimedIssue]]:
    """What each core issues, from the text that `build_table_glue` made. Raises ValueError for another text."""
    tables = {
        name: [int(word[4:]) for word in body.split(", ")] for name, body in _TABLE.findall(glue)
    }
    if tables.keys() != {"rows", "begins"}:
        raise ValueError("the glue has no table of what is issued")
    rows, begins = tables["rows"], tables["begins"]
    return [list(_issues(rows, first, last)) for first, last in pairwise(begins)]


def _issues(rows: Sequence[int], at: int, end: int) -> Iterator[TimedIssue]:
    while at < end:
        template, start, count = rows[at : at + 3]
        at += 3
        operands = []
        for _ in range(count):
            argument, shift, mask, offset = rows[at : at + 4]
            operands.append(Operand(argument if mask else -1, 64 - shift, offset))
            at += 4
        yield TimedIssue(template, start, tuple(operands))
