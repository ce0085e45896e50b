"""skew: loops whose engines hand work to and fro start the next iteration before they end this one.

In a loop where an engine feeds another one that feeds it back (attention: a product, its softmax, a product),
the in-order queue of the first engine makes the next iteration's work wait for the whole round trip. The loop
is rotated: it issues the first half of iteration i + 1, then the second half of iteration i,

    for t = lb - step to ub:
        if t + step < ub: first half of t + step
        if t >= lb:       second half of t

What the first half writes for the second stays in its slot for one turn of the ring more (`dsa.held`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.builder import Builder
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IntegerAttr, IntegerType, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from ..dialects import dsa
from ..target import Target
from .effects import constant_of, copied, terminator
from .skew_stages import Stages, find_stages
from .sram import fit, pipelined_slots, ring_uses

LEAST_TRIPS = 3
"""A loop of fewer iterations is left as it is."""


def skew(module: ModuleOp, target: Target) -> None:
    """Rotate the loops that profit from it, where nothing forbids it and the longer lives fit the SRAM."""
    for kernel in module.ops:
        if isinstance(kernel, func.FuncOp):
            _skew_below(kernel.body.block, kernel, target)


def _skew_below(block: Block, kernel: func.FuncOp, target: Target) -> bool:
    """Rotate loops below a block, inner ones first; a loop around a rotated one stays."""
    rotated = False
    for op in list(block.ops):
        inside = False
        for region in op.regions:
            for inner in region.blocks:
                inside |= _skew_below(inner, kernel, target)
        if not inside and isinstance(op, scf.ForOp) and _is_long(op):
            stages = find_stages(op, kernel)
            if stages is not None and _fits(kernel, stages, target):
                _Rotation(op, stages).run()
                inside = True
        rotated |= inside
    return rotated


def _is_long(loop: scf.ForOp) -> bool:
    lb, ub, step = (constant_of(v) for v in (loop.lb, loop.ub, loop.step))
    return lb is None or ub is None or not step or -(-(ub - lb) // step) >= LEAST_TRIPS


def _fits(kernel: func.FuncOp, stages: Stages, target: Target) -> bool:
    """Whether what is loaded can still be double-buffered when crossing values take two slots each."""
    uses = ring_uses(kernel)
    slots = pipelined_slots(uses)
    slots = [2 if use.slot in stages.crossing else n for use, n in zip(uses, slots, strict=True)]
    return fit(uses, slots, target, exact=False) is not None


@dataclass
class _Half:
    """One half of the rotated loop: under which condition it runs what, with which values.

    `ops` is what it starts with, `values` maps the old loop's values to its own, `carried` are its carried
    values and `following` the old loop's values that come after them.
    """

    predicate: str
    counter: SSAValue
    bound: SSAValue
    values: dict[SSAValue, SSAValue]
    carried: Sequence[SSAValue]
    following: Sequence[SSAValue]
    ops: list[Operation] = field(default_factory=list)


class _Rotation:
    """Replaces a loop by its rotation."""

    def __init__(self, loop: scf.ForOp, stages: Stages) -> None:
        self.loop, self.stages = loop, stages
        self.old = loop.body.block

    def run(self) -> None:
        """Build the new loop in place of the old one."""
        loop, old, needed = self.loop, self.old, self.stages.carried
        assert loop.parent is not None
        inits = [*loop.iter_args, *(loop.iter_args[k] for k in needed)]
        body = Block(arg_types=[old.args[0].type, *(value.type for value in inits)])
        new = scf.ForOp(self.start(), loop.ub, loop.step, inits, body)
        new.attributes.update(loop.attributes)
        new.location = loop.location
        b = Builder(InsertPoint.at_end(body))
        ahead = self.located(b.insert(arith.AddiOp(body.args[0], loop.step))).results[0]
        count = len(loop.iter_args)
        yielded = terminator(old).operands
        first = _Half(
            "slt", ahead, loop.ub, {old.args[0]: ahead},
            body.args[1 + count :], [yielded[k] for k in needed],
        )  # fmt: skip
        second = _Half(
            "sge",
            body.args[0],
            loop.lb,
            {old.args[0]: body.args[0]},
            body.args[1 : 1 + count],
            yielded,
        )
        first.values.update(
            {old.args[1 + k]: v for k, v in zip(needed, first.carried, strict=True)}
        )
        second.values.update(zip(old.args[1:], second.carried, strict=True))
        self.cross(b, first, second)
        early = self.half(b, first, self.stages.first)
        late = self.half(b, second, self.stages.second)
        self.located(b.insert(scf.YieldOp(*late, *early)))
        loop.parent.insert_op_before(new, loop)
        for result, value in zip(loop.results, new.results[:count], strict=True):
            result.replace_all_uses_with(value)
        loop.parent.erase_op(loop)

    def located(self, op: Operation) -> Operation:
        """`op`, at the loop's place in the source."""
        op.location = self.loop.location
        return op

    def start(self) -> SSAValue:
        """The counter of the turn before the first iteration."""
        loop = self.loop
        lb, step, type_ = constant_of(loop.lb), constant_of(loop.step), loop.lb.type
        op: Operation = arith.SubiOp(loop.lb, loop.step)
        if lb is not None and step is not None and isinstance(type_, IntegerType):
            op = arith.ConstantOp(IntegerAttr(lb - step, type_))
        assert loop.parent is not None
        loop.parent.insert_op_before(self.located(op), loop)
        return op.results[0]

    def cross(self, b: Builder, first: _Half, second: _Half) -> None:
        """Acquire, on the level of the loop, what both halves use: the second half uses the slot of the turn before."""
        for acquire in self.old.ops:
            if isinstance(acquire, dsa.AcquireOp) and acquire.result in self.stages.crossing:
                again = dsa.AcquireOp(acquire.ring)
                held = dsa.HeldOp(again.result, 1)
                again.location = held.location = acquire.location
                b.insert(again)
                second.ops.append(held)
                first.values[acquire.result] = again.result
                second.values[acquire.result] = held.result

    def half(self, b: Builder, half: _Half, ops: Sequence[Operation]) -> Sequence[SSAValue]:
        """Emit a half under its condition; the values that it carries on."""
        condition = self.located(
            b.insert(arith.CmpiOp(half.counter, half.bound, half.predicate))
        ).results[0]
        run = Block([*half.ops, *(copied(op, half.values) for op in ops)])
        passed = [half.values.get(value, value) for value in half.following]
        run.add_op(self.located(scf.YieldOp(*passed)))
        skip = Block([self.located(scf.YieldOp(*half.carried))]) if half.carried else None
        types = [value.type for value in half.carried]
        guard = scf.IfOp(condition, types, [run], [skip] if skip else None)
        return self.located(b.insert(guard)).results
