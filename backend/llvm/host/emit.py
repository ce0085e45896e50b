"""Host code of instructions: every template of an image becomes one LLVM function (see `abi.py`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from ...image.model import Image, Template
from ...isa.check import normalized
from ...isa.table import NONE
from ...target import Target
from .. import ir
from . import dma, dma_list, mma, reduce, scan, take, vexec
from .abi import Fault
from .build import I64, PTR, constant
from .host import Host, this_host
from .sharing import shared_slots
from .unit import Spec, Unit

EMITTERS: dict[str, Callable[[Unit], None]] = {
    "dma.load": dma.load,
    "dma.store": dma.store,
    "dma.gather": dma_list.gather,
    "dma.scatter": dma_list.scatter,
    "dma.atomic": dma_list.atomic,
    "mma": mma.emit,
    "vexec": vexec.emit,
    "reduce": reduce.emit,
    "scan": scan.emit,
    "take": take.emit,
}
"""By opcode; set and wait are the engine's own."""

_MOVES = ("dma.load", "dma.store")
_FLAGS = ("trans_a", "trans_b", "accumulate", "keep", "reverse")
_OPTIONAL = ("index", "arg", "out", "compare", "old")


def emit_unit(
    module: ir.Module,
    template: Template,
    image: Image,
    target: Target,
    name: str,
    host: Host | None = None,
    shared: bool | None = None,
) -> ir.Function:
    """Add the function `name` of `template` to `module`: `i64 name(i8 *sram, i64 *values, i64 *context)`.

    `host` is the processor that the code is for, by default this one. `shared` says whether there are rings in the image
    that share a place, for whoever emits many units of one image. Raises KeyError for set and wait,
    which touch no data. Helpers that units of a module share are internal functions named `dsa.…`.
    """
    instruction = normalized(template.instruction)
    emitter = EMITTERS[instruction.op]
    fields = instruction.fields
    program = image.programs[int(fields["program"])] if instruction.op == "vexec" else None  # type: ignore[arg-type]
    spec = Spec(
        instruction.op,
        fields,
        template.open,
        program,
        template.hbm_arg,
        image.sram_bytes,
        target,
        host or this_host(),
        bool(shared_slots(image)) if shared is None else shared,
    )
    function = ir.Function(module, I64, [PTR, PTR, PTR], name)
    # callers gain nothing from its body, and scratch memory of many units must not add up in one frame
    function.attributes.append("noinline")
    unit = Unit(function, spec)
    unit.check_operands()
    unit.place_slots()
    _versions(unit, emitter, [n for n in spec.open if _decides(instruction.op, n)], {})
    unit.end()
    if instruction.op in _MOVES and not unit.looped:
        # Helpers move its one row: LLVM is to spend no time on what is around their calls. Vectors would not do:
        # without optimisation LLVM cannot select code for some operations on them, and aborts.
        function.attributes.append("optnone")
    return function


def unit_key(template: Template, image: Image) -> Hashable:
    """Templates of an image with equal keys have the same host code."""
    instruction = normalized(template.instruction)
    fields = dict(instruction.fields)
    number = fields.pop("program", None)
    program = image.programs[number] if isinstance(number, int) else None
    return instruction.op, tuple(fields.items()), template.open, program, template.hbm_arg


def _decides(op: str, name: str) -> bool:
    """Whether an open field decides what code there is: flags, and optional operands outside vexec."""
    base = name.partition(".")[0]
    return base in _FLAGS or (base in _OPTIONAL and op != "vexec")


def _versions(
    unit: Unit, emitter: Callable[[Unit], None], names: list[str], pinned: dict[str, int]
) -> None:
    """Emit the unit once for every case of the open fields `names`."""
    if not names:
        inner = unit.pin(pinned)
        emitter(inner)
        inner.b.ret(constant(I64, Fault.NONE))
        return
    name, rest = names[0], names[1:]
    flag = name in _FLAGS
    special = 0 if flag else NONE
    test = unit.compare("==", unit.operand(name), special)
    then, other = unit.b.append_basic_block("case"), unit.b.append_basic_block("case")
    unit.b.cbranch(test, then, other)
    unit.b.position_at_end(then)
    _versions(unit, emitter, rest, {**pinned, name: special})
    unit.b.position_at_end(other)
    _versions(unit, emitter, rest, {**pinned, **({name: 1} if flag else {})})
