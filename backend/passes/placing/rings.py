"""Which values share a ring, and where each ring has its home.

Values that are carried around a loop, come out of an `if`, accumulate in place or may be overwritten in place
are merged as long as their live ranges do not meet. A merged set is one ring; a value that could not be
merged with the place it must end up in is copied there.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import scf
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Block, Operation, SSAValue

from ... import formats
from ...dialects import tile
from ...dialects.locations import from_ir
from ...dialects.types import format_of, shape_of
from ...isa.table import Engine
from .joins import Joins
from .liveness import Interval, Positions, is_pointwise, live_ranges, number, overlap
from .walks import is_view, root_of, size_bytes


@dataclass(eq=False)
class Ring:
    """A set of values in one place. `first` is the operation in the home block before which it is acquired."""

    values: list[SSAValue]
    ranges: list[Interval]
    writers: set[Engine]
    home: Block | None = None
    first: Operation | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return shape_of(self.values[0].type)

    @property
    def fmt(self) -> formats.Format:
        """The format of an element."""
        return format_of(self.values[0].type)

    @property
    def bytes(self) -> int:
        """Bytes of a slot."""
        return size_bytes(self.values[0])


@dataclass
class Rings:
    """The rings of a program, by value, and by the operation before which they are acquired."""

    of: dict[SSAValue, Ring]
    acquired_before: dict[Operation, list[Ring]] = field(default_factory=dict)


def assign_rings(
    entry: Block, ops: Sequence[Operation], core: set[SSAValue], joins: Joins
) -> Rings:
    """The rings of all values below `entry` that need memory.

    Scalars of the control core do not, nor do results of fused operations that are made as parts of others.
    """
    positions = number(entry, joins)
    rings: dict[SSAValue, Ring] = {}
    for value in _memory_values(ops, core):
        if value.owner in joins:
            continue
        rings[value] = Ring([value], live_ranges(value, positions), {_writer(value)})
    for a, b in _mandatory(ops):
        if a in rings:
            _merge(rings, a, b)
    for a, b in _wishes(ops):
        _try_merge(rings, a, b)
    for a, b in _in_place(ops):
        if a in rings and b in rings and rings[a].writers == {Engine.VE} and _is_local(a, b):
            _try_merge(rings, a, b)
    result = Rings(rings)
    for ring in dict.fromkeys(rings.values()):
        _find_home(ring, positions)
        assert ring.first is not None
        result.acquired_before.setdefault(ring.first, []).append(ring)
    return result


def _memory_values(ops: Sequence[Operation], core: set[SSAValue]) -> Iterator[SSAValue]:
    """Values that own memory, in program order."""
    for op in ops:
        values: list[SSAValue] = list(op.results)
        if isinstance(op, scf.ForOp | scf.WhileOp):
            values += [arg for region in op.regions for arg in region.block.args]
        if isinstance(op, tile.ArgReduceOp | tile.AtomicListOp) and not op.result.uses:
            values.remove(op.result)  # it is not written
        for value in values:
            if value not in core and not is_view(value):
                yield value


def _writer(value: SSAValue) -> Engine:
    owner = value.owner
    if isinstance(owner, tile.LoadBoxOp | tile.GatherOp):
        return Engine.LD
    if isinstance(owner, tile.AtomicListOp):
        return Engine.ST
    # Any engine may write the result of a microkernel: not VE alone, in whose queue alone it could be overwritten.
    return Engine.MM if isinstance(owner, (tile.DotOp, *tile.MICROKERNELS)) else Engine.VE


def _mandatory(ops: Sequence[Operation]) -> Iterator[tuple[SSAValue, SSAValue]]:
    """Pairs that are one place by construction: a carried value inside and after its loop."""
    for op in ops:
        if isinstance(op, scf.ForOp):
            yield from zip(op.body.block.args[1:], op.results, strict=True)
        elif isinstance(op, scf.WhileOp):
            yield from zip(op.after_region.block.args, op.results, strict=True)


def _wishes(ops: Sequence[Operation]) -> Iterator[tuple[SSAValue, SSAValue]]:
    """Pairs that cost a copy unless they share a place, the dearest ones first."""
    for op in ops:
        if isinstance(op, tile.DotOp) and op.acc is not None:
            yield op.acc, op.result
        elif isinstance(op, tile.MICROKERNELS):
            places = tile.ints(op.in_place)
            yield from ((op.args[k], result) for k, result in zip(places, op.res) if k >= 0)
    for op in reversed(ops):  # inner loops first: they run more often
        if isinstance(op, scf.ForOp):
            yield from zip(_terminator(op.body.block).operands, op.body.block.args[1:], strict=True)
        elif isinstance(op, scf.WhileOp):
            before, after = op.before_region.block, op.after_region.block
            yield from zip(_terminator(after).operands, before.args, strict=True)
            yield from zip(_terminator(before).operands[1:], after.args, strict=True)
        elif isinstance(op, scf.IfOp):
            for region in op.regions:
                if region.blocks:
                    yield from zip(_terminator(region.block).operands, op.results, strict=True)
    for op in ops:
        if isinstance(op, scf.ForOp):
            yield from zip(op.iter_args, op.body.block.args[1:], strict=True)
        elif isinstance(op, scf.WhileOp):
            yield from zip(op.arguments, op.before_region.block.args, strict=True)


def _in_place(ops: Sequence[Operation]) -> Iterator[tuple[SSAValue, SSAValue]]:
    """Operands of elementwise operations that a result may overwrite."""
    for op in ops:
        if isinstance(op, tile.FusedOp):
            for index, arg in enumerate(op.args):
                if is_pointwise(op, index):
                    for result in op.results:
                        yield root_of(arg), result


def _is_local(a: SSAValue, b: SSAValue) -> bool:
    owner_a, owner_b = a.owner, b.owner
    return (
        isinstance(owner_a, Operation)
        and isinstance(owner_b, Operation)
        and owner_a.parent is owner_b.parent
    )


def _terminator(block: Block) -> Operation:
    last = block.last_op
    assert last is not None
    return last


def _try_merge(rings: dict[SSAValue, Ring], a: SSAValue, b: SSAValue) -> None:
    if a not in rings or b not in rings or rings[a] is rings[b]:
        return
    one, other = rings[a], rings[b]
    if one.shape != other.shape or one.fmt.bytes != other.fmt.bytes:
        return
    if not overlap(one.ranges, other.ranges):
        _merge(rings, a, b)


def _merge(rings: dict[SSAValue, Ring], a: SSAValue, b: SSAValue) -> None:
    one, other = rings[a], rings[b]
    if one is other:
        return
    one.values += other.values
    one.ranges += other.ranges
    one.writers |= other.writers
    for value in other.values:
        rings[value] = one


def _home_of(value: SSAValue) -> tuple[Block, Operation]:
    """The block a ring of this value alone is at home in, and the operation there that first writes it."""
    owner = value.owner
    op = owner if isinstance(owner, Operation) else owner.parent_op()
    assert op is not None and op.parent is not None
    return op.parent, op


def _find_home(ring: Ring, positions: Positions) -> None:
    """The innermost block that holds the homes of all values, and the first operation there that writes."""
    chains = [_enclosing(_home_of(value)[1]) for value in ring.values]
    common = set.intersection(*({block for block, _ in chain} for chain in chains))
    home = next(block for block, _ in chains[0] if block in common)
    writers = [op for chain in chains for block, op in chain if block is home]
    ring.home = home
    ring.first = min(writers, key=lambda op: positions.start[op])


def _enclosing(op: Operation) -> list[tuple[Block, Operation]]:
    """Every block around `op`, the innermost first, with the operation in it that holds `op`."""
    chain: list[tuple[Block, Operation]] = []
    at: Operation | None = op
    while at is not None and at.parent is not None:
        chain.append((at.parent, at))
        at = at.parent_op()
    return chain


_ASSIGNMENT = re.compile(r"\s*([A-Za-z_]\w*)\s*(?::[^=]*)?(?:[-+*/%&|^@]|//|<<|>>|\*\*)?=(?!=)")


def describe(ring: Ring, argument_names: tuple[str, ...]) -> tuple[str, LocationAttr]:
    """A label and a location for reports.

    The label is the variable that the value's source line assigns, else the name of the operation; of a load, the
    argument that it reads, unless the line assigns just what it loads.
    """
    producers = [v.owner for v in ring.values if isinstance(v.owner, Operation)]
    producers.sort(key=lambda op: isinstance(op, scf.ForOp | scf.WhileOp | scf.IfOp))
    op = producers[0] if producers else _home_of(ring.values[0])[1]
    label = _variable(op) or op.name.split(".")[-1]
    if isinstance(op, tile.LoadBoxOp | tile.GatherOp):
        number_ = op.arg.value.data
        if 0 <= number_ < len(argument_names):
            label = (_variable(op) if _is_assigned(op) else None) or argument_names[number_]
    return label, op.location


def _source_line(op: Operation) -> str:
    """The source line of an operation, empty where it is not at hand."""
    loc = from_ir(op.location)
    return linecache.getline(loc.file, loc.line) if loc else ""


def _variable(op: Operation) -> str | None:
    """The variable that the source line of an operation assigns, if the line is at hand and does."""
    match = _ASSIGNMENT.match(_source_line(op))
    return match[1] if match else None


_LOADED = re.compile(r"[^=]*[^-+*/%&|^@<>=]=\s*(?:\w+\.)?load(?=\()")
_TURNED = re.compile(r"(\.\w+\([^()]*\)|\[[^\]]*\])*\s*(#.*)?$")


def _is_assigned(op: Operation) -> bool:
    """Whether the source line of a load assigns what is loaded, converted or turned at most: `x = load(...)[None, :]`.

    A call that goes on in the next line is taken to be the whole value.
    """
    line = _source_line(op)
    match = _LOADED.match(line)
    if match is None:
        return False
    depth = 0
    for at in range(match.end(), len(line)):
        depth += {"(": 1, ")": -1}.get(line[at], 0)
        if not depth:
            return _TURNED.match(line[at + 1 :]) is not None
    return True
