"""The iteration space of a fused op: which dims it has, and how operands walk them.

Members agree on their dims longer than 1. The op keeps the shape of its outputs when they agree on dims of
size 1 too. A space of more dims than the vector engine has is folded: neighbours that every operand walks
together, or not at all, become one dim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import Operation, SSAValue

from ..dialects.locations import from_ir
from ..dialects.types import shape_of
from ..errors import CompileError
from ..isa.table import MAX_VECTOR_DIMS
from .fuse_walks import CheapTiles, Place, reading, space_of


@dataclass(frozen=True)
class Space:
    """`dims` are the dims of the members' common space; dim p of it lies in dim `home[p]` of the op."""

    dims: tuple[int, ...]
    sizes: tuple[int, ...]
    home: tuple[int, ...]

    def coordinate(self, dim: int) -> tuple[int, int, int]:
        """Where a dim is: the op's dim, the points inside it per step, the steps outside of it."""
        together = [p for p, h in enumerate(self.home) if h == self.home[dim]]
        inner = prod(self.dims[p] for p in together if p > dim)
        outer = prod(self.dims[p] for p in together if p < dim)
        return self.home[dim], inner, outer

    def walk(self, shape: tuple[int, ...], place: Place) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape under which an operand is read and the op's dims it follows."""
        if len(set(self.home)) == len(self.home):
            return shape, tuple(-1 if p is None else self.home[p] for p in place)
        folded: dict[int, int] = {}
        for n, p in zip(shape, place, strict=True):
            if p is not None:
                folded[self.home[p]] = folded.get(self.home[p], 1) * n
        return tuple(folded.values()), tuple(folded)


def fused_space(
    members: Sequence[Operation], outputs: Sequence[SSAValue], cheap: CheapTiles
) -> Space:
    """The space of a fused op made of `members`."""
    dims = space_of(members[0].results[0])
    shapes = {shape_of(v.type) for v in outputs}
    if len(dims) <= MAX_VECTOR_DIMS:
        shape = next(iter(shapes)) if len(shapes) == 1 else dims
        if len(shape) > MAX_VECTOR_DIMS:
            shape = dims
        solid = [d for d, n in enumerate(shape) if n > 1] or list(range(len(dims)))
        return Space(dims, shape, tuple(solid))
    return _fold(members, dims, cheap)


def _fold(members: Sequence[Operation], dims: tuple[int, ...], cheap: CheapTiles) -> Space:
    read = [leaf for op in members for leaf in reading(op, cheap).leaves]
    places = {leaf.place for leaf in read if leaf.place}
    walks = [[p for p in place if p is not None] for place in places]
    home, sizes = [0], [dims[0]]
    for dim in range(1, len(dims)):
        if all(_together(walk, dim) for walk in walks):
            sizes[-1] *= dims[dim]
        else:
            sizes.append(dims[dim])
        home.append(len(sizes) - 1)
    if len(sizes) > MAX_VECTOR_DIMS:
        raise CompileError(
            f"an elementwise operation on a tile of shape {dims} needs {len(sizes)} dimensions, "
            f"the vector engine has {MAX_VECTOR_DIMS}",
            from_ir(members[-1].location),
            hint="reshape the tiles so that fewer dimensions are broadcast or permuted in one expression",
        )
    return Space(dims, tuple(sizes), tuple(home))


def _together(walk: list[int], dim: int) -> bool:
    """True when an operand walks `dim` right inside `dim - 1`, or neither of them."""
    if dim in walk and dim - 1 in walk:
        return walk.index(dim) == walk.index(dim - 1) + 1
    return dim not in walk and dim - 1 not in walk
