"""What operations of dsa IR do to memory: for the passes that move them, before flags exist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator, Pure

from ..dialects import dsa
from ..dialects.tile import ints
from ..isa.table import BY_NAME, Engine


@dataclass(eq=False)
class Effects:
    """The effects of an op with all that it holds.

    `slots` has the roles ("r", "w") by what the acquire gives, without slots acquired inside; `hbm` has pairs of
    the number of a pointer argument (-1: unknown) and a role. `core`: the control core does more than arithmetic.
    """

    engines: set[Engine] = field(default_factory=set)
    slots: dict[SSAValue, str] = field(default_factory=dict)
    hbm: list[tuple[int, str]] = field(default_factory=list)
    core: bool = False


def effects_of(op: Operation) -> Effects:
    """The effects of an op and of the ops in its regions."""
    found = Effects()
    inside: set[SSAValue] = set()
    for inner in op.walk():
        if isinstance(inner, dsa.IssueOp):
            _issue(inner, found)
        elif isinstance(inner, dsa.AcquireOp):
            inside.add(inner.result)
        elif isinstance(inner, dsa.ReadOp | dsa.PrintOp | dsa.AssertOp | scf.WhileOp):
            found.core = True
            for value in inner.operands:
                if isinstance(value.type, dsa.SlotType):
                    _touch(found, value, "r")
    found.slots = {slot: roles for slot, roles in found.slots.items() if slot not in inside}
    return found


def _issue(op: dsa.IssueOp, found: Effects) -> None:
    row = BY_NAME[op.op.data]
    found.engines.add(op.engine)
    for name, value in op.bound().items():
        if isinstance(value.type, dsa.SlotType):
            role = row.by_name[name.partition(".")[0]].role or ""
            _touch(found, value, role.removeprefix("sram_"))
    for entry in row.fields:
        if entry.role is not None and entry.role.startswith("hbm_"):
            number = op.hbm_arg.value.data if isinstance(op.hbm_arg, IntegerAttr) else -1
            found.hbm.append((number, entry.role.removeprefix("hbm_")))


def _touch(found: Effects, value: SSAValue, role: str) -> None:
    slot = dsa.rotation_of(value)[0].result
    found.slots[slot] = found.slots.get(slot, "") + role


def is_arithmetic(op: Operation) -> bool:
    """True when the control core does it without touching anything: it can be done again, or elsewhere."""
    if op.has_trait(IsTerminator):
        return False
    if op.has_trait(Pure) or op.name.startswith("arith."):  # not all of arith is declared pure
        return True
    if not isinstance(op, scf.IfOp | scf.ForOp):
        return False
    inner = [o for region in op.regions for block in region.blocks for o in block.ops]
    return all(is_arithmetic(o) or isinstance(o, scf.YieldOp) for o in inner)


def alias_groups(kernel: func.FuncOp) -> Sequence[int] | None:
    """`dsa.alias`: per kernel argument the number of its group; None when the kernel has none."""
    attribute = kernel.attributes.get("dsa.alias")
    return ints(attribute) if isinstance(attribute, DenseArrayBase) else None


def may_alias(groups: Sequence[int] | None, a: int, b: int) -> bool:
    """Whether HBM accesses through arguments `a` and `b` may touch the same bytes."""
    if groups is None or a == b or min(a, b) < 0 or max(a, b) >= len(groups):
        return True
    return groups[a] == groups[b]


def constant_of(value: SSAValue) -> int | None:
    """The integer that a value is known to be."""
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


def grid_loop(kernel: func.FuncOp) -> scf.ForOp | None:
    """The loop over a core's programs: the one from the core's number on, or the only one."""
    loops = [op for op in kernel.body.block.ops if isinstance(op, scf.ForOp)]
    return next(
        (loop for loop in loops if len(loops) == 1 or isinstance(loop.lb.owner, dsa.CoreIdOp)), None
    )


def terminator(block: Block) -> Operation:
    """The last op of a block."""
    last = block.last_op
    assert last is not None
    return last


def copied(op: Operation, values: dict[SSAValue, SSAValue]) -> Operation:
    """A clone with operands replaced, and with the locations, of what `op` holds too."""
    copy: Operation = op.clone(values)
    for old, new in zip(op.walk(), copy.walk(), strict=True):
        new.location = old.location
    return copy
