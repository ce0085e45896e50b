"""The dsa dialect: instructions on SRAM buffers, before they become templates and glue.

Control flow is `scf`, address arithmetic is `arith` on i32 and i64; pointers are i64 and float kernel
arguments are the integers that hold their bits. `docs/architecture.md` has the contract of each op.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    i1,
    i32,
    i64,
)
from xdsl.ir import (
    Attribute,
    Dialect,
    Operation,
    ParametrizedAttribute,
    SSAValue,
    TypeAttribute,
)
from xdsl.irdl import (
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ..isa.table import BY_NAME as OPCODES
from ..isa.table import Engine
from .attributes import i32_attribute, i64_array, i64_attribute, ints, text
from .definition import DialectOp, op_definition


@irdl_attr_definition
class RingType(ParametrizedAttribute, TypeAttribute):
    """A ring of equal SRAM slots."""

    name = "dsa.ring"


@irdl_attr_definition
class SlotType(ParametrizedAttribute, TypeAttribute):
    """The slot of a ring that the current rotation owns: an SRAM address."""

    name = "dsa.slot"


ring, slot = RingType(), SlotType()

OWN = "dsa.own"
"""Attribute of operations of a microkernel that keeps its own order: names the call."""
OWN_CREDITS = "dsa.own_credits"
"""Attribute of a kernel: initial counts of the semaphores that microkernels declare; entry s is numbered -1 - s until sync."""


def own_call(op: Operation) -> str | None:
    """The call of a microkernel that orders this operation by its own flags, None for all others."""
    call = op.attributes.get(OWN)
    return call.data if isinstance(call, StringAttr) else None


@op_definition
class RingOp(DialectOp):
    """Declare a ring; stands at the top of the kernel's body. Its location is the value's source line.

    `bytes` is the size of one slot. `slots` is 0 until the buffer pass has chosen, `address` is -1 until
    the allocate pass has placed slot 0; slot k is at address + k * stride where stride is `bytes` rounded
    up to the target's alignment. `shape` and `fmt` are for reports. `kept` names the array that a ring keeps
    across launches; such a ring has its address from the start.
    """

    name = "dsa.ring"
    label = prop_def(StringAttr)
    bytes = prop_def(IntegerAttr)
    slots = prop_def(IntegerAttr)
    address = prop_def(IntegerAttr)
    shape = prop_def(DenseArrayBase)
    fmt = prop_def(StringAttr)
    kept = opt_prop_def(StringAttr)
    result = result_def(ring)

    def __init__(
        self,
        label: str,
        bytes: int,
        shape: Sequence[int],
        fmt: str,
        slots: int = 0,
        address: int = -1,
    ) -> None:
        super().__init__(
            properties={
                "label": text(label),
                "bytes": i64_attribute(bytes),
                "slots": i64_attribute(slots),
                "address": i64_attribute(address),
                "shape": i64_array(shape),
                "fmt": text(fmt),
            },
            result_types=[ring],
        )


@op_definition
class AcquireOp(DialectOp):
    """Rotate a ring: the result is its next slot, the first one at the first execution.

    Every ring has exactly one acquire. It stands in the ring's home block, before every use; all uses
    of the slot, and of slots held from earlier executions, are in that block or in regions nested in it.
    """

    name = "dsa.acquire"
    ring = operand_def(ring)
    result = result_def(slot)

    def __init__(self, ring: SSAValue) -> None:
        super().__init__(operands=[ring], result_types=[slot])


@op_definition
class HeldOp(DialectOp):
    """The slot that a ring's acquire gave `age` of its executions ago; `current` is what it has given now.

    A loop that `skew` has rotated reads in one iteration what it wrote in the one before. The ring has more
    than `age` slots. Nobody may use the result in the first `age` executions.
    """

    name = "dsa.held"
    current = operand_def(slot)
    age = prop_def(IntegerAttr)
    result = result_def(slot)
    traits = traits_def(Pure())

    def __init__(self, current: SSAValue, age: int) -> None:
        super().__init__(
            operands=[current],
            properties={"age": i64_attribute(age)},
            result_types=[slot],
        )

    def verify_(self) -> None:
        if self.age.value.data < 1 or not isinstance(self.current.owner, AcquireOp):
            raise VerifyException("dsa.held names the slot of an acquire, and an age of at least 1")


@op_definition
class PartOp(DialectOp):
    """`bytes` bytes of a slot, from `offset` (i64, bytes) on: one of the tiles that a resident slot holds.

    Whoever accesses a part counts as accessing the slot.
    """

    name = "dsa.part"
    whole = operand_def(slot)
    offset = operand_def(i64)
    bytes = prop_def(IntegerAttr)
    result = result_def(slot)
    traits = traits_def(Pure())

    def __init__(self, whole: SSAValue, offset: SSAValue, bytes: int) -> None:
        super().__init__(
            operands=[whole, offset],
            properties={"bytes": i64_attribute(bytes)},
            result_types=[slot],
        )


def rotation_of(value: SSAValue) -> tuple[AcquireOp, int]:
    """The acquire behind a slot or a part of one, and how many of its executions ago it gave the slot."""
    age = 0
    if isinstance(value.owner, PartOp):
        value = value.owner.whole
    if isinstance(value.owner, HeldOp):
        age, value = value.owner.age.value.data, value.owner.current
    if not isinstance(value.owner, AcquireOp):
        raise ValueError("a slot does not come from an acquire")
    return value.owner, age


@op_definition
class IssueOp(DialectOp):
    """Issue an instruction of the ISA table to its engine.

    `fields` holds the static fields (integers; arrays as `array<i64>`). Operand j is bound to field
    `bind[j]`, or to entry d of an array field when `bind[j]` is "field.d". A bound integer is the field's
    value; a bound slot is its address, plus the byte offset that stands for that entry in `fields` (0 when
    absent). Absent optional SRAM fields are NONE, other absent fields 0.

    `program` is the text of the vector program of a vexec. `hbm_arg` is the number of the kernel argument
    behind the hbm field (-1: unknown, may alias everything).
    """

    name = "dsa.issue"
    op = prop_def(StringAttr)
    args = var_operand_def()
    bind = prop_def(ArrayAttr)
    fields = prop_def(DictionaryAttr)
    program = opt_prop_def(StringAttr)
    hbm_arg = opt_prop_def(IntegerAttr)

    def __init__(
        self,
        op: str,
        bound: Mapping[str, SSAValue],
        fields: Mapping[str, int | Sequence[int]],
        program: str | None = None,
        hbm_arg: int | None = None,
    ) -> None:
        attributes: dict[str, Attribute] = {
            name: i64_attribute(value) if isinstance(value, int) else i64_array(value)
            for name, value in fields.items()
        }
        super().__init__(
            operands=[list(bound.values())],
            properties={
                "op": text(op),
                "bind": ArrayAttr([text(name) for name in bound]),
                "fields": DictionaryAttr(attributes),
                "program": None if program is None else text(program),
                "hbm_arg": None if hbm_arg is None else i64_attribute(hbm_arg),
            },
        )

    @property
    def engine(self) -> Engine:
        """The engine whose queue the instruction enters."""
        return OPCODES[self.op.data].engines[0]

    def bound(self) -> dict[str, SSAValue]:
        """Operands by the field (or "field.d") they are bound to."""
        return {
            name.data: value
            for name, value in zip(self.bind, self.args, strict=True)
            if isinstance(name, StringAttr)
        }

    def static(self, name: str) -> int | tuple[int, ...]:
        """The static value of a field, 0 (or a tuple of zeros) when absent."""
        field = OPCODES[self.op.data].by_name[name]
        value = self.fields.data.get(name)
        if isinstance(value, IntegerAttr):
            return value.value.data
        if isinstance(value, DenseArrayBase):
            return ints(value)
        return 0 if field.count == 1 else (0,) * field.count

    def verify_(self) -> None:
        row = OPCODES.get(self.op.data)
        if row is None:
            raise VerifyException(f"unknown instruction {self.op.data!r}")
        if len(self.bind) != len(self.args):
            raise VerifyException("bind and operands differ in number")
        for name in (*self.fields.data, *self.bound()):
            field_name, _, entry = name.partition(".")
            field = row.by_name.get(field_name)
            if field is None or (entry and int(entry) >= field.count):
                raise VerifyException(f"{row.name} has no field {name!r}")


@op_definition
class SetOp(DialectOp):
    """Queue `set sem` on an engine."""

    name = "dsa.set"
    engine = prop_def(IntegerAttr)
    sem = prop_def(IntegerAttr)

    def __init__(self, engine: Engine, sem: int) -> None:
        super().__init__(
            properties={"engine": i32_attribute(int(engine)), "sem": i32_attribute(sem)}
        )


@op_definition
class WaitOp(DialectOp):
    """Queue `wait sem` on an engine; on CORE the control core itself waits."""

    name = "dsa.wait"
    engine = prop_def(IntegerAttr)
    sem = prop_def(IntegerAttr)

    def __init__(self, engine: Engine, sem: int) -> None:
        super().__init__(
            properties={"engine": i32_attribute(int(engine)), "sem": i32_attribute(sem)}
        )


@op_definition
class ReadOp(DialectOp):
    """The control core reads one scalar from SRAM at slot + offset (bytes); narrow values are sign-extended.

    The result is the IR integer type of the same width (floats come as their bits).
    """

    name = "dsa.read"
    slot = operand_def(slot)
    offset = prop_def(IntegerAttr)
    fmt = prop_def(StringAttr)
    result = result_def()

    def __init__(self, slot: SSAValue, offset: int, fmt: str, type_: Attribute) -> None:
        super().__init__(
            operands=[slot],
            properties={"offset": i64_attribute(offset), "fmt": text(fmt)},
            result_types=[type_],
        )


@op_definition
class CoreIdOp(DialectOp):
    """This core's number, 0 ≤ core_id < num_cores."""

    name = "dsa.core_id"
    result = result_def(i32)
    traits = traits_def(Pure())

    def __init__(self) -> None:
        super().__init__(result_types=[i32])


@op_definition
class NumCoresOp(DialectOp):
    """How many cores run this launch."""

    name = "dsa.num_cores"
    result = result_def(i32)
    traits = traits_def(Pure())

    def __init__(self) -> None:
        super().__init__(result_types=[i32])


@op_definition
class GridDimOp(DialectOp):
    """The size of the launch grid along an axis."""

    name = "dsa.grid_dim"
    axis = prop_def(IntegerAttr)
    result = result_def(i32)
    traits = traits_def(Pure())

    def __init__(self, axis: int) -> None:
        super().__init__(properties={"axis": i32_attribute(axis)}, result_types=[i32])


@op_definition
class PrintOp(DialectOp):
    """Report values to the host.

    Operand j is a scalar (integers and float bits) or a slot that holds a tile of shape `shapes[j]`
    (row-major at its start); `fmts[j]` is its format. The control core has waited for the tiles.
    """

    name = "dsa.print"
    prefix = prop_def(StringAttr)
    args = var_operand_def()
    fmts = prop_def(ArrayAttr)
    shapes = prop_def(ArrayAttr)

    def __init__(
        self,
        prefix: str,
        args: Sequence[SSAValue],
        fmts: Sequence[str],
        shapes: Sequence[Sequence[int]],
    ) -> None:
        super().__init__(
            operands=[list(args)],
            properties={
                "prefix": text(prefix),
                "fmts": ArrayAttr([text(f) for f in fmts]),
                "shapes": ArrayAttr([i64_array(s) for s in shapes]),
            },
        )


@op_definition
class AssertOp(DialectOp):
    """Stop the device with a message when the scalar condition is 0."""

    name = "dsa.assert"
    condition = operand_def(i1)
    message = prop_def(StringAttr)

    def __init__(self, condition: SSAValue, message: str) -> None:
        super().__init__(operands=[condition], properties={"message": text(message)})


Dsa = Dialect(
    "dsa",
    [
        RingOp, AcquireOp, HeldOp, PartOp, IssueOp, SetOp, WaitOp, ReadOp, CoreIdOp, NumCoresOp, GridDimOp, PrintOp,
        AssertOp,
    ],
    [RingType, SlotType],
)  # fmt: skip
