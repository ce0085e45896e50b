"""What people write in Triton beside plain arithmetic: compiled and interpreted, against Python."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl
from dsalang._jit.reinterpret import TensorWrapper, reinterpret
from dsalang.runtime import TensorDescriptor

NAN = float("nan")


class View(NamedTuple):
    data: Any
    size: Any


class Step(NamedTuple):
    action: Any
    captured: tuple[Any, ...]


@pytest.fixture(params=[False, True], ids=["compiled", "interpreted"])
def _both(request, monkeypatch):
    monkeypatch.setenv("DSA_INTERPRET", str(int(request.param)))


pytestmark = pytest.mark.usefixtures("_both")


@pytest.mark.parametrize(
    ("values", "largest", "smallest"),
    [
        ([NAN, 6.0, 8.0], 2, 1),
        ([3.0, NAN, 1.0], 0, 2),
        ([-math.inf, NAN, -math.inf], 0, 0),
        ([NAN, NAN], 0, 0),
    ],
)
def test_positions_of_extremes_ignore_nan(values, largest, smallest):
    @dsa.jit
    def kernel(x, out, N: tl.constexpr):
        v = tl.load(x + tl.arange(0, N))
        tl.store(out, tl.argmax(v, 0))
        tl.store(out + 1, tl.argmin(v, 0, tie_break_left=False))
        tl.store(out + 2, tl.max(v, 0, return_indices=True)[1])

    out = np.zeros(3, np.int32)
    kernel[1](np.array(values, np.float32), out, len(values))
    assert out.tolist() == [largest, smallest, largest]


def test_a_kernel_made_by_exec_has_the_source_that_exec_got():
    space: dict[str, Any] = {"dsa": dsa, "tl": tl}
    text = "# a remark\n@dsa.jit\ndef kernel(out):\n    tl.store(out, FACTOR * 7)\nFACTOR = 6\n"
    exec(text, space)
    out = np.zeros(1, np.int32)
    space["kernel"][1](out)
    assert out[0] == 42
    wrong = text.replace("FACTOR * 7", "missing")
    exec(wrong, space)
    with pytest.raises((dsa.CompileError, NameError)) as caught:
        space["kernel"][1](out)
    if isinstance(caught.value, dsa.CompileError):
        assert "tl.store(out, missing)" in str(caught.value)
        assert caught.value.loc.line == 4


def test_named_tuples_are_arguments_variables_and_results():
    @dsa.jit
    def scaled(x, factor):
        return x * tl.load(factor)

    @dsa.jit
    def widened(view, by):
        return View(size=view.size + by, data=view.data)

    @dsa.jit
    def kernel(source, target, step):
        view = widened(source, 1)
        for _ in range(2):
            view = View(view.data, view.size + 1)
        at = tl.arange(0, 8)
        x = tl.load(view.data + at, mask=at < view.size, other=0.0)
        tl.store(target.data + at, step.action(x, *step.captured))

    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    kernel[1](View(x, 2), View(y, 8), Step(scaled, (np.array([3.0], np.float32),)))
    assert y.tolist() == [0, 3, 6, 9, 12, 0, 0, 0]


def test_constants_inside_tuples():
    @dsa.jit
    def kernel(out, pair):
        tl.static_assert(pair[1][0] == 4)
        tl.store(out + tl.arange(0, pair[1][0]), tl.full((pair[1][0],), pair[0], tl.int32))

    out = np.zeros(4, np.int32)
    kernel[1](out, (9, (dsa.constexpr(4),)))
    assert out.tolist() == [9] * 4


def test_attributes_by_name():
    @dsa.jit
    def kernel(x, out, what: tl.constexpr):
        if x is not None and hasattr(x, "dtype") and isinstance(x.dtype, tl.pointer_type):
            tl.store(out, getattr(tl, what)(tl.load(x), tl.load(x + 1)))
        else:
            tl.store(out, getattr(x, "missing", -1.0))

    x, out = np.array([3.0, 5.0], np.float32), np.zeros(1, np.float32)
    for name, expected in (("maximum", 5), ("minimum", 3)):
        kernel[1](x, out, name)
        assert out[0] == expected
    for plain in (None, 1, 2):
        kernel[1](plain, out, "maximum")
        assert out[0] == -1


def test_a_tile_of_one_element_is_a_condition():
    @dsa.jit
    def kernel(x):
        if tl.load(x + tl.arange(0, 1)) > 42:
            tl.store(x, 0)

    for before, after in ((42, 42), (43, 0)):
        x = np.array([before], np.int32)
        kernel[1](x)
        assert x[0] == after


def test_descriptors_padded_with_nan():
    @dsa.jit
    def kernel(desc, x, out, n, PADDING: tl.constexpr):
        own = tl.make_tensor_descriptor(x, [n, n], [n, 1], [2, 4], padding_option=PADDING)
        at = tl.arange(0, 2)[:, None] * 4 + tl.arange(0, 4)
        tl.store(out + at, desc.load([2, 1]))
        tl.store(out + 8 + at, own.load([2, 1]))

    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    for padding, edge in (("nan", NAN), ("zero", 0.0)):
        out = np.ones((2, 2, 4), np.float32)
        desc = TensorDescriptor(x, [3, 3], [3, 1], [2, 4], padding=padding)
        kernel[1](desc, x, out, 3, padding)
        expected = [[7, 8, edge, edge], [edge] * 4]
        np.testing.assert_array_equal(out, [expected, expected])


def test_a_descriptor_is_known_as_one():
    @dsa.jit
    def kernel(desc, out):
        tl.store(out, isinstance(desc, tl.tensor_descriptor))
        tl.store(out + 1, isinstance(out, tl.tensor_descriptor))

    out = np.zeros(2, np.int32)
    kernel[1](TensorDescriptor(np.zeros((2, 2), np.float32), [2, 2], [2, 1], [2, 2]), out)
    assert out.tolist() == [1, 0]


def test_bytes_under_another_type():
    @dsa.jit
    def kernel(x, out):
        tl.store(out, tl.load(x) // 2)

    x, out = np.array([-2], np.int32), np.zeros(1, np.uint32)
    kernel[1](reinterpret(x, tl.uint32), out)
    assert out[0] == (2**32 - 2) // 2
    kernel[1](TensorWrapper(x, tl.int32), reinterpret(out, tl.int32))
    assert out.view(np.int32)[0] == -1
    with pytest.raises(dsa.LaunchError, match="4 bytes"):
        kernel[1](reinterpret(x, tl.int8), out)


def test_the_smallest_of_a_tile():
    @dsa.jit
    def kernel(x, out):
        tl.store(out + tl.arange(0, 2), tl.topk(tl.load(x + tl.arange(0, 8)), 2, descending=False))

    x, out = np.array([5, 3, 8, 1, 9, 2, 7, 4], np.int32), np.zeros(2, np.int32)
    kernel[1](x, out)
    assert out.tolist() == [1, 2]


def test_polling_a_value():
    @dsa.jit
    def kernel(flag, out, wanted):
        tl.store(out, tl.atomic_poll(flag, wanted, timeout_ns=0))

    @dsa.jit
    def waiting(flag, wanted):
        tl.atomic_poll(flag, wanted)

    flag, out = np.array([1], np.int16), np.zeros(1, np.int32)
    for wanted in (2, 1):
        kernel[1](flag, out, wanted)
        assert out[0] == (wanted == 1)
    waiting[1](flag, 1)
    with pytest.raises(dsa.DeviceError, match="not there"):
        waiting[1](flag, 2)


def test_products_of_bytes_are_int32():
    @dsa.jit
    def kernel(x, out):
        at = tl.arange(0, 16)
        a = tl.load(x + at[:, None] * 16 + at)
        tl.store(out + at[:, None] * 16 + at, tl.dot(a, a, out_dtype=tl.int8))

    x, out = np.full((16, 16), 100, np.int8), np.zeros((16, 16), np.int32)
    kernel[1](x, out)
    assert (out == 160_000).all()


def test_kernels_that_do_nothing():
    @dsa.jit
    def kernel(x, N: tl.constexpr):
        tl.static_assert(N == 4)
        tl.arange(0, N)[:, None]

    kernel[3](np.zeros(1, np.float32), 4)


def test_modules_of_the_language_are_imported_by_name():
    from dsalang.language import math
    from dsalang.language.core import load
    from dsalang.language.extra import libdevice
    from dsalang.language.extra.cuda import libdevice as of_cuda
    from dsalang.language.math import exp

    assert load is tl.load and exp is tl.math.exp and math is tl.math
    assert libdevice is of_cuda is tl.extra.cuda.libdevice


def test_bool_by_the_name_of_its_bits():
    from dsalang._jit.dtypes import from_name

    assert from_name("u1") is tl.int1 and from_name("*u1") == tl.pointer_type(tl.int1)
