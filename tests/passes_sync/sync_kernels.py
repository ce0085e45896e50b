"""Kernels in dsa IR from a short form: rings, and nested lists of steps.

A step is a tuple: ("acq", ring), ("held", ring, age, a name for the older slot), ("ld", ring, *index rings), ("st", ring, *index rings), ("gather", ring, offsets),
("atomic", operand, offsets, old), ("mm", a, b, d), ("ve", inputs, outputs), ("read", ring), ("for", steps),
("if", then, otherwise), ("while", before, after), ("set" or "wait", engine, semaphore). Memory steps end with an optional {"arg": n}.
The kernel's steps are the grid loop's body. Every op gets its own line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp, i1, i32
from xdsl.ir import Block, Operation, Region, SSAValue

from dsalang._backend.dialects import dsa
from dsalang._backend.dialects.locations import to_ir
from dsalang._backend.dialects.tile import i64_array
from dsalang._backend.errors import Loc
from dsalang._backend.isa.table import Engine
from dsalang._backend.target import Target

EDGE = Target.by_name("edge")


def machine(semaphores: int = 32, most: int = 15) -> Target:
    """The edge target with other semaphores."""
    return replace(EDGE, semaphores=semaphores, semaphore_max=most)


@dataclass(frozen=True)
class R:
    """A ring: slots, and where it is (None: in memory of its own)."""

    slots: int = 2
    at: int | None = None
    bytes: int = 64


class _Maker:
    def __init__(self) -> None:
        self.line = 0
        self.rings: dict[str, SSAValue] = {}
        self.slots: dict[str, SSAValue] = {}
        self.values: dict[str, SSAValue] = {}

    def put(self, block: Block, op: Operation) -> Operation:
        self.line += 1
        op.location = to_ir(Loc("k.py", self.line, 1))
        block.add_op(op)
        return op

    def body(self, steps: Sequence[Any], end: Operation, args: Sequence[Any] = ()) -> Block:
        block = Block(arg_types=list(args))
        for step in steps:
            self.step(block, step)
        block.add_op(end)
        return block

    def step(self, block: Block, step: Any) -> None:
        kind, *rest = step
        options = rest.pop() if rest and isinstance(rest[-1], dict) else {}
        if kind == "acq":
            op = self.put(block, dsa.AcquireOp(self.rings[rest[0]]))
            self.slots[rest[0]] = op.results[0]
        elif kind == "held":
            name, age, alias = rest
            op = self.put(block, dsa.HeldOp(self.slots[name], age))
            self.slots[alias] = op.results[0]
        elif kind == "for":
            v = self.values
            body = self.body(rest[0], scf.YieldOp(), [i32])
            self.put(block, scf.ForOp(v["lb"], v["ub"], v["step"], [], body))
        elif kind == "if":
            arms = [Region(self.body(arm, scf.YieldOp())) for arm in rest]
            self.put(block, scf.IfOp(self.values["c"], [], *arms))
        elif kind == "while":
            before = self.body(rest[0], scf.ConditionOp(self.values["c"]))
            after = self.body(rest[1], scf.YieldOp())
            self.put(block, scf.WhileOp([], [], Region(before), Region(after)))
        elif kind in ("set", "wait"):
            make = dsa.SetOp if kind == "set" else dsa.WaitOp
            self.put(block, make(Engine[rest[0]], rest[1]))
        elif kind == "read":
            self.put(block, dsa.ReadOp(self.slots[rest[0]], 0, "int32", i32))
        else:
            self.put(block, self.issue(kind, rest, options))

    def issue(self, kind: str, names: Sequence[Any], options: dict[str, int]) -> Operation:
        s = self.slots
        arg = options.get("arg")
        if kind in ("ld", "st"):
            bound = {f"index.{d}": s[n] for d, n in enumerate(names[1:])}
            name = "dma.load" if kind == "ld" else "dma.store"
            return dsa.IssueOp(name, {"sram": s[names[0]], **bound}, {"elem_bytes": 4}, hbm_arg=arg)
        if kind in ("gather", "scatter"):
            bound = {"sram": s[names[0]], "offset": s[names[1]]}
            return dsa.IssueOp(f"dma.{kind}", bound, {"elem_bytes": 4}, hbm_arg=arg)
        if kind == "atomic":
            bound = dict(zip(("sram", "offset", "old"), (s[n] for n in names)))
            return dsa.IssueOp("dma.atomic", bound, {"elem_bytes": 4}, hbm_arg=arg)
        if kind == "mm":
            return dsa.IssueOp("mma", dict(zip("abd", (s[n] for n in names))), {})
        assert kind == "ve", kind
        bound = {f"in.{d}": s[n] for d, n in enumerate(names[0])}
        bound |= {f"out.{d}": s[n] for d, n in enumerate(names[1])}
        return dsa.IssueOp("vexec", bound, {}, program="")


def kernel(
    rings: dict[str, R],
    steps: Sequence[Any],
    alias: Sequence[int] | None = None,
    credits: Sequence[int] | None = None,
) -> ModuleOp:
    """A module with one kernel; pointer arguments do not alias unless `alias` says so."""
    maker = _Maker()
    top = Block(arg_types=[i32, i1])
    free = 1 << 16
    for name, ring in rings.items():
        at = free if ring.at is None else ring.at
        free += 0 if ring.at is not None else 64 * 16
        op = dsa.RingOp(name, ring.bytes, [ring.bytes // 4], "fp32", ring.slots, at)
        maker.rings[name] = maker.put(top, op).results[0]
    core = maker.put(top, dsa.CoreIdOp()).results[0]
    cores = maker.put(top, dsa.NumCoresOp()).results[0]
    maker.values = {"lb": core, "ub": top.args[0], "step": cores, "c": top.args[1]}
    body = maker.body(steps, scf.YieldOp(), [i32])
    maker.put(top, scf.ForOp(core, top.args[0], cores, [], body))
    top.add_op(func.ReturnOp())
    function = func.FuncOp("k", ([i32, i1], []), Region(top))
    function.attributes["dsa.alias"] = i64_array(range(8) if alias is None else alias)
    if credits is not None:
        function.attributes["dsa.credits"] = i64_array(credits)
    module = ModuleOp([function])
    module.verify()
    return module


def pair_count(module: ModuleOp) -> int:
    """The number of sets."""
    return sum(isinstance(op, dsa.SetOp) for op in module.walk())


def steps_text(module: ModuleOp) -> str:
    """The kernel's signals and instructions in order, nesting shown, one a line: for reading and comparing."""
    lines: list[str] = []
    names = ("LD", "ST", "MM", "VE", "CORE")

    def block(b: Block, indent: str) -> None:
        for op in b.ops:
            if isinstance(op, (dsa.SetOp, dsa.WaitOp)):
                lines.append(
                    f"{indent}{names[op.engine.value.data]} {op.name[4:]} {op.sem.value.data}"
                )
            elif isinstance(op, dsa.IssueOp):
                lines.append(f"{indent}{op.op.data}")
            elif isinstance(op, dsa.ReadOp):
                lines.append(f"{indent}read")
            elif op.regions:
                lines.append(f"{indent}{op.name[4:]}")
                for n, region in enumerate(op.regions):
                    if n:
                        lines.append(f"{indent}--")
                    if region.blocks:
                        block(region.block, indent + "  ")

    function = next(iter(module.ops))
    block(function.regions[0].block, "")
    return "\n".join(lines)
