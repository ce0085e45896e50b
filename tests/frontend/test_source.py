"""KernelSource: finding the text, the names and the places of a function."""

from __future__ import annotations

import inspect
import linecache
import random
import subprocess
import sys
import warnings

import pytest

import dsalang as dsa
import dsalang.language as tl
from dsalang._backend.dialects.locations import from_ir
from dsalang._backend.errors import CompileError
from dsalang._jit.depends import dependencies
from dsalang._jit.parse import parse
from dsalang._jit.source import KernelSource, is_constexpr

LIMIT = 3


def test_indented_functions_with_odd_lines():
    if LIMIT:

        @dsa.jit
        def kernel(x, text: tl.constexpr = "default"):
            # a comment further left
            message = """several
lines"""
            tl.static_assert(message == "several\nlines")
            tl.store(x, LIMIT)  # fmt: skip

    source = kernel.source
    assert source.indent == 8
    module = parse(source, {"x": "*i32"})
    store = next(op for op in module.walk() if op.name == "tile.store")
    loc = from_ir(store.location)
    assert loc is not None and linecache.getline(loc.file, loc.line)[loc.col - 1 :].startswith(
        "tl.store"
    )


def test_every_operation_has_a_place():
    @dsa.jit
    def kernel(x, n):
        total = 0.0
        for i in range(0, n, 4):
            if i > 8:
                total += tl.sum(tl.load(x + i + tl.arange(0, 4)))
        tl.store(x, total)

    module = parse(kernel.source, {"x": "*fp32", "n": "i32"})
    (function,) = module.ops
    for op in function.body.walk():
        loc = from_ir(op.location)
        assert loc is not None and loc.file == __file__, op
        assert kernel.source.first_line <= loc.line < kernel.source.first_line + 8


def test_parameters():
    def kernel(x, n: "tl.constexpr" = 4, m: int = 5):  # noqa: UP037
        pass

    params = KernelSource.of(kernel).params
    assert [(p.name, p.constexpr) for p in params] == [("x", False), ("n", True), ("m", False)]
    assert params[1].default == 4
    assert is_constexpr("constexpr") and not is_constexpr("tl.int32")


def test_dependencies_follow_calls():
    factor = 7

    @dsa.jit
    def inner(v):
        return v * factor + LIMIT

    @dsa.jit
    def kernel(x):
        tl.store(x, inner(tl.load(x)))

    found = {key.rsplit(":", 1)[1]: value for key, value in dependencies(kernel.source).items()}
    assert (
        found["factor"] == 7 and found["LIMIT"] == 3 and "return v * factor" in str(found["inner"])
    )


def test_facts_become_attributes():
    from dsalang._jit.source import Facts

    @dsa.jit
    def kernel(x, y, n, B: tl.constexpr):
        tl.store(x, tl.load(y) + n)

    facts = Facts(divisible={"x": 64, "n": 16}, alias={"x": 0, "y": 1})
    module = parse(kernel.source, {"x": "*fp16", "y": "*u8", "n": "i64"}, {"B": 1}, facts)
    text = str(module)
    assert 'dsa.args = ["x", "y", "n"]' in text
    assert 'dsa.formats = ["*fp16", "*uint8", "int64"]' in text
    assert "dsa.divisible = array<i64: 64, 1, 16>" in text
    assert "dsa.alias = array<i64: 0, 1, -1>" in text


@dsa.jit
def helper(a, b, K: tl.constexpr = 2):
    if a is None:
        return b
    return a + b * K


class Nonsense:
    """Writes functions that are Python, and mostly no kernels."""

    NAMES = ("a", "b", "c", "x", "p", "n", "f", "u", "i")
    LEAVES = (
        "0", "1", "-1", "2.5", "True", "None", "'s'", "4", "8", "float('inf')", "tl.float32", "tl.int8",
        "C", "()", "tl", "helper", "tl.arange(0, 4)", "tl.zeros((4, 8), tl.float32)", "10 ** 30",
        "x + tl.arange(0, 4)", "tl.constexpr(3)",
    )  # fmt: skip
    BINARY = ("+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^", "@")
    COMPARE = ("<", "<=", "==", "!=", ">", ">=", "is", "is not", "in", "not in", "and", "or")
    BUILTINS = ("min", "max", "abs", "len", "int", "float", "bool", "range", "print", "isinstance",
                "tuple", "str", "sum", "round", "getattr", "type", "sorted", "hasattr")  # fmt: skip
    LANGUAGE = tuple(name for name in dir(tl) if not name.startswith("_"))
    INDICES = (":, None", "None, :", "0", "-1", ":", "...", "1:2", "n", "..., None", "::-1")
    ATTRIBUTES = ("dtype", "shape", "T", "to", "sum", "type", "element_ty", "value", "numel", "foo",
                  "is_int", "reshape", "__class__")  # fmt: skip

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, *options):
        return self.random.choice(options)

    def expression(self, depth: int) -> str:
        if depth <= 0 or self.random.random() < 0.15:
            return self.pick(*self.NAMES, *self.LEAVES)
        one, other = self.expression(depth - 1), self.expression(depth - 1)
        args = [self.expression(depth - 1) for _ in range(self.random.randrange(4))]
        if self.random.random() < 0.3:
            args.append(f"{self.pick('axis', 'mask', 'other', 'dtype', 'keep_dims', 'acc')}={one}")
        return self.pick(
            f"({one} {self.pick(*self.BINARY)} {other})",
            f"({one} {self.pick(*self.BINARY[:5])} {other})",
            f"({one} {self.pick(*self.COMPARE)} {other})",
            f"({self.pick('-', 'not ', '~', '+')}{one})",
            f"({one} if {other} else {self.expression(depth - 1)})",
            f"tl.{self.pick(*self.LANGUAGE)}({', '.join(args)})",
            f"{self.pick(*self.BUILTINS)}({', '.join(args[:2])})",
            f"({one}, {other})",
            f"({one})[{self.pick(*self.INDICES)}]",
            f"({one}).{self.pick(*self.ATTRIBUTES)}{self.pick('', '()', f'({other})')}",
            f"f'{{{self.pick(*self.NAMES)}}} t'",
            f"helper({one}, {other})",
        )

    def block(self, depth: int, indent: str) -> list[str]:
        lines = []
        for _ in range(self.random.randrange(1, 4)):
            name = self.pick(*self.NAMES)
            bounds = ", ".join(self.pick("n", "3", "1", "0", "-1", "f", self.expression(1))
                               for _ in range(self.random.randrange(1, 4)))  # fmt: skip
            function = self.pick("range", "tl.range", "tl.static_range")
            head = self.pick(
                f"if {self.expression(2)}:", f"while {self.expression(2)}:",
                f"for {name} in {function}({bounds}):", f"for {name} in {self.expression(1)}:",
            )  # fmt: skip
            if depth and self.random.random() < 0.4:
                lines += [indent + head, *self.block(depth - 1, indent + "    ")]
                continue
            lines.append(indent + self.pick(
                f"{name} = {self.expression(3)}", f"{name} = {self.expression(2)}",
                f"{name} {self.pick(*self.BINARY)}= {self.expression(2)}",
                f"a, {name} = {self.expression(2)}, {self.expression(2)}",
                f"tl.store({self.expression(2)}, {self.expression(2)})", self.expression(3),
                "return", "return a", "continue", "break", "pass", "del a", "assert n",
            ))  # fmt: skip
        return lines

    def function(self) -> str:
        head = ["def k(x, p, n, f, u, C: tl.constexpr):", "    a, b, c = 1, n, tl.arange(0, 8)"]
        return "\n".join([*head, *self.block(3, "    ")]) + "\n"


@pytest.mark.parametrize("first", range(0, 800, 200))
def test_odd_functions_never_break_the_parser(first, capsys):
    signature = {"x": "*fp32", "p": "*i32", "n": "i32", "f": "fp32", "u": "u32"}
    for seed in range(first, first + 200):
        text, name = Nonsense(seed).function(), f"<nonsense {seed}>"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        space = {"tl": tl, "helper": helper}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd code
            try:
                exec(compile(text, name, "exec"), space)
            except SyntaxError:
                continue
        try:
            parse(dsa.jit(space["k"]).source, signature, {"C": 4}).verify()
        except CompileError as error:
            assert error.loc is not None and str(error)
        except Exception as error:
            raise AssertionError(f"seed {seed}\n{text}") from error


def test_text_of_python_c_is_not_taken_for_that_of_exec():
    """Both are called <string>, and both functions stand in the same line."""
    code = "\n".join(
        (
            "def k(x): return 1",
            "import dsalang as dsa",
            "space = {}",
            "exec('def k(x): return 2', space)",
            "try:",
            "    print(dsa.jit(space['k']).source.text)",
            "except dsa.CompileError:",
            "    print('refused')",
        )
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "refused"


@pytest.mark.skipif(sys.version_info < (3, 13), reason="Python forgets the text")
def test_errors_show_lines_of_python_c():
    code = "\n".join(
        (
            "import numpy as np, dsalang as dsa",
            "@dsa.jit",
            "def k(x):",
            "    dsa.store(x, nothing)",
            "k[(1,)](np.zeros(1))",
        )
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ":4:18: 'nothing' is not defined" in done.stderr
    assert "dsa.store(x, nothing)\n                     ^" in done.stderr


@pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are evaluated at once")
def test_annotations_with_names_that_do_not_exist_yet():
    text = "def k(x: nowhere, n: tl.constexpr, m: later.constexpr):\n    pass\n"
    name = "<annotations>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = {"tl": tl}
    exec(compile(text, name, "exec", dont_inherit=True), space)
    params = dsa.jit(space["k"]).source.params
    assert [(p.name, p.constexpr) for p in params] == [("x", False), ("n", True), ("m", True)]


class Holder:
    """Kernels of classes stand further right than their empty lines."""

    @staticmethod
    @dsa.jit
    def mistaken(x):
        first = 1

        second = 2

        dsa.store(x, first + second)
        # the next line is wrong
        dsa.nope(x)


def test_places_in_functions_that_are_indented():
    with pytest.raises(dsa.CompileError, match="nope") as error:
        Holder.mistaken.compile("*fp32")
    lines, first = inspect.getsourcelines(Holder.mistaken.fn)
    at = next(k for k, line in enumerate(lines) if "dsa.nope" in line)
    assert error.value.loc.line == first + at
    assert "dsa.nope(x)" in str(error.value)
