"""Lower the final dsa IR of a kernel to a device image."""

from __future__ import annotations

import json

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, SSAValue

from .. import formats
from ..dialects.dsa import HeldOp, RingOp
from ..dialects.locations import from_ir
from ..dialects.tile import ints
from ..errors import InternalError, Loc
from ..image.elf import CODE_ADDRESS, link_image
from ..image.model import Argument, Choice, Image, RingInfo, Timing
from ..image.tables import Tables
from ..llvm.glue import build_glue
from ..llvm.riscv import assembly
from ..target import Target
from .keep import residency_of


def lower(module: ModuleOp, target: Target) -> Image:
    """The image of a module with one kernel, whose rings have addresses and whose semaphores are placed."""
    kernel = kernel_of(module)
    tables = Tables()
    strides: dict[SSAValue, int] = {
        op.result: info.stride_bytes
        for op, info in zip(_rings(kernel), _ring_infos(kernel, target), strict=True)
    }
    glue = build_glue(kernel, strides, tables)
    return image_of(kernel, target, tables, glue, _credits(kernel))


def kernel_of(module: ModuleOp) -> func.FuncOp:
    """The one function of a module."""
    kernels = [op for op in module.body.block.ops if isinstance(op, func.FuncOp)]
    if len(kernels) != 1:
        raise InternalError(f"lower: a module with {len(kernels)} functions")
    return kernels[0]


def image_of(
    kernel: func.FuncOp,
    target: Target,
    tables: Tables,
    glue: str,
    credits: tuple[int, ...],
    timing: Timing | None = None,
) -> Image:
    """The linked image of a kernel with the given glue, which refers to `tables`."""
    infos = _ring_infos(kernel, target)
    ends = [r.address + r.stride_bytes * (r.slots - 1) + r.slot_bytes for r in infos]
    kept = residency_of(kernel)
    if kept is not None:
        ends.append(kept.stop)
    return link_image(
        Image(
            name=kernel.sym_name.data,
            target=target.name,
            target_digest=target.digest,
            arguments=_arguments(kernel),
            templates=tuple(tables.templates),
            programs=tuple(tables.programs),
            credits=credits,
            rings=infos,
            prints=tables.prints,
            asserts=tables.asserts,
            sram_bytes=max(ends, default=0),
            code=b"",
            code_address=CODE_ADDRESS,
            entry=0,
            glue=glue,
            timing=timing,
            residency=kept,
            choices=_choices(kernel),
        )
    )


def riscv_assembly(image: Image) -> str:
    """The glue of an image as RV64 assembly text, calls into the machine symbolic."""
    return assembly(image.glue)


def _rings(kernel: func.FuncOp) -> list[RingOp]:
    return [op for op in kernel.body.blocks[0].ops if isinstance(op, RingOp)]


def _ring_infos(kernel: func.FuncOp, target: Target) -> tuple[RingInfo, ...]:
    return tuple(_ring_info(op, target) for op in _rings(kernel))


def _ring_info(op: RingOp, target: Target) -> RingInfo:
    size, align = op.bytes.value.data, target.sram_align_bytes
    return RingInfo(
        label=op.label.data,
        address=op.address.value.data,
        slots=op.slots.value.data,
        stride_bytes=size + -size % align,
        slot_bytes=size,
        shape=ints(op.shape),
        fmt=op.fmt.data,
        loc=from_ir(op.location),
        kept=op.kept.data if op.kept is not None else "",
        turns=_turns(op),
    )


def _turns(ring: RingOp) -> int:
    """For how many turns of a ring a slot is in use."""
    slots = [
        use.operation for acquire in ring.result.uses for use in acquire.operation.results[0].uses
    ]
    return 1 + max((op.age.value.data for op in slots if isinstance(op, HeldOp)), default=0)


def _attribute(kernel: func.FuncOp, name: str) -> Attribute | None:
    return kernel.attributes.get(name)


def _strings(kernel: func.FuncOp, name: str) -> list[str]:
    attribute = _attribute(kernel, name)
    if not isinstance(attribute, ArrayAttr):
        raise InternalError(f"lower: kernel {kernel.sym_name.data} has no attribute {name}")
    return [entry.data for entry in attribute if isinstance(entry, StringAttr)]


def _arguments(kernel: func.FuncOp) -> tuple[Argument, ...]:
    names, fmts = _strings(kernel, "dsa.args"), _strings(kernel, "dsa.formats")
    if not len(names) == len(fmts) == len(kernel.body.blocks[0].args):
        raise InternalError("lower: argument names, formats and arguments differ in number")
    return tuple(
        Argument(name, formats.by_name(fmt.lstrip("*")).name, fmt.startswith("*"))
        for name, fmt in zip(names, fmts, strict=True)
    )


def _choices(kernel: func.FuncOp) -> tuple[Choice, ...]:
    """What the front end has decided about microkernels."""
    attribute = kernel.attributes.get("dsa.choices")
    if not isinstance(attribute, StringAttr):
        return ()
    return tuple(
        Choice(**{**entry, "loc": Loc(**entry["loc"])}) for entry in json.loads(attribute.data)
    )


def _credits(kernel: func.FuncOp) -> tuple[int, ...]:
    attribute = _attribute(kernel, "dsa.credits")
    return () if attribute is None else ints(attribute)
