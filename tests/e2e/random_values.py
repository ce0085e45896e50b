"""Elementwise expressions of random kernels."""

from __future__ import annotations

from e2e.random_model import Shape
from e2e.random_tiles import TileWriter

EXACT_FUNCTIONS = ("floor", "ceil")


class ValueWriter(TileWriter):
    """Writes values of any kind and shape."""

    def expr(self, kind: str, shape: Shape, depth: int) -> str:
        """A value of exactly this shape; kind is "i", "f" or "b" (a truth value)."""
        if kind == "b":
            return self.truth(shape, depth)
        self.nodes -= 1
        if depth <= 0 or self.nodes < 0 or self.chance(0.12):
            return self.leaf(kind, shape)
        forms = [self.binary, self.binary, self.binary, self.unary, self.select, self.convert]
        if self.helpers:
            forms.append(self.helper)
        if shape:
            forms += [self.reshaped, self.scan, self.loaded]
        if len(shape) < 3:
            forms += [self.reduced, self.reduced]
        if len(shape) in (2, 3):
            forms += [self.dot]
        return self.rng.choice(forms)(kind, shape, depth - 1)

    def loose(self, kind: str, shape: Shape, depth: int) -> str:
        """A value that broadcasts to a shape."""
        if not shape or self.chance(0.5):
            return self.expr(kind, shape, depth)
        if self.chance(0.4):
            return self.expr(kind, (), depth)
        if len(shape) == 1:
            return self.expr(kind, shape, depth)
        keep = [self.chance(0.5) for _ in shape]
        if not any(keep):
            return self.expr(kind, (), depth)
        part = tuple(n for n, kept in zip(shape, keep) if kept)
        index = ", ".join(":" if kept else "None" for kept in keep)
        return f"{self.expr(kind, part, depth)}[{index}]"

    def binary(self, kind: str, shape: Shape, depth: int) -> str:
        a = self.expr(kind, shape, depth)
        if kind == "f":
            if self.chance(0.25):  # an integer: fp8 does not mix with it
                a, b = self.plain(a), self.loose("i", shape, depth)
            else:
                b = self.loose("f", shape, depth)
            a, b = (a, b) if self.chance(0.7) else (b, a)
            form = self.one_of("({} + {})", "({} - {})", "({} * {})", "tl.maximum({}, {})",
                               "tl.minimum({}, {})", "({} / {})", "tl.fma({}, 0.5, {})")  # fmt: skip
            if form.startswith("tl.fma"):
                return f"tl.fma({self.plain(a)}, 0.5, {self.plain(b)})"
            return form.format(a, b)
        b = self.loose("i", shape, depth)
        if self.chance(0.25):
            shift = self.one_of("<<", ">>")
            return f"({a} {shift} {self.rng.randrange(6)})"
        if self.chance(0.2):  # signs must agree
            wide = self.one_of("int32", "int64", "uint32", "int16")
            sign = self.one_of("//", "%")
            return f"({a}.to(tl.{wide}) {sign} {b}.to(tl.{wide}))"
        form = self.one_of("({} + {})", "({} - {})", "({} * {})", "tl.maximum({}, {})",
                           "tl.minimum({}, {})", "({} & {})", "({} | {})", "({} ^ {})")  # fmt: skip
        return form.format(a, b) if self.chance(0.7) else form.format(b, a)

    def plain(self, text: str) -> str:
        """A float in fp32 or fp64, in which functions are computed."""
        return f"{text}.to(tl.{'float64' if self.chance(0.1) else 'float32'})"

    def unary(self, kind: str, shape: Shape, depth: int) -> str:
        a = self.expr(kind, shape, depth)
        if kind == "i":
            return self.one_of(f"(-{a})", f"tl.abs({a})", f"(~{a})", f"({a} % 7)", f"tl.clamp({a}, 0, 5)",
                               f"(({a}) ** 2)")  # fmt: skip
        return self.one_of(
            f"(-{a})", f"tl.abs({a})", f"tl.clamp({a}, -4, 4)", f"({a} * 0.5)", f"(1 - {a})",
            *(f"tl.{name}({self.plain(a)})" for name in EXACT_FUNCTIONS),
            f"tl.sqrt(tl.abs({self.plain(a)}))",
        )  # fmt: skip

    def select(self, kind: str, shape: Shape, depth: int) -> str:
        mask = self.loose("b", shape, depth)
        b = self.loose(kind, shape, depth)
        if not shape and self.chance(0.5):
            dtype = self.dtype(kind)
            a, b = (f"{self.expr(kind, (), depth)}.to(tl.{dtype})", f"{b}.to(tl.{dtype})")
            return f"({a} if {mask} else {b})"
        return f"tl.where({mask}, {self.expr(kind, shape, depth)}, {b})"

    def convert(self, kind: str, shape: Shape, depth: int) -> str:
        other = self.rng.choice("if")
        return f"{self.expr(other, shape, depth)}.to(tl.{self.dtype(kind)})"

    def helper(self, kind: str, shape: Shape, depth: int) -> str:
        name = self.rng.choice(self.helpers)
        a, b = self.expr("f", shape, depth), self.expr("f", shape, depth)
        text = f"{name}({self.plain(a)}, {self.plain(b)}, {self.rng.randrange(3)})"
        return text if kind == "f" else f"{text}.to(tl.int32)"

    def truth(self, shape: Shape, depth: int) -> str:
        self.nodes -= 1
        form = self.rng.randrange(10) if depth > 0 and self.nodes > 0 else 0
        if form == 1:
            return f"(~{self.truth(shape, depth - 1)})"
        if form in (2, 3):
            symbol = self.one_of("&", "|", "^")
            return f"({self.truth(shape, depth - 1)} {symbol} {self.loose('b', shape, depth - 1)})"
        if form == 4 and not shape:
            return f"({self.truth((), depth - 1)} {self.one_of('and', 'or')} {self.truth((), depth - 1)})"
        kind = self.rng.choice("if")
        a, b = self.expr(kind, shape, depth - 1), self.loose(kind, shape, depth - 1)
        dtype = "int32" if kind == "i" else "float32"
        symbol = self.one_of("<", "<=", ">", ">=", "==", "!=")
        return f"({a}.to(tl.{dtype}) {symbol} {b}.to(tl.{dtype}))"

    def leaf(self, kind: str, shape: Shape) -> str:
        same = [v.name for v in self.vars if v.shape == shape and v.kind == kind]
        if same and self.chance(0.75):
            return self.rng.choice(same)
        if not shape:
            if kind == "i":
                return self.rng.choice(
                    ["n", "m", "pid", f"tl.full((), {self.rng.randrange(-9, 9)}, tl.int32)"]
                )
            return self.one_of("scale", f"(n * {self.rng.choice([0.5, 0.25, 2.0])})")
        sizes = "".join(f"{n}, " for n in shape)
        form = self.rng.randrange(4)
        if form == 0 and len(shape) == 1:
            offset = self.rng.randrange(-3, 4)
            return f"(tl.arange({offset}, {shape[0] + offset})" + (
                ")" if kind == "i" else " * 0.5)"
            )
        if form == 1:
            return f"tl.full(({sizes}), {self.leaf(kind, ())}, tl.{self.dtype(kind)})"
        return self.loaded(kind, shape, 0)
