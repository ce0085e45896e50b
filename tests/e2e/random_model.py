"""What random kernels are made of: names, arrays, the kernel, and the choices of a writer."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from random import Random

Shape = tuple[int, ...]

SPAN = 1024
"""Elements of an array that one program touches."""
PER = SPAN + 64
LIMIT = 800
"""Elements of the largest tile."""

INTS = ("int32", "int8", "int16", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float16", "bfloat16", "float8e4nv", "float8e5", "float64")


@dataclass(frozen=True)
class Var:
    """A name of the kernel: kind is "i" or "f"; `fixed` names keep their value."""

    name: str
    dtype: str
    shape: Shape
    fixed: bool = False

    @property
    def kind(self) -> str:
        return "f" if "float" in self.dtype else "i"


@dataclass(frozen=True)
class Array:
    """A pointer parameter: private ones are written and read, others read only."""

    name: str
    dtype: str
    private: bool

    @property
    def kind(self) -> str:
        return "f" if "float" in self.dtype else "i"


@dataclass(frozen=True)
class RandomKernel:
    """The text of a module with a kernel `k`, its arrays and its grid."""

    text: str
    arrays: tuple[Array, ...]
    aliases: tuple[tuple[str, str, int], ...]
    """Pairs of private arrays, the second being the first from an element on."""
    grid: tuple[int, ...]
    scalars: dict[str, int | float]
    constants: dict[str, int]

    @property
    def programs(self) -> int:
        return math.prod(self.grid)


class Choices(ABC):
    """The state of a writer, and what it draws from `rng`."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.count = 0
        self.dims = rng.sample([1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 33], 3)
        self.vars: list[Var] = []
        self.arrays: list[Array] = []
        self.helpers: list[str] = []
        self.budget = rng.choice([2, 4, 7, 12])
        """Statements that may still be written."""
        self.nodes = 0
        """Operations that the statement at hand may still have."""

    def one_of(self, *options: str) -> str:
        return self.rng.choice(options)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def shape(self, rank: int | None = None) -> Shape:
        if rank is None:
            rank = self.rng.choice([0, 1, 1, 1, 2, 2, 2, 3])
        found = tuple(self.rng.choice(self.dims) for _ in range(rank))
        while math.prod(found) > LIMIT:
            found = found[1:]
        return found

    @abstractmethod
    def expr(self, kind: str, shape: Shape, depth: int) -> str:
        """A value of exactly this shape; kind is "i", "f" or "b" (a truth value)."""

    def dtype(self, kind: str) -> str:
        if self.chance(0.5):
            return "int32" if kind == "i" else "float32"
        return self.rng.choice(INTS if kind == "i" else FLOATS)
