"""keep: arrays whose tiles stay in SRAM from one launch of a kernel to the next.

All tiles that the programs of a core load from such an array go to buffers at the end of the SRAM, before the grid
loop, under a condition: an argument that is added to the kernel says whether they are still there.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import replace

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i64,
)
from xdsl.ir import Operation, SSAValue
from xdsl.printer import Printer

from ..dialects import dsa
from ..dialects.locations import from_ir
from ..dialects.tile import i64_array, ints
from ..errors import CompileError, InternalError, SramOverflowError, UnknownTripsError
from ..image.model import Residency
from ..isa.table import BY_NAME
from ..resident import FLAG, Resident
from ..target import Target
from .effects import alias_groups, grid_loop, may_alias
from .reside_nest import Nest, UnfitError, arguments_behind, bounds, make_resident, nest_of
from .sram import slot_stride
from .sram_overflow import kib


def space_of(target: Target, wanted: Resident) -> Target:
    """The machine without the SRAM that other kernels keep."""
    if not wanted.limit or wanted.limit >= target.sram_bytes:
        return target
    held = kib(target.sram_bytes - wanted.limit)
    return replace(
        target, name=f"{target.name} without the {held} that stay resident", sram_bytes=wanted.limit
    )


def keep(module: ModuleOp, target: Target, wanted: Resident) -> None:
    """Let tiles of `wanted.arrays` stay in SRAM.

    Raises:
        CompileError: which tiles a load gets is not known at compile time, or the kernel writes to the array.
        SramOverflowError: the tiles do not fit.
    """
    if not wanted.arrays:
        return
    (kernel,) = (op for op in module.ops if isinstance(op, func.FuncOp))
    grid = grid_loop(kernel)
    if grid is None:
        raise InternalError("keep: a kernel without a loop over its programs")
    names = _strings(kernel, "dsa.args")
    numbers = [names.index(name) for name in wanted.arrays if name in names]
    loads = list(_loads(kernel, numbers))
    if not loads:
        return  # a kernel may write what others keep: they load it again
    _check_not_written(kernel, sorted({_number(op) for op in loads}), names)
    nests = [_nest(op, kernel, grid, wanted, target) for op in loads]
    shaping = [v for nest in nests for v in (*nest.load.args, *bounds(nest.loops))]
    depends = arguments_behind(shaping, kernel)
    flag = _add_flag(kernel)
    for nest in nests:
        make_resident(nest, 0, target, flag)
    start, stop = _place(nests, target, wanted, names)
    pointers = {n for n, fmt in enumerate(_strings(kernel, "dsa.formats")) if fmt.startswith("*")}
    kernel.attributes["dsa.kept"] = i64_array([len(names), start, stop, *wanted.grid])
    kernel.attributes["dsa.kept_arrays"] = i64_array(
        sorted({_argument(n.ring, names) for n in nests})
    )
    kernel.attributes["dsa.kept_depends"] = i64_array(sorted(depends - pointers))
    kernel.attributes["dsa.kept_contents"] = StringAttr(_contents(kernel))


def residency_of(kernel: func.FuncOp) -> Residency | None:
    """What `keep` has done to a kernel."""
    kept, arrays, depends = (
        kernel.attributes.get(f"dsa.kept{name}") for name in ("", "_arrays", "_depends")
    )
    contents = kernel.attributes.get("dsa.kept_contents")
    if not (
        isinstance(contents, StringAttr)
        and isinstance(kept, DenseArrayBase)
        and isinstance(arrays, DenseArrayBase)
        and isinstance(depends, DenseArrayBase)
    ):
        return None
    flag, start, stop, *grid = ints(kept)
    return Residency(flag, start, stop, ints(arrays), ints(depends), tuple(grid), contents.data)


def _contents(kernel: func.FuncOp) -> str:
    """A hash of all that fills the buffers and of where they are; arguments count by name.

    Images that differ elsewhere (in what may overlap, say) find what the other one has left.
    """
    block = kernel.body.block
    needed: set[Operation] = {op for op in block.ops if isinstance(op, scf.IfOp)}
    todo = list(needed)
    while todo:
        for value in (v for inner in todo.pop().walk() for v in inner.operands):
            owner = value.owner
            if isinstance(owner, Operation) and owner.parent is block and owner not in needed:
                needed.add(owner)
                todo.append(owner)
    out = io.StringIO()
    printer = Printer(out)
    for op in block.ops:
        if op in needed:
            printer.print_op(op)
    return hashlib.sha256(out.getvalue().encode()).hexdigest()[:32]


def _strings(kernel: func.FuncOp, name: str) -> list[str]:
    attribute = kernel.attributes[name]
    assert isinstance(attribute, ArrayAttr)
    return [entry.data for entry in attribute if isinstance(entry, StringAttr)]


def _argument(ring: dsa.RingOp, names: Sequence[str]) -> int:
    assert ring.kept is not None
    return names.index(ring.kept.data)


def _number(op: dsa.IssueOp) -> int:
    return -1 if op.hbm_arg is None else op.hbm_arg.value.data


def _loads(kernel: func.FuncOp, numbers: Sequence[int]) -> Iterator[dsa.IssueOp]:
    """The instructions that read one of the arrays."""
    for op in kernel.walk():
        if isinstance(op, dsa.IssueOp) and _number(op) in numbers and "r" in _hbm_role(op):
            yield op


def _hbm_role(op: dsa.IssueOp) -> str:
    """How an instruction uses HBM: "r", "w", "rw", or "" when it does not."""
    roles = [f.role or "" for f in BY_NAME[op.op.data].fields]
    return "".join(role.removeprefix("hbm_") for role in roles if role.startswith("hbm_"))


def _check_not_written(kernel: func.FuncOp, numbers: Sequence[int], names: Sequence[str]) -> None:
    groups = alias_groups(kernel)
    for op in kernel.walk():
        if not isinstance(op, dsa.IssueOp) or "w" not in _hbm_role(op):
            continue
        for number in numbers:
            if may_alias(groups, _number(op), number):
                raise CompileError(
                    f"this writes to {names[number]!r}, or may do so, which is to stay in SRAM",
                    from_ir(op.location),
                    "write it in another kernel (its next reader loads it again), leave it out of what is "
                    "resident, or let it not overlap with arrays that the kernel writes",
                )


def _nest(
    op: dsa.IssueOp, kernel: func.FuncOp, grid: scf.ForOp, wanted: Resident, target: Target
) -> Nest:
    """A load in its loops, all of which can be done beforehand."""
    names = _strings(kernel, "dsa.args")
    name = names[_number(op)]
    kind: type[CompileError] = CompileError
    missing: tuple[str, ...] = ()
    try:
        nest = nest_of(op, grid, wanted.grid, target)
        if not nest.loops or nest.loops[0] is not grid:
            raise UnfitError("it stands under an if or in a while loop")
        if reason := nest.obstacle(0):
            kind = UnknownTripsError
            behind = arguments_behind(bounds(nest.unknown(0)), kernel)
            missing = tuple(names[number] for number in sorted(behind))
            raise UnfitError(reason)
    except UnfitError as failure:
        error = kind(
            f"{name!r} cannot stay in SRAM: {failure}",
            from_ir(op.location),
            "tiles that stay are loaded as boxes at places that are known when the kernel starts, in loops whose "
            "number of iterations is a constant (dsa.constexpr); or leave the array out of what is resident",
        )
        if isinstance(error, UnknownTripsError):
            error.names = missing
        raise error from None
    nest.ring.kept = StringAttr(name)
    return nest


def _add_flag(kernel: func.FuncOp) -> SSAValue:
    """One more argument, which says whether to load."""
    block = kernel.body.block
    flag = block.insert_arg(i64, len(block.args))
    flag.name_hint = "load"
    kernel.function_type = FunctionType.from_lists([arg.type for arg in block.args], [])
    for name, value in (("dsa.args", FLAG), ("dsa.formats", "int64")):
        kernel.attributes[name] = ArrayAttr(
            [StringAttr(text) for text in (*_strings(kernel, name), value)]
        )
    for name, number in (("dsa.divisible", 1), ("dsa.alias", -1)):
        attribute = kernel.attributes.get(name)
        if isinstance(attribute, DenseArrayBase):
            kernel.attributes[name] = i64_array([*ints(attribute), number])
    return flag


def _place(
    nests: Sequence[Nest], target: Target, wanted: Resident, names: Sequence[str]
) -> tuple[int, int]:
    """Give the buffers their addresses, one behind the other up to the top; where they start and end."""
    align = target.sram_align_bytes
    top = (wanted.top or target.sram_bytes) // align * align
    sizes = [slot_stride(nest.ring.bytes.value.data, target) for nest in nests]
    if sum(sizes) > top:
        raise _overflow(nests, sizes, top, target)
    at = start = top - sum(sizes)
    for nest, size in zip(nests, sizes, strict=True):
        nest.ring.address = IntegerAttr(at, i64)
        at += size
    return start, top


def _overflow(
    nests: Sequence[Nest], sizes: Sequence[int], top: int, target: Target
) -> SramOverflowError:
    """What does not fit, and what would."""
    ranked = sorted(zip(sizes, nests, strict=True), key=lambda pair: -pair[0])
    lines = [f"  {kib(size):>12}  {_kept(nest.ring)}  {_line(nest.ring)}" for size, nest in ranked]
    held = target.sram_bytes - top
    message = (
        f"what is to stay in SRAM takes {kib(sum(sizes))}, target {target.name!r} has {kib(target.sram_bytes)}"
        + (f", of which {kib(held)} hold what other kernels keep" if held else "")
    )
    return SramOverflowError(
        "\n".join([message + ":", *lines]),
        from_ir(ranked[0][1].ring.location),
        would_fit(nests, sizes, top),
    )


def would_fit(nests: Sequence[Nest], sizes: Sequence[int], space: int) -> str:
    """Advice: the arrays that `space` bytes would hold, the smallest first."""
    by_name: dict[str, int] = {}
    for nest, size in zip(nests, sizes, strict=True):
        by_name[_kept(nest.ring)] = by_name.get(_kept(nest.ring), 0) + size
    fitting: list[str] = []
    for name, size in sorted(by_name.items(), key=lambda item: item[1]):
        if size <= space:
            fitting.append(f"{name} ({kib(size)})")
            space -= size
    if not fitting:
        return "no array fits: keep a part of one (a slice, or fewer programs per core), or a narrower format"
    return f"this would fit: {', '.join(fitting)}; or use a narrower format"


def _kept(ring: dsa.RingOp) -> str:
    return ring.kept.data if ring.kept is not None else ""


def _line(op: Operation) -> str:
    return str(from_ir(op.location) or "")
