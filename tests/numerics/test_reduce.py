import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dsalang._backend import formats
from dsalang._backend.formats import Format
from dsalang._backend.isa.table import ReduceKind as K
from dsalang._backend.numerics import convert, elementwise
from dsalang._backend.numerics.reduce import arg_reduce, reduce, scan

from .oracle import FLOATS, INTS

FORMAT = formats.by_name
FP32, FP16 = FORMAT("fp32"), FORMAT("fp16")

# the elementwise operation that a kind folds with
FOLDS = {
    K.FMAX: "fmax",
    K.FMIN: "fmin",
    K.FMAXNUM: "fmaxnum",
    K.FMINNUM: "fminnum",
    K.ISUM: "iadd",
    K.IPROD: "imul",
    K.SMAX: "smax",
    K.SMIN: "smin",
    K.UMAX: "umax",
    K.UMIN: "umin",
    K.AND: "iand",
    K.OR: "ior",
    K.XOR: "ixor",
}
FLOAT_FOLDS = (K.FMAX, K.FMIN, K.FMAXNUM, K.FMINNUM)


def cases() -> list[tuple[K, Format]]:
    return [(kind, f) for kind in FOLDS for f in (FLOATS if kind in FLOAT_FOLDS else INTS)]


def sample(fmt: Format, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Random bits, with zeros of both signs and (for floats) few enough NaNs to see everything."""
    rng = np.random.default_rng(seed)
    if not fmt.is_float:
        data = rng.integers(0, 256, (*shape, fmt.bytes)).astype(np.uint8)
        data = data & 1 if fmt.kind == "bool" else data
        return data.view(fmt.storage)[..., 0]
    values = rng.standard_normal(shape).astype(np.float32)
    values[rng.random(shape) < 0.3] = -0.0
    values[rng.random(shape) < 0.1] = 0.0
    values[rng.random(shape) < 0.05] = np.nan
    return convert.narrow(values, fmt)


def fold(kind: K, fmt: Format, values: np.ndarray) -> np.ndarray:
    """All prefixes along axis 0 by the elementwise operation."""
    result = [values[0]]
    for row in values[1:]:
        result.append(elementwise.apply(FOLDS[kind], fmt, fmt, result[-1], row))
    if fmt.is_float:
        result[0] = convert.canonical_nan(result[0], fmt)
    return np.stack(result)


@pytest.mark.parametrize(("kind", "fmt"), cases(), ids=str)
def test_order_free_kinds_are_folds(kind: K, fmt: Format) -> None:
    values = sample(fmt, (19, 4, 3))
    want = fold(kind, fmt, values)
    assert reduce(kind, values, 0, fmt).tobytes() == want[-1].tobytes()
    moved = np.moveaxis(values, 0, 1)
    assert reduce(kind, moved, 1, fmt).tobytes() == want[-1].tobytes()
    assert scan(kind, values, 0, False, fmt).tobytes() == want.tobytes()
    back = scan(kind, values[::-1], 0, True, fmt)
    assert back.tobytes() == np.ascontiguousarray(want[::-1]).tobytes()


def chained(values: list[np.float32], operation: Callable[..., Any], identity: float) -> np.float32:
    """The definition of docs/numerics.md, element by element."""
    partials = [np.float32(identity)] * 16
    for i, value in enumerate(values):
        partials[i % 16] = operation(partials[i % 16], value)
    for half in (8, 4, 2, 1):
        partials = [operation(partials[j], partials[j + half]) for j in range(half)]
    return partials[0]


@pytest.mark.parametrize("fmt", FLOATS, ids=str)
@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 100, 515])
def test_float_sum_and_product_order(fmt: Format, length: int) -> None:
    values = sample(fmt, (length, 3), length)
    wide = convert.widen(values)
    for kind, operation, identity in (
        (K.FSUM, np.add, -0.0),
        (K.FPROD, np.multiply, 1.0),
    ):
        got = reduce(kind, values, 0, fmt)
        want = np.array([chained(list(wide[:, j]), operation, identity) for j in range(3)])
        assert got.tobytes() == convert.narrow(want, fmt).tobytes()


def test_sum_of_negative_zeros_is_negative_zero() -> None:
    assert str(reduce(K.FSUM, np.full(5, -0.0, np.float32), 0, FP32)) == "-0.0"


def test_half_sum_is_kept_in_fp32() -> None:
    values = np.full(4096, 1, np.float16)
    values[0] = 2048
    assert float(reduce(K.FSUM, values, 0, FP16)) == 6144  # 6143 to a multiple of 4


@pytest.mark.parametrize("reverse", [False, True])
def test_float_scan_is_sequential_in_fp32(reverse: bool) -> None:
    values = sample(FP16, (40, 2), 3)
    values[np.isnan(values)] = 1
    for kind, operation in ((K.FSUM, np.add), (K.FPROD, np.multiply)):
        state, want = None, np.empty_like(values)
        for i in range(40)[:: -1 if reverse else 1]:
            row = values[i].astype(np.float32)
            state = row if state is None else operation(state, row)
            want[i] = state.astype(np.float16)
        assert scan(kind, values, 0, reverse, FP16).tobytes() == want.tobytes()
        across = scan(kind, values.T, 1, reverse, FP16)
        assert np.ascontiguousarray(across.T).tobytes() == want.tobytes()


def test_arg_first_tie_and_nan() -> None:
    nan = math.nan
    rows = np.array([[1, 3, 3, 2], [0, -0.0, 0, -1], [1, nan, nan, 5], [nan, 2, 7, 7]], np.float32)
    value, position = arg_reduce(K.FMAX, rows, 1, FP32)
    assert position.tolist() == [1, 0, 1, 0] and position.dtype == np.int32
    assert [str(v) for v in value] == ["3.0", "0.0", "nan", "nan"]
    assert arg_reduce(K.FMIN, rows, 1, FP32)[1].tolist() == [0, 3, 1, 0]
    assert arg_reduce(K.FMAXNUM, rows, 1, FP32)[1].tolist() == [1, 0, 3, 2]
    assert arg_reduce(K.FMINNUM, rows, 1, FP32)[1].tolist() == [0, 3, 0, 1]


def test_arg_orders_zeros() -> None:
    zeros = np.array([-0.0, 0.0, -0.0], np.float32)
    assert int(arg_reduce(K.FMAX, zeros, 0, FP32)[1]) == 1
    assert int(arg_reduce(K.FMIN, zeros[1:], 0, FP32)[1]) == 1


def test_arg_of_nothing_but_nan() -> None:
    nans = np.full((3, 2), np.nan, np.float16)
    value, position = arg_reduce(K.FMAXNUM, nans, 0, FP16)
    assert position.tolist() == [0, 0]
    assert value.view(np.uint16).tolist() == [0x7E00, 0x7E00]


def test_arg_signedness() -> None:
    values = np.array([1, -1, -1, 0], np.int8)
    int8 = FORMAT("int8")
    got = {
        kind: int(arg_reduce(kind, values, 0, int8)[1]) for kind in (K.SMAX, K.UMAX, K.SMIN, K.UMIN)
    }
    assert got == {K.SMAX: 0, K.UMAX: 1, K.SMIN: 1, K.UMIN: 3}


def test_arg_refuses_sums() -> None:
    with pytest.raises(ValueError, match="ISUM"):
        arg_reduce(K.ISUM, np.ones(2, np.int32), 0, FORMAT("int32"))
