"""Expressions of random kernels that rearrange or combine elements of a tile."""

from __future__ import annotations

import math
from abc import abstractmethod

from e2e.random_memory import MemoryWriter
from e2e.random_model import FLOATS, LIMIT, Shape


class TileWriter(MemoryWriter):
    """Writes reductions, scans, products and views."""

    @abstractmethod
    def leaf(self, kind: str, shape: Shape) -> str:
        """A value without operands."""

    @abstractmethod
    def plain(self, text: str) -> str:
        """A float in fp32 or fp64, in which functions are computed."""

    def small(self, kind: str, shape: Shape, depth: int) -> str:
        """Whole numbers from -8 to 8 in int32 or fp32, for sums."""
        if kind == "i":
            return f"tl.clamp({self.expr('i', shape, depth)}.to(tl.int32), -8, 8)"
        return f"tl.clamp(tl.floor({self.plain(self.expr('f', shape, depth))}), -8, 8)"

    def reduced(self, kind: str, shape: Shape, depth: int) -> str:
        axis = self.rng.randrange(len(shape) + 1)
        extra = self.rng.choice(self.dims)
        if math.prod(shape) * extra > LIMIT:
            return self.leaf(kind, shape)
        whole = (*shape[:axis], extra, *shape[axis:])
        keep = self.chance(0.3) and shape != ()
        given = axis if self.chance(0.8) else axis - len(whole)
        tail = f"{given}{', keep_dims=True' if keep else ''})"
        form = self.one_of("sum", "max", "min", "arg", "xor" if kind == "i" else "sum")
        if form == "sum":
            text = f"tl.sum({self.small(kind, whole, depth)}, {tail}"
        elif form == "arg" and kind == "i":
            name = self.one_of("argmax", "argmin")
            text = f"tl.{name}({self.expr(self.rng.choice('if'), whole, depth)}, {tail}"
        elif form == "arg":
            name = self.one_of("max", "min")
            pick = self.rng.choice([0, 0, 1])
            text = (
                f"tl.{name}({self.expr('f', whole, depth)}, {given}, return_indices=True)[{pick}]"
            )
            return text if not pick else f"{text}.to(tl.float32)"
        elif form == "xor":
            text = f"tl.xor_sum({self.expr('i', whole, depth)}, {tail}"
        else:
            text = f"tl.{form}({self.expr(kind, whole, depth)}, {tail}"
        if keep:
            return f"{text}.reshape({', '.join(map(str, shape))})"
        return text

    def scan(self, kind: str, shape: Shape, depth: int) -> str:
        axis = self.rng.randrange(len(shape))
        tail = ", reverse=True)" if self.chance(0.4) else ")"
        return f"tl.cumsum({self.small(kind, shape, depth)}, {axis}{tail}"

    def reshaped(self, kind: str, shape: Shape, depth: int) -> str:
        """The same elements in another order or from another shape."""
        sizes = ", ".join(map(str, shape))
        form = self.rng.randrange(3)
        if form == 0 and len(shape) > 1:
            order = self.rng.sample(range(len(shape)), len(shape))
            source = [0] * len(shape)
            for place, dim in enumerate(order):
                source[dim] = shape[place]
            if order == [1, 0] and self.chance(0.5):
                return f"tl.trans({self.expr(kind, tuple(source), depth)})"
            return f"tl.permute({self.expr(kind, tuple(source), depth)}, {tuple(order)})"
        if form == 1:
            total = math.prod(shape)
            divisors = [d for d in range(1, total + 1) if total % d == 0]
            first = self.rng.choice(divisors)
            source_shape = (total,) if self.chance(0.4) else (first, total // first)
            return f"{self.expr(kind, source_shape, depth)}.reshape({sizes})"
        part = tuple(n if self.chance(0.5) else 1 for n in shape)
        ones = ", ".join(":" if n != 1 else "None" for n in part)
        inner = tuple(n for n in part if n != 1)
        text = self.expr(kind, inner, depth)
        if not inner:
            return f"tl.full(({sizes},), {text}, tl.{self.dtype(kind)})"
        return f"tl.broadcast_to({text}[{ones}], {sizes})"

    def dot(self, kind: str, shape: Shape, depth: int) -> str:
        *batch, m, n = shape
        inner = self.rng.choice(self.dims)
        if math.prod(batch) * inner * max(m, n) > LIMIT:
            return self.leaf(kind, shape)
        dtype = "int8" if kind == "i" else self.rng.choice(FLOATS)
        sides = []
        for rows, columns in ((m, inner), (inner, n)):
            turned = self.chance(0.4)
            at = (*batch, columns, rows) if turned else (*batch, rows, columns)
            text = f"{self.small(kind, at, depth - 1)}.to(tl.{dtype})"
            sides.append(f"tl.trans({text})" if turned else text)
        acc = ""
        if self.chance(0.5):
            acc = f", {self.small(kind, shape, depth - 1)}"
            if kind == "f":
                acc += ".to(tl.float64)" if dtype == "float64" else ".to(tl.float32)"
        out = ", out_dtype=tl.int32" if kind == "i" else ""
        return f"tl.dot({sides[0]}, {sides[1]}{acc}{out})"
