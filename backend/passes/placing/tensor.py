"""Tensor engine: `tile.dot` as matrix multiply-accumulate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from ...dialects import tile
from ...dialects.locations import from_ir
from ...errors import CompileError
from ...formats import Format
from ...isa.table import SCALE_BLOCK
from . import glue
from .constants import is_zeros
from .emit import Fields, Operand, Placement, View
from .rings import Ring, Rings
from .vector import contiguous, copy, in_sram


@dataclass
class Accumulators:
    """How accumulators start at zero without a vector pass.

    `fresh`: dots whose accumulator is all zeros. `first`: dots that start from zero in the first iteration of a
    loop. `skipped`: the constant tiles nobody has to write then. `cleared`: those that the tensor engine writes
    itself, because nobody else writes their ring, with a dot that uses it.
    """

    fresh: set[Operation] = field(default_factory=set)
    first: dict[tile.DotOp, scf.ForOp] = field(default_factory=dict)
    skipped: set[Operation] = field(default_factory=set)
    cleared: dict[Operation, tile.DotOp] = field(default_factory=dict)


def find_accumulators(ops: Sequence[Operation], rings: Rings) -> Accumulators:
    """Find the accumulators that are zeros, alone or carried around one loop and written by one dot there."""
    found = Accumulators()
    for op in ops:
        if not isinstance(op, tile.DotOp) or op.acc is None:
            continue
        if is_zeros(op.acc) and op.acc.has_one_use():
            found.fresh.add(op)
            found.skipped.add(_owner(op.acc))
            continue
        loop = op.parent_op()
        if not isinstance(loop, scf.ForOp) or op.acc not in loop.body.block.args[1:]:
            continue
        k = loop.body.block.args.index(op.acc) - 1
        init, yielded = loop.iter_args[k], _terminator(loop.body.block).operands[k]
        ring = rings.of[op.acc]
        # Whatever else is in the ring at other times, nobody needs it between the zeros and the loop.
        in_place = {init, op.acc, op.result, loop.results[k]} <= set(ring.values)
        alone = yielded is op.result and op.acc.has_one_use() and init.has_one_use()
        if in_place and alone and is_zeros(init):
            found.first[op] = loop
            found.skipped.add(_owner(init))
    for op in ops:
        if isinstance(op, tile.DotOp) and op.acc is not None:
            for value in _zeros_of(rings.of[op.result]):
                if _owner(value) not in found.skipped:
                    found.cleared[_owner(value)] = op
    return found


def _zeros_of(ring: Ring) -> list[SSAValue]:
    """The constant zeros of a ring that only dots write otherwise; none if a vector instruction does."""
    made = [value for value in ring.values if isinstance(value.owner, Operation)]
    made = [v for v in made if not isinstance(v.owner, scf.ForOp | scf.WhileOp | scf.IfOp)]
    zeros = [value for value in made if is_zeros(value)]
    dots = [value for value in made if isinstance(value.owner, tile.DotOp)]
    return zeros if len(zeros) + len(dots) == len(made) else []


def _owner(value: SSAValue) -> Operation:
    assert isinstance(value.owner, Operation)
    return value.owner


def _terminator(block: Block) -> Operation:
    last = block.last_op
    assert last is not None
    return last


def clear_before_loop(p: Placement, dot: tile.DotOp, loop: scf.ForOp) -> None:
    """Zero the accumulator of a loop that may not run at all, on the tensor engine."""
    bounds = [p.operand(v) for v in (loop.lb, loop.ub)]
    if all(isinstance(b, int) for b in bounds) and bounds[0] < bounds[1]:  # type: ignore[operator]
        return
    lb, ub = p.core(loop.lb), p.core(loop.ub)
    body = Block()
    guard = scf.IfOp(glue.compare(p, "sge", lb, ub), [], [body])
    with p.block(body):
        clear(p, dot, p.view(dot.result))
        p.emit(scf.YieldOp())
    p.emit(guard)


def clear(p: Placement, dot: tile.DotOp, target: View) -> None:
    """Write zeros with the tensor engine: a product of length 0."""
    a, b = (Side(_nothing(target, fmt), fmt, None) for fmt in dot.formats)
    m, n = target.shape[-2:]
    _issue(p, a, b, target, (m, n, 0), 0)


def _nothing(view: View, fmt: Format) -> View:
    """An operand of a product of length 0: no bytes at the start of `view`."""
    shape = (*view.shape[:-2], 1, 1)
    return View(view.slot, view.offset, shape, (0,) * len(shape), fmt)


def place_dot(p: Placement, op: tile.DotOp, accumulators: Accumulators) -> None:
    """A dot; an accumulator in another place is copied to the result's first."""
    _check_formats(p, op)
    target = p.view(op.result)
    accumulate: Operand = 1
    if op.acc is None or op in accumulators.fresh:
        accumulate = 0
    elif op in accumulators.first:
        loop = accumulators.first[op]
        accumulate = glue.compare(p, "ne", p.core(loop.body.block.args[0]), p.core(loop.lb))
    elif p.view(op.acc) != target:
        copy(p, p.view(op.acc), target)
    a, b = _sides(p, op)
    m, n, k, limit = a.view.shape[-2], b.view.shape[-1], op.k, p.target.tensor.max_dim
    step = limit - limit % SCALE_BLOCK or limit  # scales begin with a block
    _check_pieces(p, op, (m, n, k))
    for i in range(0, m, limit):
        for j in range(0, n, limit):
            part = target.shifted(i * target.strides[-2] + j * target.strides[-1])
            for at in range(0, k, step):
                size = (min(limit, m - i), min(limit, n - j), min(step, k - at))
                left, right = a.shifted(i, at, (-2, -1)), b.shifted(j, at, (-1, -2))
                _issue(p, left, right, part, size, accumulate if at == 0 else 1)


@dataclass(frozen=True)
class Side:
    """A or B of a product: where it is, what its elements hold, and its scales [M or N, ⌈K / 32⌉]."""

    view: View
    fmt: Format
    scales: View | None

    def shifted(self, along: int, k: int, dims: tuple[int, int]) -> Side:
        """From row `along` of A (column of B) and number k on; `dims` are those two of the view."""
        strides = [self.view.strides[d] for d in dims]
        view = self.view.shifted(along * strides[0] + k // self.fmt.per_element * strides[1])
        scales = self.scales
        if scales is not None:
            scales = scales.shifted(along * scales.strides[-2] + k // SCALE_BLOCK)
        return Side(view, self.fmt, scales)


def _sides(p: Placement, op: tile.DotOp) -> list[Side]:
    sides = []
    operands = ((op.a, op.scale_a), (op.b, op.scale_b))
    for (value, scale), fmt in zip(operands, op.formats):
        scales = None if scale is None else in_sram(p, scale)
        if scales is not None and scales.strides[-1] != 1 and scales.shape[-1] > 1:
            scales = contiguous(p, scales)
        sides.append(Side(_unit_stride(p, in_sram(p, value)), fmt, scales))
    return sides


MAX_PIECES = 1024
"""The most instructions that one product becomes; they are written out one after the other."""


def _check_pieces(p: Placement, op: tile.DotOp, size: tuple[int, int, int]) -> None:
    limit = p.target.tensor.max_dim
    pieces = math.prod(-(-dim // limit) for dim in size)
    if pieces > MAX_PIECES:
        m, n, k = size
        raise CompileError(
            f"a product of {m}×{k} by {k}×{n} takes {pieces} instructions on target {p.target.name!r}, whose "
            f"tensor engine takes {limit} rows and columns at most (tensor.max_dim); {MAX_PIECES} are allowed",
            from_ir(op.location),
            "use smaller blocks, or a loop over them",
        )


def _check_formats(p: Placement, op: tile.DotOp) -> None:
    rates = p.target.tensor.macs_per_cycle
    for name in (fmt.name for fmt in op.formats):
        if name not in rates:
            raise CompileError(
                f"the tensor engine of target {p.target.name!r} does not multiply {name}",
                from_ir(op.location),
                f"convert the operands to one of {', '.join(rates)}",
            )
    mixed = op.formats[0].is_float != op.formats[1].is_float
    if any(not op.takes_scale(scale) for scale in (op.scale_a, op.scale_b)) or (
        not p.target.tensor.block_scales and (mixed or op.scale_a or op.scale_b)
    ):
        raise CompileError(
            f"the tensor engine of target {p.target.name!r} does not take these operands with their scales, "
            "and multiplies no wider format",
            from_ir(op.location),
            f"multiply one of {', '.join(rates)} without scales",
        )


def _unit_stride(p: Placement, view: View) -> View:
    """The view, or a packed copy when neither of its last two dims has neighbouring elements."""
    return view if _is_plain(view) or _is_transposed(view) else contiguous(p, view)


def _is_plain(view: View) -> bool:
    return view.strides[-1] == view.fmt.bytes or view.shape[-1] == 1


def _is_transposed(view: View) -> bool:
    return view.strides[-2] == view.fmt.bytes or view.shape[-2] == 1


def _issue(
    p: Placement,
    a: Side,
    b: Side,
    d: View,
    size: tuple[int, int, int],
    accumulate: Operand,
) -> None:
    m, n, k = size
    fields = Fields(
        fmt_a=a.fmt.code,
        fmt_b=b.fmt.code,
        fmt_d=d.fmt.code,
        batch=d.shape[0] if len(d.shape) == 3 else 1,
        m=m,
        n=n,
        k=k,
        ldd=d.strides[-2],
        batch_d=d.strides[0] if len(d.shape) == 3 else 0,
    )
    for name, side in (("a", a), ("b", b)):
        view = side.view
        plain = _is_plain(view)
        fields.put(f"trans_{name}", int(not plain))
        fields.put(f"ld{name}", view.strides[-2] if plain else view.strides[-1])
        fields.put(f"batch_{name}", view.strides[0] if len(view.shape) == 3 else 0)
        fields.put_view(name, view)
        if side.scales is not None:
            scales = side.scales
            fields.put_view(f"scale_{name}", scales)
            fields.put(f"ld_scale_{name}", scales.strides[-2])
            fields.put(f"batch_scale_{name}", scales.strides[0] if len(scales.shape) == 3 else 0)
    fields.put_view("d", d)
    fields.put("accumulate", accumulate)
    fields.issue(p, "mma")
