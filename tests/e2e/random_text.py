"""Writes the text of random kernels: well-typed, in bounds, and the same under any order of rounding.

Sums and products over many elements get small whole numbers only, so that the order in which a machine adds
cannot be seen; functions that two implementations round differently go to an array of their own (`apx`).
Arrays that a kernel writes have a region of PER elements for each program, for nothing orders programs.

The families are apart: `random_values` (elementwise), `random_tiles` (shapes, reductions, products), `random_memory`,
`random_statements`; `random_model` has what they share.
"""

from __future__ import annotations

from random import Random

from e2e.random_model import FLOATS, INTS, PER, SPAN, Array, RandomKernel
from e2e.random_statements import StatementWriter


class Writer(StatementWriter):
    """Makes one kernel out of the choices of `rng`."""

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
