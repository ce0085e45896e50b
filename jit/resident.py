"""Arrays that stay in SRAM across launches: `with dsa.resident(w):` and `@dsa.jit(resident="w")`."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dsalang._backend.errors import LaunchError, SramOverflowError
from dsalang._backend.resident import Resident
from dsalang._runtime.arrays import ArrayView, view_of
from dsalang._runtime.residency import Sram

from .arguments import Arguments
from .launch import Grid, grid_of
from .source import KernelSource
from .specialize import Specialization

if TYPE_CHECKING:
    from dsalang._backend.image.model import Image
    from dsalang._backend.target import Target

Compile = Callable[[Specialization], "Image"]


@dataclass
class _Place:
    """Where a kernel keeps arrays, and the SRAM that it may use else; `contents` as in images.

    `start` is where its bytes begin, `top` where they end; there are none when the two are equal.
    """

    top: int
    limit: int
    start: int
    contents: str = ""


@dataclass
class _Plan:
    """Which SRAM kernels keep: from `floor` to `ceiling`; `places` by what is compiled, and by what is kept."""

    ceiling: int
    floor: int
    places: dict[tuple[str, str], _Place] = field(default_factory=dict)
    alike: dict[tuple[str, Resident], _Place] = field(default_factory=dict)

    def spec(self, spec: Specialization, name: str, compile_: Compile) -> Specialization:
        """A specialisation with its place; kernels that keep something stand one in front of the other.

        Variants of a kernel stand in the same place if they load the same into it.
        """
        known = self.places.get((name, spec.key))
        if known is None:
            known = self._find(spec, name, compile_)
        placed = _at(spec, known)
        image = compile_(placed)
        if image.working_bytes > self.floor:  # what came later stands where it works
            known.limit = self.floor
            placed = _at(spec, known)
            image = compile_(placed)
        self.places[name, spec.key] = known
        if image.residency is not None:
            self.floor = min(self.floor, image.residency.start)
        return placed

    def _find(self, spec: Specialization, name: str, compile_: Compile) -> _Place:
        """A place: that of a variant which loads the same, else a new one, else that of other variants."""
        like = (name, spec.resident)
        sibling = self.alike.get(like)
        if sibling is not None:
            with suppress(SramOverflowError):
                place = self._try(spec, sibling.top, self.floor, compile_)
                if place.contents == sibling.contents:
                    return place
        try:
            place = self._try(spec, self.floor, self.floor, compile_)
        except SramOverflowError as error:
            found = self._replace(spec, name, compile_)
            if found is None:
                raise error from None
            place = found
        if place.contents:
            self.alike[like] = place
        return place

    def _try(self, spec: Specialization, top: int, limit: int, compile_: Compile) -> _Place:
        place = _Place(top, limit, top)
        region = compile_(_at(spec, place)).residency
        if region is not None:
            place.start, place.contents = region.start, region.contents
        return place

    def _replace(self, spec: Specialization, name: str, compile_: Compile) -> _Place | None:
        """A place instead of those of all other variants of the kernel, None when that does not help."""
        others = {key: place for key, place in self.places.items() if key[0] != name}
        taken = [(place.start, place.top) for place in others.values() if place.contents]
        floor = min([self.ceiling, *(start for start, _ in taken)])
        tops = {place.top for key, place in self.places.items() if key[0] == name}
        for top in sorted({floor, *tops}, reverse=True):
            with suppress(SramOverflowError):
                place = self._try(spec, top, floor, compile_)
                if all(place.top <= start or end <= place.start for start, end in taken):
                    self.places, self.floor = others, floor
                    self.alike = {like: p for like, p in self.alike.items() if like[0] != name}
                    return place
        return None

    def copy(self) -> _Plan:
        """A plan that goes on from this one."""
        return _Plan(
            self.floor,
            self.floor,
            {key: replace(place) for key, place in self.places.items()},
            dict(self.alike),
        )


def _at(spec: Specialization, place: _Place) -> Specialization:
    return replace(spec, resident=replace(spec.resident, top=place.top, limit=place.limit))


class resident:  # noqa: N801 (read as a statement: with dsa.resident(w): ...)
    """Keep the tiles that kernels load from some arrays in SRAM, from launch to launch.

    In the `with` block, a kernel that is launched with one of the arrays (or a part of one) loads its tiles once;
    later launches find them there. Other kernels of the block are compiled for the SRAM that is left. What a core
    holds are the tiles that its own programs load. A launch loads again when the arrays have been written since,
    when integers that the tiles depend on have changed, and when something outside of the block has used the
    memory. Outside of the block nothing is kept.

    Args:
        arrays: numpy arrays, torch CPU tensors, DLPack objects, device arrays.

    Raises:
        LaunchError: something is no array.

    Launches in the block raise SramOverflowError when what is to stay does not fit, and CompileError when a
    kernel writes to an array, or loads tiles from it at places that are not known when it starts.

    >>> import numpy as np, dsalang as dsa
    >>> w = np.ones((64, 64), np.float16)
    >>> with dsa.resident(w):
    ...     pass
    """

    def __init__(self, *arrays: Any) -> None:
        if not arrays:
            raise LaunchError("dsa.resident() of nothing", hint="name arrays: dsa.resident(w1, w2)")
        self._views = [view_of(a, f"{n} of dsa.resident") for n, a in enumerate(arrays)]
        self._depth = 0
        self._plans: weakref.WeakKeyDictionary[Sram, tuple[_Plan, int]] = (
            weakref.WeakKeyDictionary()
        )

    def __enter__(self) -> resident:
        self._depth += 1
        _active.set((*_active.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        blocks = list(_active.get())
        if (
            self in blocks
        ):  # not the last one where a generator ends, not there in the context of another thread
            del blocks[len(blocks) - 1 - blocks[::-1].index(self)]
            _active.set(tuple(blocks))
        self._depth -= 1
        if not self._depth:
            for sram, (plan, before) in self._plans.items():
                sram.evict(plan.floor, before)
            self._plans.clear()

    def holds(self, view: ArrayView) -> bool:
        """Whether an argument lies in one of the arrays."""
        return any(
            v.start <= view.start < view.stop <= v.stop and _device(v) is _device(view)
            for v in self._views
        )

    def plan(self, sram: Sram, target: Target) -> _Plan:
        """The plan for some cores; that of a block in a block goes on from the outer one's."""
        found = self._plans.get(sram)
        if found is None:
            blocks = _active.get()
            at = blocks.index(self) if self in blocks else 0
            plan = (
                blocks[at - 1].plan(sram, target).copy()
                if at
                else _Plan(target.sram_bytes, target.sram_bytes)
            )
            found = self._plans[sram] = plan, plan.floor
        return found[0]


_active: ContextVar[tuple[resident, ...]] = ContextVar("dsalang_resident", default=())
_annotated: weakref.WeakKeyDictionary[Sram, _Plan] = weakref.WeakKeyDictionary()
"""Plans of kernels that keep arrays without a block: each takes its place until one does not fit any more."""


_trial: ContextVar[bool] = ContextVar("dsalang_resident_trial", default=False)


@contextmanager
def trial() -> Iterator[None]:
    """In here, nothing that is compiled takes a place: configurations are tried out, and most will not be used."""
    token = _trial.set(True)
    try:
        yield
    finally:
        _trial.reset(token)


def active() -> bool:
    """Whether where a kernel stands depends on what surrounds the launch: a block, or a trial."""
    return bool(_active.get()) or _trial.get()


def _device(view: ArrayView) -> object:
    return getattr(view.owner, "device", None) if getattr(view.owner, "on_driver", False) else None


@dataclass(frozen=True)
class Wish:
    """What a kernel or a launch says about residency: names of parameters, or False for no residency at all."""

    names: tuple[str, ...] = ()
    never: bool = False

    @staticmethod
    def of(value: Any, source: KernelSource) -> Wish | None:
        """An option as the user wrote it. Raises LaunchError."""
        if value is None:
            return None
        if value is False:
            return Wish(never=True)
        names = (value,) if isinstance(value, str) else value
        known = [param.name for param in source.params if not param.constexpr]
        if not isinstance(names, (tuple, list)) or any(name not in known for name in names):
            raise LaunchError(
                f"resident={value!r} is not allowed for kernel {source.name}",
                hint=f"it is False, or names of array parameters; parameters are {', '.join(known)}",
            )
        return Wish(tuple(names))


def requested(wish: Wish, arguments: Arguments, grid: Grid, static: bool) -> Resident:
    """What a launch is to be compiled to keep, without its place."""
    if wish.never:
        return Resident(loops=False)
    held = [
        name
        for name, view in arguments.pointers.items()
        if any(b.holds(view) for b in _active.get())
    ]
    for name in wish.names:
        if name not in arguments.pointers:
            raise LaunchError(f"resident names {name!r}, which is no array in this launch")
    names = tuple(n for n in arguments.pointers if n in held or n in wish.names)
    _check_dynamic(names, static)
    return Resident(arrays=names, grid=grid) if names and 0 not in grid else Resident()


def compiled(wish: Wish, spec: Specialization, grid: Any, static: bool) -> Resident:
    """What `compile` is asked to keep: it knows no blocks, and needs the grid. Raises LaunchError."""
    if wish.never or not wish.names:
        return Resident(loops=not wish.never)
    for name in wish.names:
        if not spec.signature.get(name, "").startswith("*"):
            raise LaunchError(f"resident names {name!r}, which is no array in this signature")
    if grid is None:
        raise LaunchError(
            f"resident={wish.names!r} without a grid",
            hint="what stays in SRAM is for one grid: pass grid=(programs,) to compile (--grid)",
        )
    _check_dynamic(wish.names, static)
    return Resident(arrays=wish.names, grid=grid_of(grid, spec.constants))


def _check_dynamic(names: tuple[str, ...], static: bool) -> None:
    if names and static:
        raise LaunchError(
            f"{', '.join(names)}: arrays cannot stay in SRAM across launches with a static schedule, whose times hold "
            "for any launch",
            hint='use schedule="dynamic"; inside of a kernel, loads that loops repeat are kept with both',
        )


def placed(
    spec: Specialization, name: str, target: Target, sram: Sram, compile_: Compile
) -> Specialization:
    """A specialisation with the place of what it keeps, and the SRAM it may use beside what others keep.

    Args:
        name: tells the kernel from others.

    Raises SramOverflowError when the SRAM does not suffice.
    """
    blocks = _active.get()
    if not blocks and not spec.resident.arrays:
        return spec
    if blocks:
        plan = blocks[-1].plan(sram, target)
    else:
        plan = _annotated.setdefault(sram, _Plan(target.sram_bytes, target.sram_bytes))
    if _trial.get():
        plan = plan.copy()
    try:
        return plan.spec(spec, name, compile_)
    except SramOverflowError:
        if blocks or plan.floor == target.sram_bytes:
            raise
        # Others give way: they load again when they run again.
        plan = _Plan(target.sram_bytes, target.sram_bytes)
        if not _trial.get():
            _annotated[sram] = plan
        return plan.spec(spec, name, compile_)
