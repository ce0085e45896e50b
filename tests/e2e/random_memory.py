"""Loads of random kernels, and the offsets and masks of loads and stores."""

from __future__ import annotations

import math

from e2e.random_model import SPAN, Choices, Shape


class MemoryWriter(Choices):
    """Writes accesses to arrays."""

    def loaded(self, kind: str, shape: Shape, depth: int) -> str:
        arrays = [a for a in self.arrays if a.kind == kind]
        if not arrays:
            return f"tl.full(({''.join(f'{n}, ' for n in shape)}), 1, tl.{self.dtype(kind)})"
        array = self.rng.choice(arrays)
        if not shape:
            return f"tl.load({array.name} + ({self.expr('i', (), depth)} & 127))"
        offsets, mask = self.offsets(shape, depth, unique=False)
        if not mask:
            return f"tl.load({array.name} + {offsets})"
        other = ""
        if self.chance(0.6):
            other = f", other={self.rng.randrange(0, 5)}"
        elif self.chance(0.2):
            other = f", other={self.expr(kind, shape, depth - 1)}.to(tl.{array.dtype})"
        return f"tl.load({array.name} + {offsets}, mask={mask}{other})"

    def counter(self) -> str:
        return f"({self.expr('i', (), 1)}.to(tl.int32) & 7)"

    def axis(self, dim: int, rank: int) -> str:
        """Brackets that put a rank-1 tile along a dim."""
        return (
            ""
            if rank == 1
            else "[" + ", ".join(":" if d == dim else "None" for d in range(rank)) + "]"
        )

    def linear(self, shape: Shape) -> str:
        stride, parts = 1, []
        for dim in range(len(shape) - 1, -1, -1):
            parts.append(f"tl.arange(0, {shape[dim]}){self.axis(dim, len(shape))} * {stride}")
            stride *= shape[dim]
        return "(" + " + ".join(parts) + ")"

    def offsets(self, shape: Shape, depth: int, unique: bool) -> tuple[str, str]:
        """Offsets within SPAN elements, different ones if `unique`, and a mask or ''."""
        form = self.rng.randrange(8) if depth > 0 and self.nodes > 0 else 7
        mask = ""
        if form == 0 and unique:
            odd = self.rng.randrange(1, 400) * 2 + 1
            text = f"(({self.linear(shape)} * {odd} + {self.counter()}) & {SPAN - 1})"
        elif form == 0:
            text = f"({self.expr('i', shape, depth)}.to(tl.int32) & {self.rng.choice([15, 255, SPAN - 1])})"
        elif form == 1:
            text = f"tl.load(perm + {self.linear(shape)})"
        elif form == 2 and not unique:
            index = self.expr("i", shape, depth) + ".to(tl.int32)"
            return f"({index})", f"({index} >= 0) & ({index} < {SPAN})"
        elif form == 3 and len(shape) > 1 and shape[0] <= 16:
            width = math.prod(shape[1:])
            rows = max(16, 1)
            if rows * width > SPAN:
                text = self.linear(shape)
            else:
                rank = len(shape)
                row = f"((tl.arange(0, {shape[0]}) * {self.rng.choice([1, 3, 5])} + {self.counter()}) & 15)"
                if not unique and self.chance(0.5):
                    row = f"({self.expr('i', (shape[0],), depth)}.to(tl.int32) & 15)"
                inner = self.linear((1, *shape[1:])) if rank > 1 else "0"
                text = f"({row}{self.axis(0, rank)} * {width} + {inner})"
        else:
            return self.affine(shape, depth, unique)
        if self.chance(0.4):
            mask = self.expr("b", shape, 1)
        return text, mask

    def affine(self, shape: Shape, depth: int, unique: bool) -> tuple[str, str]:
        rank = len(shape)
        order = self.rng.sample(range(rank), rank)
        strides, reach = [0] * rank, 1
        sizes = []
        for dim in range(rank):
            wrap = shape[dim] + self.rng.randrange(4) if self.chance(0.15) else 0
            sizes.append((shape[dim], wrap))
        for dim in order:
            strides[dim] = reach
            reach *= (sizes[dim][1] or sizes[dim][0]) + self.rng.choice([0, 0, 1, 3])
        if reach > SPAN - 16:
            return self.linear(shape), ""
        if not unique and self.chance(0.1):
            strides[self.rng.randrange(rank)] = 0
        parts, masks = [], []
        start = self.rng.randrange(8)
        for dim, (size, wrap) in enumerate(sizes):
            at, sign = f"tl.arange(0, {size})", 1
            if wrap:
                at = f"(({at} + {self.counter()}) % {wrap})"
            elif self.chance(0.15):
                at = f"({size - 1} - {at})"
            axis = self.axis(dim, rank)
            parts.append(f"{at}{axis} * {sign * strides[dim]}")
            if self.chance(0.35):
                bound = self.rng.choice(
                    [f"{size - 1}", "n", self.expr("i", (), 1) + ".to(tl.int32)"]
                )
                symbol = self.one_of("<", "<=", ">", ">=")
                test = f"(tl.arange(0, {size}){axis} {symbol} {bound})"
                masks.append(test if self.chance(0.85) else f"(~{test})")
        if self.chance(0.3) and depth > 0:
            masks.append(self.expr("b", shape, 1))
        mask = masks[0] if masks else ""
        for one in masks[1:]:
            mask = f"({mask} {self.rng.choice('&&&|')} {one})"
        if self.chance(0.5):
            start_text = self.counter()
        else:
            start_text = str(start)
        text = f"({start_text} + {' + '.join(parts)})"
        if self.chance(0.2) and not mask:  # a window that the array's ends cut off
            shift = self.rng.choice([-20, SPAN - 30])
            moved = f"({text} + {shift} + {self.counter()})"
            return moved, f"({moved} >= 0) & ({moved} < {SPAN})"
        return text, mask
