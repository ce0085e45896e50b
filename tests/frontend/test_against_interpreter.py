"""Random kernels: the parsed kernel's result against the interpreter, which shares no code with the parser."""

from __future__ import annotations

import linecache
import random

import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl
from frontend.evaluate import run_kernel

N = 8
VARIABLES = {
    "int": ["i0", "i1"],
    "float": ["f0", "f1"],
    "ints": ["a0", "a1"],
    "floats": ["b0", "b1"],
}
NUMBERS = ("int", "float")


@dsa.jit
def pick(value, limit, step: tl.constexpr = 1):
    if limit > step:
        if limit > 5:
            return value
        return value + step
    return value - step


@dsa.jit
def seek(value, limit):
    for i in range(4):
        for j in range(i):
            if i * j > value:
                return j - i
            if j > limit:
                break
        if value > limit * 3:
            return value
    return limit


@dsa.jit
def both(a, b):
    return b, a + b


class Writer:
    """Writes the text of a well-typed kernel."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.counters = 0

    def choice(self, *options: str) -> str:
        return self.random.choice(options)

    def expression(self, kind: str, depth: int) -> str:
        if depth == 0 or self.random.random() < 0.2:
            return self.leaf(kind)
        is_tile, is_int = kind.endswith("s"), kind.startswith("int")
        scalar, names = kind.removesuffix("s"), VARIABLES[kind]
        one = self.expression(kind, depth - 1)
        other = self.expression(kind if self.random.random() < 0.7 else scalar, depth - 1)
        forms = [
            f"({one} {self.choice('+', '-', '*')} {other})",
            f"({other} {self.choice('+', '-', '*')} {one})",
            f"tl.{self.choice('maximum', 'minimum')}({one}, {other})",
            f"(-{one})",
            f"tl.abs({one})",
            f"tl.where({self.mask(kind, depth - 1)}, {one}, {other})",
            f"tl.clamp({one}, -9, 9)",
        ]
        if is_int:
            forms += [
                f"({one} {self.choice('//', '%')} {other})",
                f"({one} {self.choice('&', '|', '^')} {other})",
                f"({one} {self.choice('<<', '>>')} {self.random.randrange(6)})",
                f"(~{one})",
                f"tl.cdiv({one}, 3)",
                f"{self.expression('floats' if is_tile else 'float', depth - 1)}.to(tl.int32)",
            ]
        else:
            forms += [
                f"({self.expression('ints' if is_tile else 'int', depth - 1)} * 0.5 + {names[0]})",
                f"tl.floor({one})",
                f"({one} / 4)",
                f"({one}.to(tl.float16) + 1).to(tl.float32)",
            ]
        if is_tile:
            forms += [
                f"({one} + {one}[:, None].reshape({N}))",
                f"{one}.reshape(2, 4).T.reshape({N})",
            ]
            if is_int:
                forms.append(f"tl.cumsum({one}, 0)")
        else:
            tile = self.expression(kind + "s", depth - 1)
            forms += [
                f"({one} if {self.condition(depth - 1)} else {other})",
                f"tl.max({tile}, axis=0)",
                f"pick({one}, {self.expression('int', 0)}, {self.random.randrange(4)})",
            ]
            if is_int:
                forms.append(f"tl.sum({tile} {self.choice('>', '<=')} 1)" + ".to(tl.int32)")
                forms.append(f"tl.argmax({tile}, 0)")
                forms.append(f"seek({one}, {self.expression('int', 0)})")
        return self.random.choice(forms)

    def leaf(self, kind: str) -> str:
        numbers = [str(self.random.randrange(7)), f"{self.random.randrange(-8, 8)}"]
        names = VARIABLES[kind]
        if kind == "int":
            return self.choice(*names, *names, "n", "pid", numbers[1] if numbers[1] != "0" else "1") \
                if self.random.random() < 0.8 else "n"  # fmt: skip
        return self.choice(*names)

    def mask(self, kind: str, depth: int) -> str:
        one, other = self.expression(kind, depth), self.expression(kind, 0)
        return f"({one} {self.choice('<', '<=', '>', '>=', '==', '!=')} {other})"

    def condition(self, depth: int) -> str:
        simple = self.mask(self.choice("int", "float"), max(depth, 0))
        forms = [
            simple,
            f"(not {simple})",
            f"({simple} {self.choice('and', 'or')} {self.mask('int', 0)})",
            f"({self.expression('int', 0)} < {self.expression('int', 0)} <= n)",
            f"({self.expression('int', 0)} % 3)",
        ]
        return self.random.choice(forms)

    def block(self, depth: int, indent: str, in_loop: bool) -> list[str]:
        lines: list[str] = []
        for _ in range(self.random.randrange(1, 4)):
            kind = self.choice(*VARIABLES)
            name = self.choice(*VARIABLES[kind])
            form = self.random.randrange(12)
            if form < 4 or depth == 0:
                lines.append(f"{indent}{name} = {self.expression(kind, 2)}")
            elif form < 6:
                op = self.choice("+", "-", "*")
                lines.append(f"{indent}{name} {op}= {self.expression(kind, 1)}")
            elif form == 6:
                x, y = VARIABLES[kind]
                lines.append(f"{indent}{x}, {y} = both({x}, {y})")
            elif form < 9:
                lines.append(f"{indent}if {self.condition(1)}:")
                lines += self.block(depth - 1, indent + "    ", in_loop)
                if in_loop and self.random.random() < 0.2:
                    lines.append(f"{indent}    {self.choice('continue', 'break')}")
                if self.random.random() < 0.5:
                    lines.append(f"{indent}else:")
                    lines += self.block(depth - 1, indent + "    ", in_loop)
            elif form < 11:
                lines += self.loop(depth, indent)
            elif not in_loop or self.random.random() < 0.5:
                lines.append(f"{indent}if {self.condition(1)}:")
                lines.append(f"{indent}    tl.store(ints + {N * 3}, 7)")
                lines.append(f"{indent}    return")
        return lines or [f"{indent}pass"]

    def loop(self, depth: int, indent: str) -> list[str]:
        self.counters += 1
        counter = f"k{self.counters}"
        inner = indent + "    "
        if self.random.random() < 0.3:
            start = f"{indent}{counter} = {self.random.randrange(4)}"
            body = self.block(depth - 1, inner, True)
            return [start, f"{indent}while {counter} > 0:", f"{inner}{counter} -= 1", *body]
        bounds = self.choice("n", "0, 3", "1, n", "n, 0, -2", "0, n, step", "n, -1, 0 - step", "2")
        function = self.choice("range", "tl.range")
        if self.random.random() < 0.2:
            function, bounds = "tl.static_range", "2"
        body = self.block(depth - 1, inner, True)
        if function == "tl.static_range":
            body = [line for line in body if line.strip() not in ("continue", "break", "return")]
        return [
            f"{indent}for {counter} in {function}({bounds}):",
            *body,
            f"{inner}i0 += {counter}",
        ]

    def kernel(self) -> str:
        head = [
            "def k(ints, floats, n, step, scale):",
            "    pid = tl.program_id(0)",
            f"    offs = tl.arange(0, {N})",
            "    i0, i1 = n, 3",
            "    f0, f1 = scale, 0.5",
            "    a0 = tl.load(ints + offs)",
            f"    a1 = tl.load(ints + {N} + offs, mask=offs < n, other=-1)",
            "    b0 = tl.load(floats + offs)",
            f"    b1 = tl.zeros(({N},), tl.float32)",
            "    i1 += pid",
            "    f1 = f1 + scale",
        ]
        tail = [
            "    tl.store(ints + offs, a0)",
            f"    tl.store(ints + {N} + offs, a1, mask=a1 < 50)",
            "    tl.store(floats + offs, b0)",
            f"    tl.store(floats + {N} + offs, b1)",
            f"    tl.store(ints + {2 * N}, i0)",
            f"    tl.store(ints + {2 * N + 1}, i1)",
            f"    tl.store(floats + {2 * N}, f0)",
            f"    tl.store(floats + {2 * N + 1}, f1)",
        ]
        return "\n".join([*head, *self.block(3, "    ", False), *tail]) + "\n"


def define(text: str, name: str):
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = {"tl": tl, "pick": pick, "both": both, "seek": seek}
    exec(compile(text, name, "exec"), space)
    return space["k"]


def arguments(seed: int):
    rng = np.random.default_rng(seed)
    ints = rng.integers(-20, 20, 4 * N).astype(np.int32)
    floats = (rng.integers(-40, 40, 4 * N) / 4).astype(np.float32)
    return {"ints": ints, "floats": floats, "n": 4, "step": 2, "scale": 1.25}


@pytest.mark.parametrize("first", range(0, 120, 10))
def test_random_kernels(first):
    for seed in range(first, first + 10):
        text = Writer(seed).kernel()
        function = define(text, f"<random kernel {seed}>")
        parsed, interpreted = arguments(seed), arguments(seed)
        try:
            with np.errstate(all="ignore"):
                dsa.jit(function, interpret=True)[(2,)](**interpreted)
                run_kernel(dsa.jit(function), grid=(2,), **parsed)
            for name in ("ints", "floats"):
                np.testing.assert_array_equal(parsed[name], interpreted[name])
        except Exception as error:
            raise AssertionError(f"seed {seed}\n{text}") from error
