"""The state of the place pass: what has been placed where, and how to add to the new program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, LocationAttr, UnknownLoc, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...dialects import arithmetic, dsa
from ...dialects.types import PtrType, format_of, int_type
from ...formats import Format
from ...target import Target
from .constants import constant_bits, signed
from .joins import Joins
from .rings import Ring, Rings, describe
from .walks import is_row_major, resolve, root_of, row_major

Operand = int | SSAValue
"""A number: known now, or a value of the control core."""


@dataclass(frozen=True)
class View:
    """A tile in SRAM: element (i0, …) is at slot + offset + Σ i_d * strides[d] bytes."""

    slot: SSAValue
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    fmt: Format

    @property
    def is_contiguous(self) -> bool:
        """True when the elements follow each other in row-major order."""
        return is_row_major(self.shape, self.strides, self.fmt.bytes)

    def shifted(self, offset: int) -> View:
        """The same walk, some bytes further on."""
        if offset == 0:
            return self
        return View(self.slot, self.offset + offset, self.shape, self.strides, self.fmt)


@dataclass
class Placement:
    """The new program under construction."""

    target: Target
    argument_names: tuple[str, ...]
    in_core: set[SSAValue]
    rings: Rings
    top: Block
    at: Block
    """The block at whose end operations are added."""
    joins: Joins = field(default_factory=dict)
    location: LocationAttr = field(default_factory=UnknownLoc)
    slots: dict[Ring, SSAValue] = field(default_factory=dict)
    scopes: list[dict[object, SSAValue]] = field(default_factory=lambda: [{}])
    last_ring: Operation | None = None
    """The last one of the declarations of rings, which stand at the top."""
    own_credits: list[int] = field(default_factory=list)
    """Initial counts of the semaphores that microkernels have declared; entry s is number -1 - s in the IR."""
    own_calls: list[str] = field(default_factory=list)
    """The calls of microkernels that keep their own order."""

    def emit(self, op: Operation) -> Operation:
        """Add an operation at the current place, with the current location."""
        op.location = self.location
        self.at.add_op(op)
        return op

    def result(self, op: Operation) -> SSAValue:
        """Add an operation and give its first result."""
        return self.emit(op).results[0]

    @contextmanager
    def block(self, block: Block) -> Iterator[Block]:
        """Add to the end of `block` meanwhile; what is defined there is forgotten afterwards."""
        outside, self.at = self.at, block
        self.scopes.append({})
        yield block
        self.scopes.pop()
        self.at = outside

    def define(self, key: object, value: SSAValue) -> None:
        """Remember a control-core value for the rest of the current block."""
        self.scopes[-1][key] = value

    def known(self, key: object) -> SSAValue | None:
        """The control-core value remembered under `key`, if it is visible here."""
        for scope in reversed(self.scopes):
            if key in scope:
                return scope[key]
        return None

    def constant(self, value: int, type_: Attribute) -> SSAValue:
        """An integer constant of the control core."""
        assert isinstance(type_, IntegerType)
        key = (value, type_.width.data)
        found = self.known(key)
        if found is None:
            found = self.result(arithmetic.constant(value, type_))
            self.define(key, found)
        return found

    def operand(self, value: SSAValue) -> Operand:
        """A scalar as a number known now, or as a control-core value; floats as their bits.

        A view of a scalar counts as the scalar.
        """
        root = root_of(value)
        if root not in self.rings.of:
            value = root
        if isinstance(value.owner, arith.ConstantOp):
            bits = constant_bits(value.owner)
            return (
                signed(bits, value.type.width.data) if isinstance(value.type, IntegerType) else bits
            )
        return self.core(value)

    def core(self, value: SSAValue) -> SSAValue:
        """A scalar as a control-core value, read from SRAM if it lives there; floats as their bits."""
        found = self.known(value)
        if found is not None:
            return found
        type_ = core_type(value.type)
        if isinstance(value.owner, arith.ConstantOp):
            return self.constant(signed(constant_bits(value.owner), type_.width.data), type_)
        view, fmt = self.view(value), format_of(value.type)
        read = dsa.ReadOp(view.slot, view.offset, fmt.name, type_)
        found = self.result(read)
        self.define(value, found)
        return found

    def as_value(self, operand: Operand, type_: Attribute = i64) -> SSAValue:
        """An operand as a control-core value."""
        return self.constant(operand, type_) if isinstance(operand, int) else operand

    def is_in_sram(self, value: SSAValue) -> bool:
        """True when the value's memory is a ring."""
        return root_of(value) in self.rings.of

    def view(self, value: SSAValue) -> View:
        """Where a value that lives in SRAM is."""
        walk = resolve(value)
        slot = self.slots[self.rings.of[walk.root]]
        return View(slot, walk.offset, walk.shape, walk.strides, format_of(value.type))

    def ring_view(self, ring: Ring) -> View:
        """The slot of a ring as a row-major tile."""
        return View(
            self.slots[ring], 0, ring.shape, row_major(ring.shape, ring.fmt.bytes), ring.fmt
        )

    def acquire(self, ring: Ring) -> None:
        """Declare a ring and acquire its slot here."""
        label, location = describe(ring, self.argument_names)
        self.slots[ring] = self._acquire(label, ring.shape, ring.fmt, location)

    def temporary(self, label: str, shape: Sequence[int], fmt: Format) -> View:
        """A new row-major tile that is at home in the current block."""
        slot = self._acquire(label, shape, fmt, self.location)
        return View(slot, 0, tuple(shape), row_major(shape, fmt.bytes), fmt)

    def _acquire(
        self, label: str, shape: Sequence[int], fmt: Format, location: LocationAttr
    ) -> SSAValue:
        bytes_ = fmt.bytes
        for size in shape:
            bytes_ *= size
        ring = dsa.RingOp(label, bytes_, shape, fmt.name)
        ring.location = location
        if self.last_ring is not None:
            self.top.insert_op_after(ring, self.last_ring)
        elif self.top.first_op is not None:
            self.top.insert_op_before(ring, self.top.first_op)
        else:
            self.top.add_op(ring)
        self.last_ring = ring
        return self.result(dsa.AcquireOp(ring.result))


def core_type(type_: Attribute) -> IntegerType:
    """The type of a scalar in the control core: pointers are i64, floats the integer of their width."""
    if isinstance(type_, IntegerType):
        return type_
    return i64 if isinstance(type_, PtrType) else int_type(format_of(type_).bits)


class Fields:
    """The fields of an instruction as they are collected: static ones and those bound to values."""

    def __init__(self, **static: int | Sequence[int]) -> None:
        self.static: dict[str, int | list[int]] = {
            name: value if isinstance(value, int) else list(value) for name, value in static.items()
        }
        self.bound: dict[str, SSAValue] = {}

    def put(self, name: str, value: Operand, entry: int | None = None) -> None:
        """Set a field, or an entry of an array field that is already there."""
        if isinstance(value, SSAValue):
            self.bound[name if entry is None else f"{name}.{entry}"] = value
        elif entry is None:
            self.static[name] = value
        else:
            array = self.static[name]
            assert isinstance(array, list)
            array[entry] = value

    def put_view(self, name: str, view: View, entry: int | None = None) -> None:
        """Bind an SRAM address field to where a view begins."""
        self.put(name, view.slot, entry)
        self.put(name, view.offset, entry)

    def issue(
        self, p: Placement, op: str, program: str | None = None, hbm_arg: int | None = None
    ) -> None:
        """Add the instruction."""
        p.emit(dsa.IssueOp(op, self.bound, self.static, program, hbm_arg))


def pad(values: Sequence[int], count: int, fill: int = 0) -> list[int]:
    """`values` filled up to `count` entries."""
    return [*values, *[fill] * (count - len(values))]
