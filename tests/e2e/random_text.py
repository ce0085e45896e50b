"""Writes the text of random kernels: well-typed, in bounds, and the same under any order of rounding.

Sums and products over many elements get small whole numbers only, so that the order in which a machine adds
cannot be seen; functions that two implementations round differently go to an array of their own (`apx`).
Arrays that a kernel writes have a region of PER elements for each program, for nothing orders programs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

Shape = tuple[int, ...]

SPAN = 1024
"""Elements of an array that one program touches."""
PER = SPAN + 64
LIMIT = 800
"""Elements of the largest tile."""

INTS = ("int32", "int8", "int16", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float16", "bfloat16", "float8e4nv", "float8e5")
EXACT_FUNCTIONS = ("floor", "ceil")
NEAR_FUNCTIONS = ("exp", "exp2", "sin", "cos", "tanh", "erf", "sigmoid")


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


class Writer:
    """Makes one kernel out of the choices of `rng`."""

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

    # ---- choices

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

    # ---- expressions

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
        return f"{text}.to(tl.float32)"

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

    def dtype(self, kind: str) -> str:
        if self.chance(0.5):
            return "int32" if kind == "i" else "float32"
        return self.rng.choice(INTS if kind == "i" else FLOATS)

    def helper(self, kind: str, shape: Shape, depth: int) -> str:
        name = self.rng.choice(self.helpers)
        a, b = self.expr("f", shape, depth), self.expr("f", shape, depth)
        text = f"{name}({self.plain(a)}, {self.plain(b)}, {self.rng.randrange(3)})"
        return text if kind == "f" else f"{text}.to(tl.int32)"

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
        out = ", out_dtype=tl.int32" if kind == "i" else ""
        return f"tl.dot({sides[0]}, {sides[1]}{acc}{out})"

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

    # ---- memory

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

    # ---- statements

    def block(self, depth: int, indent: str, in_loop: bool) -> list[str]:
        outer = list(self.vars)
        lines: list[str] = []
        for _ in range(self.rng.randrange(1, 5)):
            if self.budget <= 0:
                break
            self.budget -= 1
            lines += self.statement(depth, indent, in_loop)
        self.vars = outer
        return lines or [f"{indent}pass"]

    def statement(self, depth: int, indent: str, in_loop: bool) -> list[str]:
        form = self.rng.randrange(16)
        self.nodes = self.rng.choice([2, 6, 14])
        if form < 4:
            return [indent + self.assign()]
        if form < 6:
            return [indent + self.store()]
        if form == 6:
            return [indent + self.atomic()]
        if form == 7:
            return [indent + self.swap()]
        if form == 8:
            return [indent + self.new_var()]
        if depth == 0:
            return [indent + self.assign()]
        if form < 12:
            return self.loop(depth, indent)
        if form == 12 and not in_loop and indent == "    " and self.chance(0.3):
            return [
                f"{indent}if {self.expr('b', (), 2)}:",
                f"{indent}    {self.store()}",
                f"{indent}    return",
            ]
        lines = [
            f"{indent}if {self.expr('b', (), 2)}:",
            *self.block(depth - 1, indent + "    ", in_loop),
        ]
        if in_loop and self.chance(0.15):
            lines.append(f"{indent}    continue")
        if self.chance(0.5):
            lines += [f"{indent}else:", *self.block(depth - 1, indent + "    ", in_loop)]
        return lines

    def new_var(self) -> str:
        kind, shape = self.rng.choice("if"), self.shape()
        dtype = self.dtype(kind)
        text = self.expr(kind, shape, 3)
        name = self.fresh("v")
        self.vars.append(Var(name, dtype, shape))
        return f"{name} = ({text}).to(tl.{dtype})"

    def assign(self) -> str:
        free = [v for v in self.vars if not v.fixed]
        if not free or self.chance(0.15):
            return self.new_var()
        var = self.rng.choice(free)
        text = self.expr(var.kind, var.shape, 3)
        if self.chance(0.3) and var.dtype in ("float32", "int32"):
            return f"{var.name} += ({text}).to(tl.{var.dtype})"
        return f"{var.name} = ({text}).to(tl.{var.dtype})"

    def swap(self) -> str:
        free = [v for v in self.vars if not v.fixed]
        pairs = [
            (a, b)
            for a in free
            for b in free
            if a != b and (a.dtype, a.shape) == (b.dtype, b.shape)
        ]
        if not pairs:
            return self.new_var()
        a, b = self.rng.choice(pairs)
        if self.chance(0.3):
            return f"{a.name}, {b.name} = {b.name}, ({a.name} + {b.name}).to(tl.{a.dtype})"
        return f"{a.name}, {b.name} = {b.name}, {a.name}"

    def store(self) -> str:
        if self.chance(0.15):
            return self.near_store()
        array = self.rng.choice([a for a in self.arrays if a.private])
        shape = self.shape()
        value = (
            self.expr(array.kind, shape, 3)
            if self.chance(0.8)
            else self.loose(array.kind, shape, 2)
        )
        if not shape:
            return f"tl.store({array.name} + {self.counter()}, {value})"
        offsets, mask = self.offsets(shape, 1, unique=True)
        return f"tl.store({array.name} + {offsets}, {value}{f', mask={mask}' if mask else ''})"

    def near_store(self) -> str:
        shape = self.shape(self.rng.choice([1, 2]))
        value = f"tl.clamp({self.plain(self.expr('f', shape, 2))}, -3, 3)"
        if self.chance(0.25):
            value = f"tl.softmax({value}, {self.rng.randrange(len(shape))})"
        else:
            value = f"tl.{self.rng.choice(NEAR_FUNCTIONS)}({value})"
            if self.chance(0.4):
                value = f"tl.sum({value}, 0, keep_dims=True)"
        return f"tl.store(apx + {self.linear(shape)}, {value})"

    def atomic(self) -> str:
        shape = self.shape(self.rng.choice([0, 1, 2]))
        value = self.expr("i", shape, 2) + ".to(tl.int32)"
        index = f"({self.expr('i', shape, 2)}.to(tl.int32) & 31)"
        name = self.one_of("add", "add", "max", "min", "xor", "or", "and")
        private = [a for a in self.arrays if a.private and a.dtype in ("int32", "int64", "uint32")]
        if private and shape and self.chance(0.4):
            array = self.rng.choice(private)
            offsets, mask = self.offsets(shape, 1, unique=True)
            offsets = self.linear(shape) if mask else offsets
            old = self.fresh("v")
            self.vars.append(Var(old, array.dtype, shape))
            return (
                f"{old} = tl.atomic_{name}({array.name} + {offsets}, {value}.to(tl.{array.dtype}))"
            )
        bins = {"add": "bins", "max": "bins + 32", "min": "bins + 64", "xor": "bins + 96", "or": "bins + 128", "and": "bins + 160"}  # fmt: skip
        mask = f", mask={self.expr('b', shape, 1)}" if self.chance(0.4) else ""
        return f"tl.atomic_{name}({bins[name]} + {index}, {value}{mask})"

    def loop(self, depth: int, indent: str) -> list[str]:
        inner = indent + "    "
        counter = self.fresh("k")
        form = self.rng.randrange(8)
        outer = list(self.vars)
        if form == 0:
            left = self.fresh("w")
            head = [f"{indent}{left} = ({self.expr('i', (), 2)}.to(tl.int32) & 3)"]
            more = f" and ({self.expr('b', (), 1)})" if self.chance(0.3) else ""
            head += [f"{indent}while {left} > 0{more}:", f"{inner}{left} -= 1"]
            self.vars.append(Var(left, "int32", (), True))
            lines = [*head, *self.block(depth - 1, inner, False)]
        elif form == 1:
            at = self.fresh("w")
            array = self.rng.choice([a for a in self.arrays if a.kind == "i"])
            test = f"(tl.load({array.name} + {at}).to(tl.int32) {self.one_of('>', '!=', '<')} 1)"
            head = [
                f"{indent}{at} = 0",
                f"{indent}while ({at} < {self.rng.randrange(1, 5)}) & {test}:",
            ]
            self.vars.append(Var(at, "int32", (), True))
            lines = [*head, *self.block(depth - 1, inner, False), f"{inner}{at} += 1"]
        else:
            start, stop = self.rng.randrange(3), self.rng.randrange(5)
            bound = f"({self.expr('i', (), 1)}.to(tl.int32) & 3)"
            bounds = self.one_of(
                f"{stop}", bound, f"{start}, {stop}", f"{start}, {bound}", f"{bound}, 5, 2", f"{stop}, -1, -2",
                f"{bound}, 0, -1", "0, n & 7, (m & 1) + 1", f"{start}, {start}",
            )  # fmt: skip
            function = self.one_of("range", "range", "tl.range")
            static = self.chance(0.15)
            if static:
                function, bounds = "tl.static_range", f"{min(stop, 3)}"
            self.vars.append(Var(counter, "int32", (), True))
            if static:  # the counter is a number of Python there
                self.vars.pop()
            lines = [f"{indent}for {counter} in {function}({bounds}):",
                     *self.block(depth - 1, inner, not static)]  # fmt: skip
        self.vars = outer
        return lines

    # ---- the whole

    def make_helper(self) -> None:
        name = self.fresh("helper")
        kept = self.arrays, self.vars, self.helpers
        self.arrays, self.helpers = [], []
        a, b = (
            self.one_of("x", "y", "(x + y)"),
            self.one_of("(x * y)", "tl.maximum(x, y)", "(x - y * 0.5)"),
        )
        self.arrays, self.vars, self.helpers = kept
        self.helpers.append(name)
        self.text_of_helpers.append(
            f"@dsa.jit\ndef {name}(x, y, mode: tl.constexpr = 0):\n"
            f"    if mode == 0:\n        return ({a}).to(tl.float32)\n"
            f"    z = {b}\n"
            f"    if mode == 1:\n        z = tl.where(x > y, z, {a})\n"
            f"    return z\n"
        )

    def kernel(self) -> RandomKernel:
        rng = self.rng
        self.text_of_helpers: list[str] = []
        ints = [rng.choice(INTS) for _ in range(2)]
        floats = [rng.choice(FLOATS) for _ in range(2)]
        self.arrays = [
            Array("p0", "int32" if self.chance(0.5) else ints[0], True),
            Array("p1", "float32" if self.chance(0.5) else floats[0], True),
            Array("p2", rng.choice(INTS + FLOATS), True),
            Array("s0", ints[1], False),
            Array("s1", floats[1], False),
        ]
        aliases: tuple[tuple[str, str, int], ...] = ()
        if self.chance(0.3):
            twin = rng.choice(self.arrays[:3])
            self.arrays.append(Array("p3", twin.dtype, True))
            aliases = ((twin.name, "p3", rng.choice([0, 1, 16, 40])),)
        for _ in range(rng.randrange(3)):
            self.make_helper()
        self.nodes = 6
        lines = [self.new_var() for _ in range(rng.randrange(1, 4))]
        body = ["    " + line for line in lines]
        while self.budget > 0:
            self.budget -= 1
            body += self.statement(3, "    ", False)
        for var in self.vars:
            array = rng.choice([a for a in self.arrays if a.private and a.kind == var.kind] or
                               [a for a in self.arrays if a.private])  # fmt: skip
            place = (
                f"{array.name} + {self.linear(var.shape)}"
                if var.shape
                else f"{array.name} + {SPAN - 1}"
            )
            body.append(f"    tl.store({place}, {var.name}.to(tl.{array.dtype}))")
        private = [a.name for a in self.arrays if a.private] + ["apx"]
        names = [a.name for a in self.arrays] + ["apx", "perm", "bins"]
        head = [
            f"def k({', '.join(names)}, n, m, scale):",
            "    pid = (tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(0)"
            " + tl.program_id(0)",
            *(f"    {name} += pid * {PER}" for name in private),
        ]
        text = "\n".join(
            ["import dsalang as dsa", "import dsalang.language as tl", "", *self.text_of_helpers,
             "@dsa.jit", *head, *body, ""]
        )  # fmt: skip
        grid = rng.choice([(1,), (1,), (2,), (5,), (2, 2), (1, 3), (2, 1, 2), (3, 2, 1)])
        scalars: dict[str, int | float] = {
            "n": rng.choice([0, 1, 3, 4, 7, 16, -2]),
            "m": rng.choice([0, 1, 5, 2**33 + 3, -(2**40), 12]),
            "scale": rng.choice([0.0, 1.5, -0.75, 3.0]),
        }
        return RandomKernel(text, tuple(self.arrays), aliases, grid, scalars, {})


def write_kernel(rng: Random) -> RandomKernel:
    """A random kernel."""
    return Writer(rng).kernel()
