import numpy as np
import pytest

from dsalang._backend import formats
from dsalang._backend.numerics import convert, matmul
from dsalang._backend.numerics.fma import fma32
from dsalang._backend.numerics.matmul import mma

from .oracle import hidden_tie_breakers
from .test_fma import exact_fma

FORMAT = formats.by_name
FP32, BF16, FP16, INT8, UINT8, INT32 = map(
    FORMAT, ("fp32", "bf16", "fp16", "int8", "uint8", "int32")
)
FLOAT_NAMES = ("fp8e4m3", "fp8e5m2", "fp16", "bf16", "fp32")


def operands(seed: int, name_a: str, name_b: str, m: int, k: int, n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = ((m, k, name_a), (k, n, name_b))
    return [
        convert.narrow(rng.standard_normal((r, c), np.float32), FORMAT(name))
        for r, c, name in shapes
    ]


def chain(a: np.ndarray, b: np.ndarray, start: np.ndarray) -> np.ndarray:
    result = start
    for k in range(a.shape[1]):
        result = fma32(convert.widen(a[:, k, None]), convert.widen(b[k]), result)
    return result


@pytest.mark.parametrize("name_a", FLOAT_NAMES)
@pytest.mark.parametrize("name_b", FLOAT_NAMES)
def test_is_a_chain_of_fma_and_does_not_depend_on_splits(name_a: str, name_b: str) -> None:
    fa, fb = FORMAT(name_a), FORMAT(name_b)
    a, b = operands(1, name_a, name_b, 7, 50, 9)
    whole, overflow = mma(a, b, None, fa, fb, FP32, False)
    assert not overflow
    want = chain(a, b, np.zeros((7, 9), np.float32))
    assert whole.tobytes() == want.tobytes()
    part, _ = mma(a[:, :13], b[:13], None, fa, fb, FP32, False)
    part, _ = mma(a[:, 13:], b[13:], part, fa, fb, FP32, True)
    assert part.tobytes() == whole.tobytes()


def scaled(seed: int, power: int, fmt: formats.Format, shape: tuple[int, int]) -> np.ndarray:
    rng = np.random.default_rng(seed)
    exponents = power + rng.integers(-12, 12, shape)
    return convert.narrow(np.ldexp(rng.standard_normal(shape), exponents).astype(np.float32), fmt)


@pytest.mark.parametrize("fmt", [BF16, FP32], ids=str)
@pytest.mark.parametrize("power", [-84, -75, -70, -60, -20, 0, 50, 63])
def test_under_and_overflowing_products(fmt: formats.Format, power: int) -> None:
    a, b = scaled(2, power, fmt, (3, 8)), scaled(3, power, fmt, (8, 4))
    start = scaled(4, max(-140, min(110, 2 * power)), FP32, (3, 4))
    got, _ = mma(a, b, start, fmt, fmt, FP32, True)
    for i in range(3):
        for j in range(4):
            d = start[i, j]
            for k in range(8):
                d = np.float32(exact_fma(a[i, k], b[k, j], d))
            assert str(got[i, j]) == str(d)


def test_bf16_product_beyond_fp32_does_not_meet_infinity() -> None:
    big = np.full((1, 1), 2.0**100, np.float32).astype(BF16.storage)
    start = np.full((1, 1), -np.inf, np.float32)
    got, _ = mma(big, big, start, BF16, BF16, FP32, True)
    assert got[0, 0] == -np.inf


def test_every_path_gives_the_same_bits() -> None:
    a, b = (convert.widen(v) for v in operands(5, "fp16", "fp16", 6, 40, 11))
    start = np.zeros((6, 11), np.float32)
    columns = np.ascontiguousarray(a.T)
    wide = columns.astype(np.float64), b.astype(np.float64)
    exact = matmul._exact_product_chain(columns, b, start.copy())
    assert exact.tobytes() == matmul._normal_chain(*wide, start.copy()).tobytes()
    assert exact.tobytes() == matmul._general_chain(*wide, start.copy()).tobytes()
    assert matmul._choose_step(a, b) is matmul._exact_product_chain


@pytest.mark.parametrize(("addend_bits", "place"), [(24, -23), (22, -149)])
def test_fp32_ties_broken_past_fp64(addend_bits: int, place: int) -> None:
    x, y, c, want = (v[:140] for v in hidden_tie_breakers(addend_bits, place))
    start = np.repeat(c[:, None], len(c), axis=1)
    got, _ = mma(x[:, None], y[None, :], start, FP32, FP32, FP32, True)
    np.testing.assert_array_equal(np.diag(got), want)


def test_tiles_larger_than_a_block() -> None:
    a, b = operands(6, "fp16", "fp16", 70, 3, 1500)
    got, _ = mma(a, b, None, FP16, FP16, FP32, False)
    assert got.tobytes() == chain(a, b, np.zeros((70, 1500), np.float32)).tobytes()


def test_starts_from_positive_zero() -> None:
    a, b = np.array([[-1]], np.float16), np.zeros((1, 1), np.float16)
    got, _ = mma(a, b, None, FP16, FP16, FP32, False)
    assert str(got[0, 0]) == "0.0"
    start = np.full((1, 1), -0.0, np.float32)
    got, _ = mma(a, b, start, FP16, FP16, FP32, True)
    assert str(got[0, 0]) == "-0.0"


def test_bf16_accumulator_is_rounded_once_per_instruction() -> None:
    a = np.ones((1, 4), np.float16)
    b = np.full((4, 1), 2.0**-8, np.float16)
    start = np.ones((1, 1), BF16.storage)  # 2^-8 is half a last place of 1 in bf16
    got, _ = mma(a, b, start, FP16, FP16, BF16, True)
    assert float(got[0, 0]) == 1 + 2.0**-6


def test_nan_is_canonical() -> None:
    a = np.array([[np.inf, 1]], np.float16)
    got, _ = mma(a, np.zeros((2, 1), np.float16), None, FP16, FP16, FP32, False)
    assert got.view(np.uint32)[0, 0] == 0x7FC0_0000


@pytest.mark.parametrize(("fa", "fb"), [(INT8, INT8), (UINT8, INT8), (UINT8, UINT8)])
def test_integers(fa: formats.Format, fb: formats.Format) -> None:
    rng = np.random.default_rng(7)
    a = rng.integers(0, 256, (5, 33)).astype(np.uint8).view(fa.storage)
    b = rng.integers(0, 256, (33, 6)).astype(np.uint8).view(fb.storage)
    start = rng.integers(-1000, 1000, (5, 6)).astype(np.int32)
    got, overflow = mma(a, b, start, fa, fb, INT32, True)
    assert not overflow
    assert got.tolist() == (a.astype(int) @ b.astype(int) + start).tolist()


def test_integer_overflow_wraps_and_is_reported() -> None:
    start = np.array([[2**31 - 1]], np.int32)
    one = np.ones((1, 1), np.int8)
    got, overflow = mma(one, one, start, INT8, INT8, INT32, True)
    assert overflow and got.tolist() == [[-(2**31)]]
    got, overflow = mma(one, one, start, INT8, INT8, INT32, False)
    assert not overflow and got.tolist() == [[1]]


def test_formats_the_machine_does_not_have() -> None:
    one = np.ones((1, 1), np.int8)
    with pytest.raises(ValueError, match="mma of int8 by fp16 into int32"):
        mma(one, one.astype(np.float16), None, INT8, FP16, INT32, False)
