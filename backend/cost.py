"""What instructions cost: pure functions from an instruction's fields and a target to bytes and cycles.

The engines, the cost model, the buffer pass and the static scheduler all use these, so that a compiler's
estimate and the machine's time cannot drift apart. `docs/architecture.md` ("Machine time") states the rules.

`fields` is always the complete field mapping of an instruction (see `complete`). What is only known at
run time (a box's valid interval, which elements of a gather are masked off) is the caller's to fill in:
an engine passes the truth, a cost model its assumption.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from . import formats
from .isa.check import normalized
from .isa.table import BY_NAME, MAX_DMA_DIMS, NONE, Instruction
from .isa.vector_ops import BY_NAME as VECTOR_OPS
from .isa.vector_ops import CHEAP, MEDIUM
from .isa.vprog import INDEX, MicroOp, VectorProgram
from .target import Target, Tensor

FieldValue = int | tuple[int, ...]
Fields = Mapping[str, FieldValue]


def complete(op: str, fields: Fields) -> dict[str, FieldValue]:
    """All fields of an instruction, absent ones filled in: 0, NONE for optional SRAM addresses.

    >>> complete("set", {})
    {'sem': 0}
    """
    return normalized(Instruction(op, BY_NAME[op].engines[0], dict(fields))).fields


def scalar(fields: Fields, name: str) -> int:
    """The value of a field that is not an array."""
    value = fields[name]
    assert isinstance(value, int)
    return value


def array(fields: Fields, name: str) -> tuple[int, ...]:
    """The entries of an array field."""
    value = fields[name]
    assert isinstance(value, tuple)
    return value


def valid_box(fields: Fields) -> tuple[tuple[int, int], ...]:
    """The valid interval of a box DMA per dim, cut to the tile: 0 ≤ lo ≤ hi ≤ size."""
    ndim = scalar(fields, "ndim")
    box = []
    for size, lo, hi in zip(
        array(fields, "size")[:ndim],
        array(fields, "lo")[:ndim],
        array(fields, "hi")[:ndim],
        strict=True,
    ):
        low = min(max(lo, 0), size)
        box.append((low, max(low, min(hi, size))))
    return tuple(box)


def contiguous_run(fields: Fields) -> tuple[int, int]:
    """Elements per contiguous HBM run of a box DMA's valid box, and the number of such runs.

    The engine walks a box in the order that suits HBM: dims of any order join a run while one of them steps
    from the end of the run to its next element. Dims of one valid element never break a run, an index vector
    and a negative or gapped stride always do.
    """
    box = valid_box(fields)
    lengths = [hi - lo for lo, hi in box]
    total = prod(lengths)
    if total == 0:
        return 0, 0
    stride, index = array(fields, "hbm_stride"), array(fields, "index")
    left = [d for d, n in enumerate(lengths) if n > 1 and index[d] == NONE]
    run, step = 1, scalar(fields, "elem_bytes")
    while (dim := next((d for d in left if stride[d] == run * step), None)) is not None:
        run *= lengths[dim]
        left.remove(dim)
    return run, total // run


def round_up(value: int, unit: int) -> int:
    """The smallest multiple of `unit` that is not below `value`."""
    return -(-value // unit) * unit


def box_bytes(fields: Fields, target: Target) -> int:
    """Bytes that HBM serves for a dma.load or dma.store: whole bursts per contiguous run."""
    run, runs = contiguous_run(fields)
    return runs * round_up(run * scalar(fields, "elem_bytes"), target.hbm.burst_bytes)


def element_bytes(fields: Fields, target: Target, valid: int | None = None) -> int:
    """Bytes that HBM serves for a gather, scatter or atomic of `valid` elements (default: all of them)."""
    if valid is None:
        valid = prod(array(fields, "size")[: scalar(fields, "ndim")])
    return valid * round_up(scalar(fields, "elem_bytes"), target.hbm.burst_bytes)


def dma_bytes(op: str, fields: Fields, target: Target, valid: int | None = None) -> int:
    """Bytes of bursts that an LD or ST instruction moves; `valid` elements for gather, scatter and atomic."""
    if "offset" in BY_NAME[op].by_name:
        return element_bytes(fields, target, valid)
    return box_bytes(fields, target)


def transfer_cycles(bytes_: int, target: Target, active_cores: int) -> int:
    """Cycles for which a transfer of `bytes_` holds its core's HBM port; bandwidth is shared evenly.

    Equal to ceil(bytes / target.hbm_bytes_per_cycle(active_cores)), in integers.
    """
    return -(-bytes_ * target.clock_mhz * 1_000_000 * active_cores // target.hbm.bytes_per_second)


def issue_cycles(open_fields: int, target: Target) -> int:
    """Cycles that the control core spends on issuing an instruction with `open_fields` run-time operands."""
    return target.scalar.issue_cycles + target.scalar.operand_cycles * open_fields


def _mma(fields: Fields, program: VectorProgram | None, target: Target) -> int:
    formats_ = [formats.OPERANDS_BY_CODE[scalar(fields, name)].name for name in ("fmt_a", "fmt_b")]
    slower = min(formats_, key=lambda name: target.tensor.macs_per_cycle[name])
    shape = tuple(scalar(fields, name) for name in ("m", "n", "k"))
    batch = scalar(fields, "batch")
    cycles = MMA_MODELS[target.tensor.model](shape, batch, slower, target.tensor)
    return max(1, target.tensor.fill_cycles + cycles)


def _cube(shape: tuple[int, ...], batch: int, fmt: str, tensor: Tensor) -> int:
    """A native block a cycle; without overlap every block but the first fills once more."""
    native = (tensor.native_m, tensor.native_n, tensor.native_k(fmt))
    blocks = batch * prod(-(-size // unit) for size, unit in zip(shape, native, strict=True))
    return blocks if tensor.overlap else blocks + (blocks - 1) * tensor.fill_cycles


def _weight_stationary(shape: tuple[int, ...], batch: int, fmt: str, tensor: Tensor) -> int:
    """Rows hold K, columns N: a fold loads R rows of weights, M rows stream through, R+C-2 cycles of skew."""
    m, n, k = shape
    rows, columns = tensor.native_m, tensor.native_n
    packed, passes = _density(fmt, tensor)
    folds = batch * -(-k // (rows * packed)) * -(-n // columns)
    return _folds(folds, m * passes, 2 * rows + columns - 2, rows, tensor)


def _output_stationary(shape: tuple[int, ...], batch: int, fmt: str, tensor: Tensor) -> int:
    """Rows hold M, columns N: a fold streams K, with R+C-2 cycles of skew; R cycles shift the results out."""
    m, n, k = shape
    rows, columns = tensor.native_m, tensor.native_n
    packed, passes = _density(fmt, tensor)
    folds = batch * -(-m // rows) * -(-n // columns)
    return _folds(folds, -(-k // packed) * passes, rows + columns - 2, rows, tensor)


def _density(fmt: str, tensor: Tensor) -> tuple[int, int]:
    """MACs along K that a cell does at once in a format, and the cycles it needs for that."""
    cells, rate = tensor.native_m * tensor.native_n, tensor.macs_per_cycle[fmt]
    return max(1, rate // cells), max(1, -(-cells // rate))


def _folds(folds: int, stream: int, skew: int, exchange: int, tensor: Tensor) -> int:
    """Cycles of `folds` that each stream for `stream` cycles.

    One after another, a fold takes stream + skew; the last cycle is the result's. With overlap the next
    fold follows the stream of the one before, once `exchange` cycles have swapped what the cells hold.
    """
    if not tensor.overlap:
        return folds * (stream + skew) - 1
    return (folds - 1) * max(stream, exchange) + stream + skew - 1


MMA_MODELS: dict[str, Callable[[tuple[int, ...], int, str, Tensor], int]] = {
    "cube": _cube,
    "systolic-ws": _weight_stationary,
    "systolic-os": _output_stationary,
}
"""Cycles of an mma of M, N, K and a batch without the first fill, by the model of the tensor engine."""


def points(fields: Fields) -> int:
    """Points of a vector instruction's iteration space."""
    return prod(array(fields, "size")[: scalar(fields, "ndim")])


def _pass_cycles(count: int, bytes_: int, target: Target) -> int:
    return -(-count * bytes_ // target.vector.bytes_per_cycle)


def micro_op_cycles(op: MicroOp, count: int, target: Target) -> int:
    """Cycles of one micro-op over `count` points; sources and sinks other than `index` are free."""
    row = VECTOR_OPS.get(op.op)
    if row is None and op.op != INDEX:
        return 0
    width = max(formats.by_name(op.fmt).bytes, formats.by_name(op.src_fmt).bytes)
    price = target.vector.op_cycles[row.cost if row else CHEAP]
    return _pass_cycles(count, width, target) * price


def _vexec(fields: Fields, program: VectorProgram | None, target: Target) -> int:
    assert program is not None
    count = points(fields)
    work = sum(micro_op_cycles(op, count, target) for op in program.ops)
    operands = (*program.inputs, *program.outputs)
    widest = max((formats.by_name(name).bytes for name in operands), default=0)
    return target.vector.startup_cycles + max(work, _pass_cycles(count, widest, target))


def _along_axis(fields: Fields, program: VectorProgram | None, target: Target) -> int:
    width = formats.BY_CODE[scalar(fields, "fmt")].bytes
    cycles = _pass_cycles(points(fields), width, target) * target.vector.op_cycles[CHEAP]
    return target.vector.startup_cycles + cycles


def _take(fields: Fields, program: VectorProgram | None, target: Target) -> int:
    """Addresses are as wide as the indices, and banks collide: a pass over the wider one at the medium price."""
    width = max(formats.BY_CODE[scalar(fields, name)].bytes for name in ("fmt", "picks_fmt"))
    cycles = _pass_cycles(points(fields), width, target) * target.vector.op_cycles[MEDIUM]
    return target.vector.startup_cycles + cycles


def _setup(fields: Fields, program: VectorProgram | None, target: Target) -> int:
    return target.dma.setup_cycles


def _free(fields: Fields, program: VectorProgram | None, target: Target) -> int:
    return 0


COSTS: dict[str, Callable[[Fields, VectorProgram | None, Target], int]] = {
    "set": _free,
    "wait": _free,
    "dma.load": _setup,
    "dma.store": _setup,
    "dma.gather": _setup,
    "dma.scatter": _setup,
    "dma.atomic": _setup,
    "mma": _mma,
    "vexec": _vexec,
    "reduce": _along_axis,
    "scan": _along_axis,
    "take": _take,
}


def compute_cycles(op: str, fields: Fields, program: VectorProgram | None, target: Target) -> int:
    """Cycles for which an instruction holds its engine; for DMA only the set-up before the transfer.

    `program` is the vector program of a vexec. Raises KeyError when the tensor engine of `target` has no
    rate for a format of an mma.
    """
    return COSTS[op](fields, program, target)


def operations(op: str, fields: Fields, program: VectorProgram | None) -> int:
    """Arithmetic operations of an instruction, for rooflines: two per MAC, one per micro-op and point."""
    if op == "mma":
        return 2 * prod(scalar(fields, name) for name in ("batch", "m", "n", "k"))
    if op == "vexec" and program is not None:
        return points(fields) * sum(micro.op in VECTOR_OPS for micro in program.ops)
    return points(fields) if op in ("reduce", "scan") else 0


def cycles_alone(
    instruction: Instruction,
    program: VectorProgram | None,
    target: Target,
    active_cores: int = 1,
) -> int:
    """Cycles from start to the engine being free again, with the HBM port idle: a cost model's figure.

    A box whose `hi` is open counts as fully valid when the caller has filled in lo = 0 and hi = size.
    """
    fields = complete(instruction.op, instruction.fields)
    cycles = compute_cycles(instruction.op, fields, program, target)
    if "hbm" in BY_NAME[instruction.op].by_name:
        moved = dma_bytes(instruction.op, fields, target)
        cycles += transfer_cycles(moved, target, active_cores)
    return cycles


def full_box(ndim: int, size: tuple[int, ...]) -> dict[str, FieldValue]:
    """`lo` and `hi` of a box that is valid everywhere."""
    pad = (0,) * (MAX_DMA_DIMS - ndim)
    return {"lo": (0,) * MAX_DMA_DIMS, "hi": (*size[:ndim], *pad)}
