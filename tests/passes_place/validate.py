"""What every placed kernel must obey; shares no code with the passes."""

from __future__ import annotations

from itertools import combinations

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp, TensorType, UnknownLoc
from xdsl.ir import Operation

from dsalang._backend.dialects import dsa
from dsalang._backend.target import Target


def validate(module: ModuleOp, target: Target, allocated: bool) -> None:
    """Fail on the first rule that the kernel breaks."""
    kernel = next(op for op in module.ops if isinstance(op, func.FuncOp))
    ops = list(kernel.walk())
    order = {op: n for n, op in enumerate(ops)}
    for op in ops:
        assert not any(isinstance(v.type, TensorType) for v in (*op.operands, *op.results)), op
        assert not op.name.startswith("tile."), op
        if isinstance(op, dsa.IssueOp):
            assert not isinstance(op.location, UnknownLoc), op
    rings = [op for op in ops if isinstance(op, dsa.RingOp)]
    assert list(kernel.body.block.ops)[: len(rings)] == rings, "rings stand at the top"
    lives = []
    for ring in rings:
        acquires = [use.operation for use in ring.result.uses]
        assert len(acquires) == 1 and isinstance(acquires[0], dsa.AcquireOp), ring
        acquire = acquires[0]
        home = acquire.parent
        inside = [use.operation for use in acquire.result.uses]
        for held in [op for op in inside if isinstance(op, dsa.HeldOp)]:
            assert not allocated or held.age.value.data < ring.slots.value.data, held
            inside += [use.operation for use in held.result.uses]
        for part in [op for op in inside if isinstance(op, dsa.PartOp)]:
            inside += [use.operation for use in part.result.uses]
        for op in inside:
            top = _lift(op, home)
            assert order[top] > order[acquire], f"{op} before its acquire"
        if allocated:
            lives.append(_life(ring, acquire, inside, order, target))
    for (one, a), (other, b) in combinations(lives, 2):
        if _steps_meet(a, b):
            apart = a[2] + a[3] <= b[2] or b[2] + b[3] <= a[2]
            assert apart, f"{one} and {other} share memory while both are alive"


def _lift(op: Operation, home: object) -> Operation:
    while op.parent is not home:
        parent = op.parent_op()
        assert parent is not None, "use outside of the home block"
        op = parent
    return op


Life = tuple[int, int, int, int]  # first step, last step, address, bytes


def _life(
    ring: dsa.RingOp,
    acquire: dsa.AcquireOp,
    users: list[Operation],
    order: dict[Operation, int],
    target: Target,
) -> tuple[dsa.RingOp, Life]:
    align = target.sram_align_bytes
    address, slots = ring.address.value.data, ring.slots.value.data
    bytes_ = -(-ring.bytes.value.data // align) * align * slots
    assert address >= 0 and address % align == 0 and address + bytes_ <= target.sram_bytes
    assert 1 <= slots <= target.semaphore_max
    tops = [_lift(op, acquire.parent) for op in users]
    if slots > 1:
        loop = acquire.parent_op()
        while not isinstance(loop, scf.ForOp | scf.WhileOp):
            assert loop is not None
            loop = loop.parent_op()
        tops = [loop]
    spots = [order[op] for op in tops] + [order[inner] for op in tops for inner in op.walk()]
    spots = spots or [order[acquire]]
    return ring, (min(spots), max(spots), address, bytes_)


def _steps_meet(a: Life, b: Life) -> bool:
    return a[0] <= b[1] and b[0] <= a[1]
