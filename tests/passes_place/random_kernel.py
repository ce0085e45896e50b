"""Random kernels on int32 tiles: elementwise, reductions, views, products, loops, branches, addresses from SRAM."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from dsalang._backend.dialects import tile
from dsalang._backend.dialects.types import shape_of

from .build import Kernel

SHAPE = (4, 6)
Draw = Callable[[int], int]


class Random:
    """Builds a random kernel on int32 tiles of SHAPE and int32 scalars."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.k = Kernel(x="*int32", out="*int32", n="int32")
        self.tiles: list[SSAValue] = []
        self.scalars: list[SSAValue] = [self.k.args["n"], self.k.pid(), self.k.const(3)]
        self.depth = 0

    def module(self) -> ModuleOp:
        self.tiles = [self.load(), self.k.full(SHAPE, 0, "int32")]
        for _ in range(3 + self.draw(5)):
            self.step()
        for number, value in enumerate(self.tiles[-4:]):
            self.store(value, number * 24)
        for number, value in enumerate(self.scalars[-3:]):
            self.k.store("out", value, self.slot(100 + number), [])
        return self.k.module()

    def slot(self, element: int) -> SSAValue:
        """An address in the program's part of the output."""
        k = self.k
        start = k.map("iadd", k.map("imul", k.pid(), k.const(128)), k.const(element))
        return k.address("out", start, 4)

    def store(self, value: SSAValue, element: int) -> None:
        self.k.store("out", value, self.slot(element), [24, 4])

    def small(self) -> SSAValue:
        """A scalar in 0 … 7."""
        value = self.pick(self.scalars)
        return self.k.map("iand", value, self.k.const(7))

    def load(self) -> SSAValue:
        start = self.small()
        return self.k.load(
            "x", SHAPE, self.k.address("x", start, 4), [24, 4], hi=[4, self.k.const(5)]
        )

    def pick(self, values: list[SSAValue]) -> SSAValue:
        return values[self.draw(len(values))]

    def step(self) -> None:
        kinds = [
            self.elementwise, self.elementwise, self.two_results, self.broadcast, self.scalar_map,
            self.reduce, self.fresh_load, self.transposed, self.scan, self.reshaped, self.product,
        ]  # fmt: skip
        if self.depth < 3:
            kinds += [self.loop, self.loop, self.branch, self.repeat]
        kinds[self.draw(len(kinds))]()

    def elementwise(self) -> None:
        fn = ("iadd", "isub", "smax", "ixor")[self.draw(4)]
        a, b = self.pick(self.tiles), self.pick(self.tiles + self.scalars)
        self.tiles.append(self.k.same(fn, a, b))

    def two_results(self) -> None:
        a, b = self.pick(self.tiles), self.pick(self.tiles)
        axes = list(range(2))
        self.tiles += self.k.fused(
            SHAPE, [a, b], [axes, axes], lambda k, x, y: [k.map("isub", x, y), k.map("smin", x, y)]
        )

    def broadcast(self) -> None:
        axis = self.draw(2)
        row = self.k.reduce("isum", self.pick(self.tiles), axis)
        self.tiles += self.k.fused(
            SHAPE,
            [self.pick(self.tiles), row],
            [[0, 1], [1 - axis]],
            lambda k, x, y: [k.map("iadd", x, y)],
        )

    def transposed(self) -> None:
        value = self.k.permute(self.pick(self.tiles), 1, 0)
        self.tiles += self.k.fused(
            SHAPE,
            [value, self.pick(self.tiles)],
            [[1, 0], [0, 1]],
            lambda k, x, y: [k.map("isub", x, y)],
        )

    def reshaped(self) -> None:
        value = self.k.permute(self.pick(self.tiles), 1, 0)
        self.tiles.append(self.k.add(tile.ReshapeOp(value, SHAPE)))

    def product(self) -> None:
        """int8 · int8 into int32, with an accumulator now and then."""
        k = self.k

        def narrow(value: SSAValue) -> SSAValue:
            return k.fused(SHAPE, [value], [[0, 1]], lambda k, x: [k.map("trunc", x, to="int8")])[0]

        a, b = narrow(self.pick(self.tiles)), narrow(self.pick(self.tiles))
        square = k.dot(a, k.permute(b, 1, 0), None, "int32")  # [4, 4]
        total = k.reduce("isum", square, 1)
        acc = self.pick(self.tiles) if self.draw(2) else None
        wide = k.dot(
            k.fused([4, 4], [square], [[0, 1]], lambda k, x: [k.map("trunc", x, to="int8")])[0],
            b,
            acc,
            "int32",
        )
        self.tiles += k.fused(
            SHAPE, [wide, total], [[0, 1], [0]], lambda k, x, y: [k.map("ixor", x, y)]
        )

    def scan(self) -> None:
        op = tile.ScanOp("isum", self.pick(self.tiles), self.draw(2), bool(self.draw(2)))
        self.tiles.append(self.k.add(op))

    def reduce(self) -> None:
        line = self.k.reduce("smax", self.pick(self.tiles), self.draw(2))
        self.scalars.append(self.k.reduce("isum", line, 0))

    def scalar_map(self) -> None:
        fn = ("iadd", "isub", "smin", "ixor")[self.draw(4)]
        self.scalars.append(self.k.map(fn, self.pick(self.scalars), self.pick(self.scalars)))

    def fresh_load(self) -> None:
        self.tiles.append(self.load())

    # control flow

    def nested(self, tiles: list[SSAValue], scalars: list[SSAValue], results: list[SSAValue]) -> list[SSAValue]:  # fmt: skip
        """A body that sees more values, and values of the types of `results` at its end."""
        outer = list(self.tiles), list(self.scalars)
        self.tiles += tiles
        self.scalars += scalars
        self.depth += 1
        for _ in range(1 + self.draw(3)):
            self.step()
        self.depth -= 1
        values = [self.pick(self.tiles if shape_of(r.type) else self.scalars) for r in results]
        recent = (self.tiles[-1], self.scalars[-1])
        for j, r in enumerate(results):
            if self.draw(2):
                values[j] = recent[0] if shape_of(r.type) else recent[1]
        self.tiles, self.scalars = outer
        return values

    def carried(self) -> list[SSAValue]:
        tiles = [self.pick(self.tiles) for _ in range(self.draw(3))]
        return tiles + [self.pick(self.scalars) for _ in range(self.draw(3))]

    def keep(self, results: tuple[SSAValue, ...]) -> None:
        self.tiles += [r for r in results if shape_of(r.type)]
        self.scalars += [r for r in results if not shape_of(r.type)]

    def split(self, values: tuple[SSAValue, ...]) -> tuple[list[SSAValue], list[SSAValue]]:
        tiles = [v for v in values if shape_of(v.type)]
        return tiles, [v for v in values if not shape_of(v.type)]

    def loop(self) -> None:
        inits = self.carried()

        def body(k: Kernel, i: SSAValue, *carried: SSAValue) -> list[SSAValue]:
            tiles, scalars = self.split(carried)
            return self.nested(tiles, [*scalars, i], inits)

        end = self.k.const(self.draw(4))
        if self.draw(2):
            end = self.k.map("iand", self.pick(self.scalars), self.k.const(3))
        self.keep(self.k.loop(self.k.const(0), end, inits, body))

    def branch(self) -> None:
        like = self.carried() or [self.tiles[0]]
        condition = self.k.map("sgt", self.pick(self.scalars), self.pick(self.scalars))
        self.keep(
            self.k.branch(
                condition,
                lambda k: self.nested([], [], like),
                lambda k: self.nested([], [], like),
            )
        )

    def repeat(self) -> None:
        inits = [self.k.const(0), *self.carried()]

        def before(k: Kernel, count: SSAValue, *carried: SSAValue) -> tuple[SSAValue, list[SSAValue]]:  # fmt: skip
            tiles, scalars = self.split(carried)
            passed = self.nested(tiles, scalars, list(carried))
            return k.map("slt", count, k.const(2)), [count, *passed]

        def after(k: Kernel, count: SSAValue, *carried: SSAValue) -> list[SSAValue]:
            tiles, scalars = self.split(carried)
            back = self.nested(tiles, scalars, list(carried))
            return [k.map("iadd", count, k.const(1)), *back]

        self.keep(self.k.repeat(inits, before, after))
