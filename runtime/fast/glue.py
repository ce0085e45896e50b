"""The glue's LLVM IR, rewritten to call straight into the host code of instructions.

The text is what `backend/llvm/glue.py` writes. Every call into the machine becomes a call with the core's
context, issues of a known template what `program.py` says, and after each the glue leaves when the run is over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dsalang._backend.errors import ImageError

from . import timing
from .common import load
from .context import RUN, Entry
from .outline import UnsuitedError

_HEAD = re.compile(
    r"^define void @dsa_kernel\(ptr %a0, i64 %a1, i64 %a2\) (?P<attributes>[^{]*)\{$"
)
_LABEL = re.compile(r"^(?P<name>[-\w.]+):$")
_CALL = re.compile(
    r"^  (?P<result>%\w+) = call i64 @__dsa_(?P<name>\w+)\(i64 (?P<first>\S+), i64 (?P<second>\S+)\)$"
)
_PHI_FROM = re.compile(r"%(?P<name>[-\w.]+)\]")
_ISSUE = re.compile(r"call i64 @issue\.(?P<template>\d+)\((?P<values>[^)]+)\)")
_RETURN = "  %end = call i64 @dsa.finish(ptr %c)\n  ret i64 %end"


@dataclass(frozen=True)
class Glue:
    """The rewritten text, the function `i64 dsa.run(ptr context, ptr args, i64 core, i64 cores)`.

    It still has calls `@issue.T(VALUES)` for the issue of template T with the operands at address VALUES (`issued`).

    `waited` are the semaphores that the control core waits for, None when they are not all known. `drains`
    maps templates that the control core waits for as soon as it has issued them to the semaphore.
    """

    text: str
    waited: frozenset[int] | None
    drains: Mapping[int, int]

    def issued(self, issue: Callable[[int, str], str]) -> str:
        """The text, with `issue(template, values)` in place of issues: a call `@function(...)` whose result is i64."""
        return _ISSUE.sub(lambda m: "call i64 " + issue(int(m["template"]), m["values"]), self.text)


def rewrite(glue: str, templates: int) -> Glue:
    """Rewrite the glue of an image with `templates` templates. Raises ImageError for text of another kind."""
    lines: list[str] = []
    last: dict[str, str] = {}  # per block of the original, the block in which it now ends
    block = ""
    waited: set[int] | None = set()
    calls = 0
    issued: int | None = None  # the template of the call before, in the same block
    drains: dict[int, int] = {}
    loose: set[int | None] = set()  # templates issued without such a wait
    for line in glue.splitlines():
        if line.startswith("declare ") or not line:
            continue
        if head := _HEAD.match(line):
            # its code runs between instructions, which cost far more than it: LLVM is to spend no time on it
            line = (
                f"define i64 @{RUN}(ptr %c, ptr %a0, i64 %a1, i64 %a2) "
                f"{head['attributes']} noinline optnone {{"
            )
        elif line == "  ret void":
            line = _RETURN
        elif label := _LABEL.match(line):
            loose.add(issued)
            block, issued = label["name"], None
            last[block] = block
        elif call := _CALL.match(line):
            calls += 1
            last[block] = f"go{calls}"
            known = call["first"].isdecimal()
            if call["name"] == "wait":
                waited = waited | {int(call["first"])} if known and waited is not None else None
                if (
                    issued is not None
                    and known
                    and drains.get(issued, int(call["first"])) == int(call["first"])
                ):
                    drains[issued] = int(call["first"])
                    issued = None
            loose.add(issued)
            issued = int(call["first"]) if call["name"] == "issue" and known else None
            lines += _call(call, templates, calls)
            continue
        elif "__dsa_" in line:
            raise ImageError("the image's glue was not written by this version of dsalang")
        lines.append(line)
    loose.add(issued)
    text = "\n".join(_phi(line, last) if "= phi " in line else line for line in lines)
    if lines[-1] != "}":
        raise ImageError("the image's glue is cut off")
    stopped = load("%status", Entry.STATUS) + "  ret i64 %status\n"
    text = f"{text[:-1]}stopped:\n{stopped}}}\n"
    drains = {t: sem for t, sem in drains.items() if t not in loose}
    return Glue(text, None if waited is None else frozenset(waited), drains)


def _call(call: re.Match[str], templates: int, number: int) -> list[str]:
    name, first, second = call["name"], call["first"], call["second"]
    function = f"@dsa.{name}(ptr %c, i64 {first}, i64 {second})"
    if name == "at":
        raise UnsuitedError("an instruction with a fixed start in an image without a schedule")
    if name == "issue":
        if not first.isdecimal() or int(first) >= templates:
            raise ImageError(f"the control core issues template {first}, which does not exist")
        function = f"@issue.{first}({second})"
    elif name == "wait":
        function = f"@dsa.append(ptr %c, i64 {timing.WAIT}, i64 {first}, i64 0, i64 -1)"
    status = call["result"]
    extra = []
    if name == "read":
        status = f"%status{number}"
        extra = [f"  {status} = call i64 @dsa.status(ptr %c)"]
    return [
        f"  {call['result']} = call i64 {function}",
        *extra,
        f"  %stop{number} = icmp ne i64 {status}, 0",
        f"  br i1 %stop{number}, label %stopped, label %go{number}",
        f"go{number}:",
    ]


def _phi(line: str, last: dict[str, str]) -> str:
    return _PHI_FROM.sub(lambda match: f"%{last[match['name']]}]", line)
