"""The pipeline: tile IR in, device image out. One line per pass, with the reason for its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from .dialects import print_ir
from .errors import InternalError
from .image.model import Image
from .passes.access import access
from .passes.allocate import allocate
from .passes.buffer import buffer
from .passes.check import check
from .passes.fuse import fuse
from .passes.hoist import hoist
from .passes.keep import keep, space_of
from .passes.lower import lower
from .passes.operands import operands
from .passes.place import place
from .passes.reside import reside
from .passes.schedule import schedule
from .passes.simplify import simplify
from .passes.skew import skew
from .passes.sync import sync
from .resident import AUTOMATIC, Resident
from .target import Target

Observer = Callable[[str, ModuleOp], None]
"""Called with a pass's name and the module it has left; "parse" stands for the input."""

_NONE: Mapping[str, int] = {}

Pass = tuple[str, Callable[[ModuleOp], None]]


def passes(
    target: Target, num_stages: int | None = None, resident: Resident = AUTOMATIC
) -> list[Pass]:
    """The passes from tile IR to synchronised dsa IR, in order."""
    space = space_of(target, resident)
    return [
        # Folded index arithmetic is what access recognises.
        ("simplify", simplify),
        # Before fuse: pointer arithmetic must leave the tile world, or it would be fused and computed.
        ("access", access),
        # Before fuse: operands that have to be unpacked join the programs around them.
        ("operands", lambda module: operands(module, target)),
        # Before place: whatever ends up inside a vector program needs no memory.
        ("fuse", fuse),
        ("place", lambda module: place(module, target)),
        # Before reside: what was asked for comes first.
        ("keep", lambda module: keep(module, target, resident)),
        # Before hoist, which then knows the SRAM that is left.
        ("reside", lambda module: reside(module, space) if resident.loops else None),
        # Before skew, which takes a slot that does not change for one that the loop hands over.
        ("hoist", lambda module: hoist(module, space)),
        # After place, which says who works on what; before buffer, which gives every ring its slots.
        ("skew", lambda module: skew(module, target)),
        # Before allocate, which needs the number of slots; after place, which makes the rings.
        ("buffer", lambda module: buffer(module, space, num_stages)),
        # Before sync: buffers that share memory depend on each other by address.
        ("allocate", lambda module: allocate(module, space)),
        ("sync", lambda module: sync(module, target)),
        # Last, on exactly what is emitted.
        ("check", lambda module: check(module, target)),
    ]


def run_passes(
    module: ModuleOp,
    target: Target,
    *,
    num_stages: int | None = None,
    resident: Resident = AUTOMATIC,
    observe: Observer | None = None,
    verify: bool = False,
) -> None:
    """Turn tile IR into synchronised dsa IR, in place.

    Args:
        module: one `func.func` of tile IR, as docs/architecture.md defines it.
        num_stages: slots of the rings that loads fill; None lets the cost model choose.
        resident: what stays in SRAM across iterations and launches.
        observe: called after each pass.
        verify: run the IR verifier after each pass; a failure is an InternalError that names the pass.
    """
    if observe:
        observe("parse", module)
    for name, run in passes(target, num_stages, resident):
        run(module)
        if verify:
            _verify(name, module)
        if observe:
            observe(name, module)


def compile_module(
    module: ModuleOp,
    target: Target,
    *,
    num_stages: int | None = None,
    resident: Resident = AUTOMATIC,
    grid: Sequence[int] | None = None,
    values: Mapping[str, int] = _NONE,
    observe: Observer | None = None,
    verify: bool = False,
) -> Image:
    """Compile tile IR to a device image; arguments as in `run_passes`.

    Args:
        grid: the three sizes of the grid, for an image with a static schedule; None for one with flags.
        values: of integer arguments by name, which a static schedule may depend on.
    """
    run_passes(
        module, target, num_stages=num_stages, resident=resident, observe=observe, verify=verify
    )
    return lower(module, target) if grid is None else schedule(module, target, grid, values)


def _verify(name: str, module: ModuleOp) -> None:
    try:
        module.verify()
    except VerifyException as error:
        raise InternalError(f"invalid IR after pass {name}: {error}\n{print_ir(module)}") from error
