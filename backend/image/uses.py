"""Which rings the templates of an image work on: not in the image, found in the IR that it was made of."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation, SSAValue

from ..dialects import dsa
from ..isa.table import BY_NAME, Engine
from .model import Image
from .tables import Tables, issue_template, semaphore_template

Uses = dict[int, str]
"""Rings by number, in the order of `Image.rings`, with the letters of how they are accessed: "r", "w" or "rw"."""


def ring_uses(module: ModuleOp, image: Image) -> list[Uses] | None:
    """The rings that each template accesses; None when the image was not made of this IR in the usual way."""
    (kernel,) = (op for op in module.ops if isinstance(op, func.FuncOp))
    rings = [op.result for op in kernel.walk() if isinstance(op, dsa.RingOp)]
    tables, uses = Tables(), list[Uses]()
    for op in kernel.walk():
        if isinstance(op, dsa.IssueOp):
            bound = op.bound()
            known = {name: _constant(value) for name, value in bound.items()}
            template, _ = issue_template(op, known, tables)
            found = _accessed(op, rings)
        elif isinstance(op, dsa.SetOp | dsa.WaitOp) and op.engine.value.data != Engine.CORE:
            template, found = semaphore_template(op), {}
        else:
            continue
        number = tables.add_template(template)
        if number == len(uses):
            uses.append(found)
        else:
            for ring, roles in found.items():
                uses[number][ring] = "".join(sorted({*uses[number].get(ring, ""), *roles}))
    same = [t.instruction.op for t in tables.templates] == [
        t.instruction.op for t in image.templates
    ]
    return uses if same else None


def _accessed(op: dsa.IssueOp, rings: Sequence[SSAValue]) -> Uses:
    row, found = BY_NAME[op.op.data], Uses()
    for name, value in op.bound().items():
        if isinstance(value.type, dsa.SlotType):
            acquire, _ = dsa.rotation_of(value)
            number = rings.index(acquire.ring)
            role = (row.by_name[name.partition(".")[0]].role or "").removeprefix("sram_")
            found[number] = "".join(sorted({*found.get(number, ""), *role}))
    return found


def _constant(value: SSAValue) -> int | None:
    """What the glue knows of an operand in advance."""
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    if isinstance(owner, dsa.AcquireOp):
        ring = owner.ring.owner
        assert isinstance(ring, dsa.RingOp)
        return ring.address.value.data if ring.slots.value.data == 1 else None
    if isinstance(owner, Operation) and owner.name in ("arith.extsi", "arith.index_cast"):
        return _constant(owner.operands[0])
    return None
