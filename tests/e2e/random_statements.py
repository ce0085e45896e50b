"""Statements of random kernels: assignments, stores, atomics, branches and loops."""

from __future__ import annotations

from e2e.random_model import Var
from e2e.random_values import ValueWriter

NEAR_FUNCTIONS = ("exp", "exp2", "sin", "cos", "tanh", "erf", "sigmoid")


class StatementWriter(ValueWriter):
    """Writes blocks of statements."""

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
