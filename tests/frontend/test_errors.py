"""A user's mistakes: exact place and message, and no frames of the compiler.

In each case `¦` marks the place that the error must name.
"""

from __future__ import annotations

import linecache
import textwrap
import traceback

import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl
from dsalang._backend.errors import CompileError, InternalError
from dsalang._jit.parse import parse

SIGNATURE = {"x": "*fp32", "p": "*i32", "n": "i32", "f": "fp32", "u": "u32"}


@dsa.jit
def twice(value, scale: tl.constexpr = 2):
    return value * scale


@dsa.jit
def forever(value):
    return forever(value)


@dsa.jit
def either(value):
    if value > 0:
        return 1.0
    return value


def plain(value):
    return value


def define(text: str, name: str, **space: object):
    """The function that `text` defines, with its text where Python's tools look for it."""
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace = {
        "tl": tl, "dsa": dsa, "twice": twice, "forever": forever, "either": either, "plain": plain,
        "np": np, "table": [1, 2], "WIDTH": 4, **space,
    }  # fmt: skip
    exec(compile(text, name, "exec"), namespace)
    return namespace["k"]


CASES = [
    # names
    ("y = ¦offset + 1", "'offset' is not defined", ""),
    ("offsets = 1\ny = ¦offset + 1", "'offset' is not defined", "did you mean 'offsets'?"),
    ("y = ¦tl.arrange(0, 4)", "dsalang.language has no attribute 'arrange'", "did you mean 'arange'?"),
    ("y = ¦x.dtipe", "a value of type *fp32 has no attribute 'dtipe'", "did you mean 'dtype'?"),
    ("z = ¦y + 1\ny = 2", "'y' is used before it is assigned", ""),
    ("if n > 0:\n    y = 1\nz = ¦y", "'y' is assigned in only one branch of the if at line 2", ""),
    ("for i in range(n):\n    y = i\nz = ¦y", "'y' is assigned inside the loop at line 2", ""),
    ("for i in range(n):\n    pass\nz = ¦i", "'i' is the counter of the loop at line 2", ""),
    # shapes
    ("y = ¦tl.arange(0, 4) + tl.arange(0, 8)", "shapes [4] and [8] do not broadcast: 4 against 8",
     "insert dims of size 1"),
    ("y = ¦tl.arange(0, n)", "the end of arange must be known at compile time, but is int32", "constexpr"),
    ("y = ¦tl.arange(4, 4)", "arange(4, 4) is empty", ""),
    ("y = ¦tl.zeros((4, n), tl.float32)", "the shape of zeros must be known at compile time", ""),
    ("y = ¦tl.zeros((4, 0), tl.float32)", "the shape of zeros must have positive sizes, not (4, 0)", ""),
    ("y = ¦tl.reshape(tl.arange(0, 4), (3,))", "cannot reshape [4] to [3]: 4 elements against 3", ""),
    ("y = ¦tl.reshape(tl.arange(0, 4), (2, n))", "the shape of reshape must be known", ""),
    ("y = ¦tl.sum(tl.arange(0, 4), axis=1)", "the axis of sum 1 is out of range for a tile of rank 1", ""),
    ("y = ¦tl.sum(n, axis=0)", "the argument of sum must be a tile, not int32", ""),
    ("y = ¦tl.arange(0, 4)[:, :, None]", "too many indices for a tile of rank 1", ""),
    ("y = ¦tl.arange(0, 4)[4]", "index 4 is out of range for a dim of size 4", ""),
    ("y = ¦tl.arange(0, 4)[2:2]", "the slice 2:2 of a dim of size 4 is empty", ""),
    ("y = ¦tl.arange(0, 4)[f]", "a tile is indexed with integers, compile-time slices", "tl.gather"),
    ("y = ¦tl.reduce(tl.arange(0, 4), 0, lambda a, b: a * 0.5)", "the function of reduce gives fp32 for int32", ".to("),
    ("y = ¦tl.broadcast_to(tl.arange(0, 4), (8,))", "shapes [4] and [8] do not broadcast", ""),
    ("y = ¦tl.trans(tl.arange(0, 4))", "trans takes a tile of rank 2 or more", ""),
    ("a = tl.zeros((4, 8), tl.float16)\ny = ¦tl.dot(a, a)", "the inner sizes of dot differ: [4, 8] times [4, 8]",
     "tl.trans"),
    ("a = tl.zeros((4, 4), tl.float16)\nb = tl.zeros((4, 4), tl.float32)\ny = ¦tl.dot(a, b)",
     "the operands of dot have different types: fp16 and fp32", "convert one"),
    ("a = tl.zeros((4,), tl.float16)\ny = ¦tl.dot(a, a)", "dot takes two tiles of rank 2", "x[None, :]"),
    ("a = tl.zeros((4, 4), tl.int32)\ny = ¦tl.dot(a, a)", "dot takes int8, fp8, fp16, bf16, fp32 or fp64, not int32", ""),
    ("y = ¦tl.load(x, mask=tl.arange(0, 4) < n)", "the mask of load has shape [4], the pointer is a scalar", ""),
    ("¦tl.store(x + tl.arange(0, 4), tl.arange(0, 8))", "shapes [4] and [8] do not broadcast", ""),
    ("¦tl.store(x, tl.arange(0, 4))", "the value of store has shape [4], the pointer is a scalar", ""),
    # types
    ("y = ¦tl.load(n)", "load takes a pointer or a tile of pointers, not int32", ""),
    ("y = ¦f & 1", "invalid operands of type fp32: & takes integers", "tl.int32"),
    ("y = ¦n // u", "Cannot use / // or % of int32 and uint32 because", ".to("),
    ("y = ¦f // 2.0", "// takes integers, not fp32", "tl.floor"),
    ("y = ¦u + -1", "cannot combine uint32 with the negative number -1", ""),
    ("y = ¦n + 5000000000", "5000000000 is out of range of int32", "wider"),
    ("y = ¦x + f", "the offset of a pointer must be an integer, not fp32", ""),
    ("y = ¦x * 2", "cannot compute *fp32 * int 2", "offset"),
    ("y = ¦x + p", "cannot compute pointer + pointer", ""),
    ("y = ¦tl.exp(n)", "exp takes floats, not int32", ".to(tl.float32)"),
    ("y = ¦n.to(tl.float8e4b15)", "the machine has no fp8e4b15", "float32"),
    ("y = ¦n.to(f)", "the dtype of a cast must be known at compile time", ""),
    ("y = ¦n.to(3)", "the dtype of a cast must be a dtype, not int 3", ""),
    ("y = ¦f.to(tl.int16, bitcast=True)", "cannot bitcast fp32 to int16: their widths differ", ""),
    ("y = ¦n + 'a'", "the right side of + must be a number or a tile, not str 'a'", ""),
    ("y = ¦n + None", "the right side of + must be a number or a tile, not NoneType None", ""),
    ("y = ¦n @ n", "the operator @ is not supported", "tl.dot"),
    ("y = ¦n ** p", "cannot convert *int32 to fp32", ""),
    ("y = ¦tl.xor_sum(tl.zeros((4,), tl.float32), 0)", "xor_sum takes integers, not fp32[4]", ""),
    ("if ¦tl.arange(0, 4) < n:\n    pass", "the condition of if is a tile of type int1[4], not a scalar",
     "tl.where"),
    ("while ¦tl.arange(0, 4) < n:\n    pass", "the condition of while is a tile", ""),
    ("if n > 0:\n    y = 1.5\nelse:\n    y = tl.arange(0, 4)\nz = ¦y",
     "'y' has different types in the branches of the if at line 2: float 1.5 and int32[4]", ""),
    ("y = ¦f if n > 0 else tl.arange(0, 4)",
     "the conditional expression has different types in the branches", ""),
    ("y = ¦either(n)", "the result of either() has different types", "return one type"),
    ("y = tl.zeros((4,), tl.float32)\n¦for i in range(n):\n    y = y.to(tl.float16)",
     "the loop changes the type of 'y': fp32[4] before the loop, fp16[4] after an iteration", "'y'"),
    # habits from elsewhere
    ("y = ¦tl.to(n, tl.float32)", "dsalang.language has no attribute 'to'", "it is a method: write x.to(...)"),
    ("y = ¦f.float()", "a value of type fp32 has no attribute 'float'", "use .to(tl.float32)"),
    ("y = ¦f.astype(tl.int32)", "a value of type fp32 has no attribute 'astype'", "use .to(dtype)"),
    ("y = ¦x.size", "a value of type *fp32 has no attribute 'size'", "pass the size as an argument"),
    ("y = ¦x.shape[0]", "cannot index () with 0", "an array is a pointer in a kernel"),
    ("y = ¦np.exp(f)", "exp() is a plain Python function", "use tl.exp"),
    ("y = ¦np.concatenate((f, f))", "concatenate() is a plain Python function", "use tl.cat"),
    ("v = []\n¦v.append(n)", "() has no attribute 'append'", "a = a + (v,)"),
    ("a = None\ny = ¦a + n", "'a' is None, which + does not take", "if a is not None"),
    # calls
    ("y = ¦tl.load()", "load(): missing a required argument: 'pointer'", "load(pointer, mask=None"),
    ("y = ¦tl.load(x, masks=1)", "load(): got an unexpected keyword argument 'masks'", ""),
    ("y = ¦tl.program_id(3)", "the axis of program_id is 0, 1 or 2, not 3", ""),
    ("y = ¦plain(n)", "plain() is a plain Python function, which kernels cannot call", "@jit"),
    ("y = ¦twice()", "twice() misses the argument 'value'", "(value, scale)"),
    ("y = ¦twice(1, 2, 3)", "twice() takes 2 arguments, not 3", ""),
    ("y = ¦twice(n, scala=3)", "twice() has no parameter 'scala'", ""),
    ("y = ¦n(3)", "int32 cannot be called", ""),
    ("y = ¦WIDTH(4)", "int 4 cannot be called", ""),
    ("y = ¦open('file')", "open() is a plain Python function", ""),
    ("y = ¦range(3)", "range() can only be used in for", ""),
    ("y = ¦tl.load(x, other=1.0)", "other needs a mask", ""),
    ("¦tl.static_assert(n > 0)", "static_assert needs a compile-time condition, not int1", "device_assert"),
    ("¦tl.static_assert(WIDTH == 3, f'width {WIDTH}')", "static assertion failed: width 4", ""),
    ("¦assert WIDTH == 3", "static assertion failed", ""),
    # statements
    ("¦try:\n    pass\nexcept ValueError:\n    pass", "try is not supported in kernels", ""),
    ("¦with n:\n    pass", "with is not supported in kernels", ""),
    ("¦import os", "import is not supported in kernels", "top of the file"),
    ("¦global WIDTH\nWIDTH = 3", "global is not supported in kernels", "tl.store"),
    ("def inner(a): return a\ny = ¦inner(1, 2)", "inner() takes 1 arguments, not 2", "parameters"),
    ("for i in (1, 2):\n    if n > 1:\n        ¦break", "break in a loop that is unrolled depends on a run-time", "range"),
    ("for i in range(n):\n    if n > 3:\n        ¦return n", "a kernel returns nothing, but this returns int32", "tl.store"),
    ("¦return n", "a kernel returns nothing, but this returns int32", "tl.store"),
    ("y = ¦[a for a in (1, 2)]", "a list comprehension is not supported", "static_range"),
    ("g = lambda a: g(a)\ny = g(¦g(1))", "lambda() calls itself", "loop"),
    ("y = ¦{1: 2}", "a dict is not supported", ""),
    ("¦x[0] = 1", "a tile's elements cannot be assigned", "tl.store"),
    ("¦x.value = 1", "an attribute cannot be assigned", ""),
    ("¦a, b = (1, 2, 3)", "cannot unpack 3 values into 2 names", ""),
    ("¦a, b = n", "cannot unpack int32", ""),
    ("for i in ¦x:\n    pass", "cannot loop over *fp32", "range"),
    ("for i in ¦range(0, n, 0):\n    pass", "the step of range must not be zero", ""),
    ("for i in ¦range(f):\n    pass", "the stop of range must be an integer scalar, not fp32", ""),
    ("for i in ¦tl.static_range(n):\n    pass", "an argument of static_range must be known", ""),
    ("while ¦True:\n    pass", "the condition of this while is always true", ""),
    ("y = ¦1 // 0", "cannot compute 1 // 0 at compile time", ""),
    ("y = ¦10 ** 10 ** 10", "the compile-time result of ** is too large", ""),
    ("y = ¦table[7]", "cannot index list [1, 2] with 7", ""),
]  # fmt: skip


@pytest.mark.parametrize(("body", "message", "hint"), CASES, ids=[c[0][:40] for c in CASES])
def test_place_and_message(body, message, hint):
    marked = "def k(x, p, n, f, u):\n" + textwrap.indent(body, "    ") + "\n"
    before = marked[: marked.index("¦")]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    name = f"<case {abs(hash(body))}>"
    source = dsa.jit(define(marked.replace("¦", ""), name)).source
    with pytest.raises(CompileError) as caught:
        parse(source, SIGNATURE)
    error = caught.value
    assert error.message.startswith(message), error.message
    assert hint in error.hint
    at = error.loc
    while at.caller is not None:
        at = at.caller
    assert (at.file, at.line, at.col) == (name, line, column), str(error)
    lines = str(error).splitlines()
    assert lines[0] == f"{error.loc}: {error.message}"
    frames = traceback.extract_tb(error.__traceback__)
    assert all("/jit/" not in f.filename or f.name == "parse" for f in frames), frames


def test_call_chain_is_shown():
    @dsa.jit
    def inner(a):
        return a + tl.arange(0, 8)

    @dsa.jit
    def kernel(out):
        tl.store(out, inner(tl.arange(0, 4)))

    with pytest.raises(CompileError) as caught:
        parse(kernel.source, {"out": "*i32"})
    text = str(caught.value)
    assert "return a + tl.arange(0, 8)\n                   ^" in text
    assert "called from" in text and "inner(tl.arange(0, 4))" in text
    assert caught.value.loc.line == kernel.source.first_line - 2
    assert caught.value.loc.caller.line == kernel.source.first_line + 2


def test_recursion_is_refused():
    source = define("def k(n):\n    y = forever(n)\n", "<recursion>")
    with pytest.raises(CompileError, match="forever\\(\\) calls itself"):
        parse(dsa.jit(source).source, {"n": "i32"})


def test_parameters_without_a_value():
    source = define("def k(n, B: tl.constexpr):\n    pass\n", "<parameters>")
    with pytest.raises(CompileError, match="the constexpr parameter 'B' of k\\(\\) has no value"):
        parse(dsa.jit(source).source, {"n": "i32"})
    with pytest.raises(CompileError, match="unknown type 'i7' of the parameter 'n'"):
        parse(dsa.jit(source).source, {"n": "i7"}, {"B": 1})
    with pytest.raises(CompileError, match="unknown type '\\*fp128' of the parameter 'n'"):
        parse(dsa.jit(source).source, {"n": "*fp128"}, {"B": 1})


def test_source_that_is_not_at_hand():
    space: dict[str, object] = {}
    exec("def k(x): pass", space)
    with pytest.raises(CompileError, match="the source of k\\(\\) is not available"):
        dsa.jit(space["k"])
    with pytest.raises(CompileError, match="a kernel is a function made with def"):
        dsa.jit(lambda x: x)


def test_star_arguments_are_refused():
    with pytest.raises(CompileError, match="takes \\*rest"):
        dsa.jit(define("def k(x, *rest):\n    pass\n", "<star>"))


def test_columns_count_characters():
    text = "def k(n):\n    é = 'ü' ; y = z\n"
    with pytest.raises(CompileError) as caught:
        parse(dsa.jit(define(text, "<unicode>")).source, {"n": "i32"})
    assert (caught.value.loc.line, caught.value.loc.col) == (2, 19)


def test_a_bug_is_an_internal_error_with_the_place(monkeypatch):
    from dsalang._jit import lowering
    from dsalang._jit.lowering import creation

    monkeypatch.setitem(lowering.TABLE, "arange", lambda em, **kw: creation.arange(None, **kw))
    source = define("def k(n):\n    y = tl.arange(0, 4)\n", "<bug>")
    with pytest.raises(InternalError, match="while parsing k\\(\\) at <bug>:"):
        parse(dsa.jit(source).source, {"n": "i32"})
