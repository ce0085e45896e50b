"""A launch: the grid, the memory the machine sees, and the engine that runs the image."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dsalang._backend.errors import LaunchError, did_you_mean
from dsalang._backend.formats import Format
from dsalang._backend.resident import FLAG
from dsalang._runtime.arrays import ArrayView, extents_of
from dsalang._runtime.memory import Memory, Segment
from dsalang._runtime.residency import Sources

from . import dtypes
from .arguments import Arguments
from .composite import composites
from .places import place_of, steps
from .source import KernelSource
from .specialize import Specialization

if TYPE_CHECKING:
    from dsalang._backend.image.model import Image

    from .interpret.report import Interpreted

Grid = tuple[int, int, int]
MAX_PROGRAMS = 2**31 - 1


def grid_of(grid: Any, meta: Mapping[str, Any]) -> Grid:
    """The three sizes of a grid: an int, a tuple of one to three, or a function of the arguments by name.

    Raises LaunchError for anything else, for negative sizes, and for more than 2**31 - 1 programs.
    """
    if grid is None:
        raise LaunchError(
            "a launch needs a grid, which says how many programs run",
            hint="kernel[grid](...), or grid=(programs,) beside the arguments of run, warmup and profile",
        )
    if callable(grid):
        grid = _called(grid, meta)
    sizes = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
    if not 1 <= len(sizes) <= 3:
        raise LaunchError(f"a grid has one to three sizes, not {len(sizes)}: {grid!r}")
    whole = tuple(_size(size, grid) for size in sizes)
    programs = 1
    for size in whole:
        programs *= size
    if programs > MAX_PROGRAMS or max(whole) > MAX_PROGRAMS:
        raise LaunchError(
            f"grid {whole} has {programs} programs, more than {MAX_PROGRAMS}",
            hint="give each program more work, e.g. a larger block",
        )
    x, y, z = (*whole, 1, 1)[:3]
    return x, y, z


class _UnnamedError(KeyError):
    """A grid function asks for an argument that there is not."""


class _Meta(dict[str, Any]):
    """What a grid function gets."""

    def __missing__(self, name: str) -> Any:
        raise _UnnamedError(name)


def _called(grid: Callable[[dict[str, Any]], Any], meta: Mapping[str, Any]) -> Any:
    """The result of a grid function. Raises LaunchError, with its place, when it asks for an unknown name."""
    try:
        return grid(_Meta(meta))
    except _UnnamedError as error:
        name, loc = error.args[0], None
        for step in steps(error):
            if step.tb_frame.f_code not in (_called.__code__, _Meta.__missing__.__code__):
                loc = place_of(step, loc)
        meant = did_you_mean(str(name), meta)
        raise LaunchError(
            f"the grid asks for {name!r}, which is no argument of the launch",
            loc,
            f"{meant + ' ' if meant else ''}its arguments are {', '.join(meta)}",
        ) from None


def _size(size: Any, grid: Any) -> int:
    try:
        if isinstance(size, (bool, np.bool_)):
            raise TypeError
        value = operator.index(size)
    except TypeError:
        raise LaunchError(
            f"grid {grid!r} holds {size!r}; sizes are integers",
            hint="use dsa.cdiv(n, BLOCK) to round a quotient up",
        ) from None
    if value < 0:
        raise LaunchError(f"grid {grid!r} has the negative size {value}")
    return value


def memory_of(arguments: Arguments) -> Memory:
    """The arrays of a launch as the machine's memory, at their real addresses."""
    return _memory(list(arguments.pointers.items()))


def memory_beyond(arguments: Arguments) -> Callable[[], Memory]:
    """A function that finds, each time anew, the same memory with the arrays that integers in it point to."""
    # What is kept for the next launch must not keep arrays alive.
    views = {n: replace(view, owner=None) for n, view in arguments.pointers.items()}
    light = Arguments(views, arguments.scalars)
    return lambda: _memory([*views.items(), *arrays_behind(light)])


def _memory(views: list[tuple[str, ArrayView]]) -> Memory:
    extents, _ = extents_of(views)
    return Memory(
        Segment(extent.start, extent.bytes(), "/".join(extent.names), extent.writable)
        for extent in extents
    )


def arrays_behind(arguments: Arguments) -> list[tuple[str, ArrayView]]:
    """The arrays that integers among the arguments point to."""
    from dsalang._runtime.live_arrays import pointed_to

    numbers = [
        (name, int(value)) for name, (kind, value) in arguments.scalars.items() if kind.is_int()
    ]
    return pointed_to(list(arguments.pointers.items()), numbers)


def argument_bits(arguments: Arguments, name: str) -> int:
    """An argument as the i64 that the glue gets."""
    if name in arguments.pointers:
        return arguments.pointers[name].address
    kind, value = arguments.scalars[name]
    return scalar_bits(kind.format, value)


def bits_of(arguments: Arguments, names: Sequence[str], flag: int = 1) -> tuple[int, ...]:
    """What the glue of an image with arguments of these names gets; `flag` is for images that keep something."""
    return tuple(flag if name == FLAG else argument_bits(arguments, name) for name in names)


def kept_by(image: Image, arguments: Arguments) -> tuple[Sources, tuple[object, ...]]:
    """The arrays that an image keeps tiles of, and what tells its tiles from those of other launches."""
    region = image.residency
    assert region is not None
    names = [argument.name for argument in image.arguments]
    sources = Sources(arguments.pointers, [names[number] for number in region.arrays])
    scalars = [names[number] for number in region.depends]
    values = tuple(zip(scalars, bits_of(arguments, scalars)))
    return sources, (region.contents, region.grid, values, sources.geometry)


def scalar_bits(fmt: Format, value: bool | int | float) -> int:
    """An argument as the i64 that the glue gets: sign-extended integer, or the bits of a float."""
    if not fmt.is_float:
        wrapped = int(value) & (2**64 - 1)
        return wrapped - 2**64 if wrapped >= 2**63 else wrapped
    with np.errstate(over="ignore"):
        stored = _stored(value, fmt)
    return int.from_bytes(stored.tobytes(), "little")


def _stored(value: bool | int | float, fmt: Format) -> NDArray[Any]:
    """A number as an element; a float becomes fp32 on the way to a narrower format."""
    through = np.float32 if fmt.is_float and fmt.bits < 32 else fmt.storage
    return np.asarray(value, through).astype(fmt.storage)


def run_interpreted(
    source: KernelSource, spec: Specialization, arguments: Arguments, grid: Grid
) -> Interpreted:
    """Run the kernel as plain Python."""
    from .interpret.builtins_blocks import put_together
    from .interpret.memory import Piece
    from .interpret.report import Interpreted
    from .interpret.run import interpret
    from .interpret.tile import InterpTile

    values: dict[str, Any] = dict(spec.constants)
    for name, view in arguments.pointers.items():
        kind = dtypes.pointer_type(dtypes.of_format(view.fmt))
        values[name] = InterpTile(np.asarray(_signed(view.address), np.int64), kind)
    for name, (kind_, value) in arguments.scalars.items():
        if name not in spec.constants:
            values[name] = InterpTile(_stored(value, kind_.format), kind_)
    extents, _ = extents_of(list(arguments.pointers.items()))
    pieces = [Piece(e.start, e.bytes(), e.names, e.writable) for e in extents]

    def beyond() -> list[Piece]:
        views = [*arguments.pointers.items(), *arrays_behind(arguments)]
        return [Piece(e.start, e.bytes(), e.names, e.writable) for e in extents_of(views)[0]]

    for name, composite in composites(spec.constants).items():
        values[name] = composite.build(values.__getitem__, put_together)
    interpret(source, {p.name: values[p.name] for p in source.params}, pieces, grid, beyond)
    return Interpreted(source.name)


def _signed(address: int) -> int:
    return int(struct.unpack("<q", struct.pack("<Q", address))[0])
