"""reduce: along one dim, in the defined order of partial results.

Where the axis is contiguous, a vector holds the sixteen partial results of one row; else a vector holds one result
per lane, and a float sum keeps sixteen such vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ... import formats
from ...formats import Format
from ...isa.table import ReduceKind
from . import lanes, reduce_rows
from .build import I32, Bool, Int, Value, constant, list_constant, vector
from .folds import CHAINS, Fold
from .unit import Unit
from .walk import Elements, Space, injective, load_elements, mask_below, merge, store_elements

PARTIALS = 16
INT32 = formats.by_name("int32")
_CHAINS = 4
"""Independent partial results where the order is free: they hide the latency of the operation."""
_NOWHERE = (1 << 31) - 1


@dataclass
class _Output:
    """Values or positions: where they go."""

    fmt: Format
    address: Int
    strides: list[Int]
    range: tuple[Int, Int]
    positions: bool
    pointer: Value = None
    kept: Value | None = None


class _Reduce:
    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        ndim, self.axis = unit.static("ndim"), unit.static("axis")
        self.fmt = formats.BY_CODE[unit.static("fmt")]
        self.fold = Fold(ReduceKind(unit.static("kind")), self.fmt)
        size, strides = unit.entries("size", ndim), unit.entries("in_stride", ndim)
        self.address = unit.field("in")
        self.range = unit.check_sram(self.address, size, strides, self.fmt.bytes)
        self.length, self.step = size[self.axis], strides[self.axis]
        self.size = _without(size, self.axis)
        self.strides = _without(strides, self.axis)
        self.source = unit.at(unit.sram, self.address)
        self.outputs = [
            self._output(name, ndim) for name in ("out", "arg") if unit.present(unit.field(name))
        ]
        self.positions = any(o.positions for o in self.outputs)

    def _output(self, name: str, ndim: int) -> _Output:
        unit = self.unit
        fmt = INT32 if name == "arg" else self.fmt
        strides = _without(unit.entries(f"{name}_stride", ndim), self.axis)
        address = unit.field(name)
        range_ = unit.check_sram(address, self.size, strides, fmt.bytes)
        return _Output(fmt, address, strides, range_, name == "arg")

    @property
    def lanes(self) -> int:
        """Elements per vector; a float sum needs the sixteen."""
        if self.fmt.is_float:
            return PARTIALS
        many: int = self.unit.host.vector_bytes // self.fmt.bytes
        return min(many, PARTIALS) if self.positions else many


def _without(entries: Sequence[Int], axis: int) -> list[Int]:
    return [e for d, e in enumerate(entries) if d != axis]


def emit(unit: Unit) -> None:
    """The body of a reduce."""
    r = _Reduce(unit)
    for output in r.outputs:
        clash: Bool = unit.overlaps(output.range, r.range)
        for other in r.outputs:
            if other is not output:
                clash = unit.either(clash, unit.overlaps(output.range, other.range))
        own = unit.at(unit.sram, output.address)
        output.pointer, output.kept = unit.redirect(
            clash, own, output.range, output.address, copy_in=False
        )
    space = merge(unit, r.size, [r.strides, *(o.strides for o in r.outputs)])
    dim = _vector_dim(r, space.sizes, space.strides)
    if dim is None and _plain_rows(r):
        _rows_together(r, space)
    elif dim is None:
        unit.walk(space.sizes, space.strides, lambda at: _row(r, at))
    else:
        _lanes(r, space.sizes, space.strides, dim)
    for output in r.outputs:
        own, element = unit.at(unit.sram, output.address), lanes.storage(output.fmt)
        unit.finish(output.kept, output.pointer, own, r.size, output.strides, element)


def _vector_dim(r: _Reduce, sizes: Sequence[Int], strides: Sequence[Sequence[Int]]) -> int | None:
    """The dim of the results that runs in vectors, None when the axis does."""
    if isinstance(r.step, int) and abs(r.step) == r.fmt.bytes:
        return None
    exact = all(injective(sizes, s, o.fmt.bytes) for s, o in zip(strides[1:], r.outputs))
    best = None
    for dim in range(len(sizes)) if exact else ():
        contiguous = isinstance(strides[0][dim], int) and strides[0][dim] == r.fmt.bytes
        known = isinstance(sizes[dim], int) and isinstance(r.length, int)
        if contiguous and known and sizes[dim] >= 4:
            best = dim
    return best


def _plain_rows(r: _Reduce) -> bool:
    """Whether there is a shared function for rows like these."""
    plain = r.fmt.name == "fp32" and isinstance(r.step, int) and r.step == r.fmt.bytes
    values = len(r.outputs) == 1 and not r.positions
    return plain and values and r.fold.kind in reduce_rows.KINDS


def _rows_together(r: _Reduce, space: Space) -> None:
    """Loops over the outer dims of the results around the shared function for the last one."""
    unit, (output,) = r.unit, r.outputs
    function = reduce_rows.rows(unit.module, r.fold.kind)
    sizes, strides = space.sizes or [1], [row or [0] for row in space.strides]
    step, out_step = (unit.i64(row[-1]) for row in strides)
    count, length = unit.i64(sizes[-1]), unit.i64(r.length)

    def call(at: list[Int]) -> None:
        source, target = unit.at(r.source, at[0]), unit.at(output.pointer, at[1])
        unit.b.call(function, [source, step, count, length, target, out_step])

    unit.walk(sizes[:-1], [row[:-1] for row in strides], call)


# The axis in vectors


def _row(r: _Reduce, at: Sequence[Int]) -> None:
    """One result."""
    unit, count = r.unit, r.lanes
    start = unit.at(r.source, at[0])

    def load(i: Int, mask: Value | None) -> Value:
        place = Elements(unit.at(start, unit.mul(i, r.step)), r.step, count, mask)
        value = r.fold.value(unit, load_elements(unit, r.fmt, place))
        return value if mask is None else unit.b.select(mask, value, r.fold.identity(count))

    result = r.fold.across(unit, _total(r, load))
    position: Value = None
    if r.positions:
        key = r.fold.key(unit, result)
        wanted = unit.shuffle(key, key, [0] * count)
        position = _first_position(r, wanted, load)
    _store(r, at[1:], r.fold.result(unit, result), position)


def _total(r: _Reduce, load: Callable[[Int, Value | None], Value]) -> Value:
    """The axis folded into one vector."""
    unit, count = r.unit, r.lanes
    start, done = r.fold.identity(count), 0
    block = _CHAINS * count
    if r.fold.kind not in CHAINS and isinstance(r.length, int) and r.length >= block:
        # the order is free
        done = r.length // block * block

        def turn(i: Int, *values: Value) -> list[Value]:
            places = [unit.add(i, j * count) for j in range(_CHAINS)]
            return [r.fold.fold(unit, v, load(p, None)) for v, p in zip(values, places)]

        chains = unit.loop(0, done, turn, step=block, carried=[start] * _CHAINS)
        start = chains[0]
        for value in chains[1:]:
            start = r.fold.fold(unit, start, value)

    def fold(i: Int, mask: Value | None, value: Value) -> Value:
        return r.fold.fold(unit, value, load(i, mask))

    return _over_axis(r, fold, start, done)


def _over_axis(
    r: _Reduce, step: Callable[[Int, Value | None, Value], Value], start: Value, done: int = 0
) -> Value:
    """Fold step(i, mask, value) over the vectors of the axis from element `done` on."""
    unit, count = r.unit, r.lanes
    if not isinstance(r.length, int):

        def turn(i: Int, value: Value) -> list[Value]:
            return [step(i, mask_below(unit, unit.sub(r.length, i), count), value)]

        return unit.loop(0, r.length, turn, step=count, carried=[start])[0]
    whole = r.length // count * count
    (value,) = unit.loop(done, whole, lambda i, v: [step(i, None, v)], step=count, carried=[start])
    if whole < r.length:
        value = step(whole, mask_below(unit, r.length - whole, count), value)
    return value


def _first_position(r: _Reduce, wanted: Value, load: Callable[[Int, Value | None], Value]) -> Value:
    """The first position on the axis whose key is `wanted`, in lane 0."""
    unit, count = r.unit, r.lanes
    type_ = vector(I32, count)

    def look(i: Int, mask: Value | None, first: Value) -> Value:
        found = unit.b.icmp_signed("==", r.fold.key(unit, load(i, mask)), wanted)
        if mask is not None:
            found = unit.b.and_(found, mask)
        return unit.math("smin", first, unit.b.select(found, _numbers(unit, i, count), no))

    no = constant(type_, _NOWHERE)
    first = _over_axis(r, look, no)
    return Fold(ReduceKind.SMIN, INT32).across(unit, first)


def _numbers(unit: Unit, i: Int, count: int) -> Value:
    """i, i + 1, …"""
    start = unit.splat(unit.b.trunc(unit.i64(i), I32), count)
    return unit.b.add(start, list_constant(I32, range(count)))


def _store(r: _Reduce, at: Sequence[Int], bits: Value, position: Value) -> None:
    """Lane 0 of the result to every output."""
    unit = r.unit
    for output, offset in zip(r.outputs, at):
        value = position if output.positions else lanes.to_memory(unit, bits, r.fmt)
        unit.store(unit.b.extract_element(value, constant(I32, 0)), output.pointer, offset)


# One result per lane


def _lanes(r: _Reduce, sizes: Sequence[Int], strides: Sequence[Sequence[Int]], dim: int) -> None:
    unit, size = r.unit, sizes[dim]
    count = _width(r)
    others = [s for d, s in enumerate(sizes) if d != dim]
    rest = [[s for d, s in enumerate(row) if d != dim] for row in strides]

    def piece(at: Sequence[Int], i: Int, valid: int) -> None:
        mask = mask_below(unit, valid, count)
        here = [unit.add(o, unit.mul(i, row[dim])) for o, row in zip(at, strides)]
        _piece(r, here, [row[dim] for row in strides], mask, count)

    def block(at: list[Int]) -> None:
        whole = size // count * count
        unit.loop(0, whole, lambda i: piece(at, i, count), step=count)
        if whole < size:
            piece(at, whole, size - whole)

    unit.walk(others, rest, block)


def _width(r: _Reduce) -> int:
    """Lanes of a vector of results."""
    if r.fold.kind in CHAINS or r.fmt.is_float:
        return r.unit.host.lanes
    return int(r.unit.host.vector_bytes // max(r.fmt.bytes, 4 if r.positions else 1))


def _piece(
    r: _Reduce, at: Sequence[Int], steps: Sequence[Int], mask: Value | None, count: int
) -> None:
    """One vector of results."""
    unit = r.unit
    start = unit.at(r.source, at[0])

    def load(i: Int) -> Value:
        place = Elements(unit.at(start, unit.mul(i, r.step)), steps[0], count, mask)
        return r.fold.value(unit, load_elements(unit, r.fmt, place))

    result = _fold_lanes(r, load, count)
    position: Value = None
    if r.positions:
        wanted, no = r.fold.key(unit, result), constant(vector(I32, count), _NOWHERE)

        def look(i: Int, first: Value) -> list[Value]:
            found = unit.b.icmp_signed("==", r.fold.key(unit, load(i)), wanted)
            here = unit.splat(unit.b.trunc(unit.i64(i), I32), count)
            return [unit.math("smin", first, unit.b.select(found, here, no))]

        (position,) = unit.loop(0, r.length, look, carried=[no])
    for output, offset, step in zip(r.outputs, at[1:], steps[1:]):
        bits = position if output.positions else r.fold.result(unit, result)
        place = Elements(unit.at(output.pointer, offset), step, count, mask)
        store_elements(unit, output.fmt, bits, place)


def _fold_lanes(r: _Reduce, load: Callable[[Int], Value], count: int) -> Value:
    """All of the axis folded, lane by lane, through as many partial results as the order asks for."""
    unit, length = r.unit, r.length
    assert isinstance(length, int)
    many = min(PARTIALS if r.fold.kind in CHAINS else _CHAINS, length)
    partials = [r.fold.identity(count)] * many

    def turn(i: Int, *values: Value) -> list[Value]:
        return [r.fold.fold(unit, v, load(unit.add(i, j))) for j, v in enumerate(values)]

    whole = length // many * many
    partials = unit.loop(0, whole, turn, step=many, carried=partials)
    for j in range(length - whole):
        partials[j] = r.fold.fold(unit, partials[j], load(whole + j))
    half = PARTIALS // 2
    while half:
        # a partial result without elements is the identity, which changes nothing
        for j in range(half):
            if j + half < len(partials):
                partials[j] = r.fold.fold(unit, partials[j], partials[j + half])
        partials = partials[:half]
        half //= 2
    return partials[0]
