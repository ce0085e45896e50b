"""`tl.dot_scaled` against ml_dtypes: formats, scales, packing, on machines with and without block formats, interpreted."""

from __future__ import annotations

import dataclasses
import linecache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl

TYPES = {
    "e2m1": ml_dtypes.float4_e2m1fn, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
    "bf16": ml_dtypes.bfloat16, "fp16": np.float16, "int8": np.int8, "uint8": np.uint8,
    "int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4,
}  # fmt: skip
HALVES = ("e2m1", "int4", "uint4")
INTEGERS = ("int8", "uint8", "int4", "uint4")
EDGE = dsa.Target.by_name("edge")
LACKING = dataclasses.replace(
    EDGE,
    tensor=dataclasses.replace(
        EDGE.tensor,
        block_scales=False,
        macs_per_cycle={k: v for k, v in EDGE.tensor.macs_per_cycle.items() if "4" not in k or k == "fp8e4m3"},
    ),
)  # fmt: skip
WITH_BF16_ONLY = dataclasses.replace(
    LACKING, tensor=dataclasses.replace(LACKING.tensor, macs_per_cycle={"bf16": 1024, "fp32": 256})
)


@dsa.jit
def kernel(
    a, sa, b, sb, start, out,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, A: tl.constexpr, B: tl.constexpr,
    HALVES_A: tl.constexpr, HALVES_B: tl.constexpr, GA: tl.constexpr, GB: tl.constexpr,
    PACK_A: tl.constexpr, PACK_B: tl.constexpr, ACC: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    rows: tl.constexpr = M // HALVES_A if not PACK_A else M
    columns: tl.constexpr = N // HALVES_B if not PACK_B else N
    ka: tl.constexpr = K // HALVES_A if PACK_A else K
    kb: tl.constexpr = K // HALVES_B if PACK_B else K
    x = tl.load(a + tl.arange(0, rows)[:, None] * ka + tl.arange(0, ka)[None, :])
    y = tl.load(b + tl.arange(0, kb)[:, None] * columns + tl.arange(0, columns)[None, :])
    scale_a = None
    scale_b = None
    if GA:
        scale_a = tl.load(sa + tl.arange(0, M)[:, None] * GA + tl.arange(0, GA)[None, :])
    if GB:
        scale_b = tl.load(sb + tl.arange(0, N)[:, None] * GB + tl.arange(0, GB)[None, :])
    places = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    acc = None
    if ACC:
        acc = tl.load(start + places)
    result = tl.dot_scaled(
        x, scale_a, A, y, scale_b, B, acc, lhs_k_pack=PACK_A, rhs_k_pack=PACK_B, out_dtype=OUT
    )
    tl.store(out + places, result)


def packed(values: Any, axis: int) -> Any:
    """Numbers of 4 bits as bytes of two neighbours along an axis."""
    codes = np.moveaxis(values.view(np.uint8) & 15, axis, -1)
    return np.ascontiguousarray(np.moveaxis(codes[..., 0::2] | codes[..., 1::2] << 4, -1, axis))


def check(
    left: str, right: str, scaled: str = "ab", target: Any = None, pack: tuple[bool, bool] = (True, True),
    size: tuple[int, int, int] = (6, 10, 64), groups: int = 0, acc: bool = False, seed: int = 0,
) -> Any:  # fmt: skip
    """Launch with random operands and compare; gives the report."""
    rng = np.random.default_rng(seed)
    m, n, k = size
    floats, stored = [], []
    for kind, shape, axis in ((left, (m, k), 1), (right, (k, n), 0)):
        top = 7 if kind.endswith("4") else 100
        low = 0 if kind[0] == "u" else -top
        draw = rng.integers(low, top, shape) if kind in INTEGERS else rng.standard_normal(shape)
        values = draw.astype(np.float32).astype(TYPES[kind])
        floats.append(values.astype(np.float64))
        along = axis if pack[axis == 0] else 1 - axis
        stored.append(packed(values, along) if kind in HALVES else values)
    g = groups or -(-k // 32)
    scales = [rng.integers(118, 132, (count, g), np.uint8) for count in (m, n)]
    powers = [
        np.repeat(2.0 ** (s.astype(float) - 127), k // g if groups else 32, 1)[:, :k]
        for s in scales
    ]
    x = floats[0] * (powers[0] if "a" in scaled else 1)
    y = floats[1] * (powers[1].T if "b" in scaled else 1)
    whole = not scaled and left in INTEGERS and right in INTEGERS
    out = np.zeros((m, n), np.int32 if whole else np.float32)
    start = rng.integers(-9, 9, (m, n)).astype(out.dtype)
    report = kernel[(1,)](
        stored[0].view(np.uint8) if stored[0].itemsize == 1 else stored[0], scales[0],
        stored[1].view(np.uint8) if stored[1].itemsize == 1 else stored[1], scales[1], start, out,
        M=m, N=n, K=k, A=left, B=right, HALVES_A=1 + (left in HALVES), HALVES_B=1 + (right in HALVES),
        GA=g * ("a" in scaled), GB=g * ("b" in scaled), PACK_A=pack[0], PACK_B=pack[1],
        ACC=acc, OUT=tl.int32 if whole else tl.float32, **({"target": target} if target else {}),
    )  # fmt: skip
    exact = x @ y + (start if acc else 0)
    bound = 1e-6 * (np.abs(x) @ np.abs(y) + np.abs(start)) + 1e-30
    assert (np.abs(out.astype(np.float64) - exact) <= (0 if whole else bound)).all()
    return report


PAIRS = [
    ("e2m1", "e2m1"), ("e4m3", "e5m2"), ("e5m2", "e2m1"), ("bf16", "e4m3"), ("e2m1", "bf16"), ("fp16", "e2m1"),
    ("int8", "e4m3"), ("bf16", "int4"), ("int4", "int8"), ("uint4", "uint8"),
]  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_scales_on_both_sides(pair: tuple[str, str]) -> None:
    check(*pair)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@pytest.mark.parametrize("target", [LACKING, WITH_BF16_ONLY], ids=["fp8", "bf16"])
def test_machines_without_block_formats(pair: tuple[str, str], target: Any) -> None:
    check(*pair, target=target)
    check(*pair, scaled="", target=LACKING)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_interpreted(pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSA_INTERPRET", "1")
    for scaled in ("ab", "a", ""):
        check(*pair, scaled=scaled, acc=True)
    check(*pair, pack=(pair[0] not in HALVES, pair[1] not in HALVES))
    check(*pair, groups=1)


@dsa.jit
def scaled_once(a, sa, b, sb, out, N: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    """One product per element: nothing is added up, so bits can be compared."""
    i, k = tl.arange(0, N)[:, None], tl.arange(0, 32)[None, :]
    x = tl.load(a + i * 32 + k)
    y = tl.load(b + i * 32 + k)
    scale_a = tl.load(sa + tl.arange(0, N)[:, None])
    scale_b = tl.load(sb + tl.arange(0, N)[:, None])
    result = tl.dot_scaled(x, scale_a, A, y.T, scale_b, B)
    tl.store(out + i * N + tl.arange(0, N)[None, :], result)


@pytest.mark.parametrize(
    "pair", [("e4m3", "e5m2"), ("bf16", "e4m3"), ("fp16", "int8")], ids="-".join
)
def test_scales_at_the_ends_of_their_range(
    pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number times its scale is an fp32 number, compiled and interpreted: beyond the range it is infinite."""
    n, found = 12, []
    rng = np.random.default_rng(3)
    numbers = [np.zeros((n, 32), TYPES[kind]) for kind in pair]
    for values, top in zip(numbers, (448, 100)):
        values[:, 0] = np.linspace(-top, top, n).astype(values.dtype)
    scales = [rng.choice([0, 1, 120, 127, 250, 253, 254], n).astype(np.uint8) for _ in pair]
    scales[0][:2] = 254, 0
    for interpret in "01":
        monkeypatch.setenv("DSA_INTERPRET", interpret)
        out = np.zeros((n, n), np.float32)
        a, b = (v.view(np.uint8) if v.itemsize == 1 else v for v in numbers)
        scaled_once[(1,)](a, scales[0], b, scales[1], out, N=n, A=pair[0], B=pair[1])
        found.append(out)
    assert np.isinf(found[0]).any() and np.isfinite(found[0]).any()
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("scaled", ["", "a", "b"])
def test_scales_may_be_absent(scaled: str) -> None:
    check("e2m1", "e4m3", scaled, acc=True)
    check("int4", "int8", scaled, acc=True)
    check("bf16", "uint4", scaled)


@pytest.mark.parametrize("target", [EDGE, LACKING], ids=["edge", "lacking"])
def test_packed_along_the_other_dim(target: Any) -> None:
    check("e2m1", "e2m1", pack=(False, False), target=target)
    check("e2m1", "e4m3", pack=(False, True), size=(8, 5, 34), target=target)
    check("int8", "int4", "", pack=(True, False), target=target)


@pytest.mark.parametrize("target", [EDGE, LACKING], ids=["edge", "lacking"])
def test_other_blocks(target: Any) -> None:
    check("e2m1", "e4m3", groups=1, size=(6, 10, 128), target=target)  # wider than 32: repeated
    check("e4m3", "e2m1", size=(3, 5, 70), target=target)  # the last block is shorter
    check("e2m1", "e2m1", size=(3, 5, 16), target=target)


def test_blocks_of_sixteen_are_scaled_by_the_vector_engine() -> None:
    check("e2m1", "e2m1", groups=4, size=(6, 10, 64))


def test_native_operands_are_read_as_they_are() -> None:
    compiled = kernel.warmup(
        *(np.zeros(4, np.uint8) for _ in range(4)), np.zeros(1, np.float32), np.zeros(1, np.float32),
        grid=(1,), M=16, N=16, K=64, A="e2m1", B="e2m1", HALVES_A=2, HALVES_B=2, GA=2, GB=2,
        PACK_A=True, PACK_B=True, ACC=False, OUT=tl.float32, target="edge",
    )  # fmt: skip
    text = compiled.text["dsa"]
    assert "vexec" not in text
    assert "scale_a" in text and "scale_b" in text


def test_machines_without_a_wider_format_say_so() -> None:
    rates = {"int8": 1024, "fp8e4m3": 1024}
    tensor = dataclasses.replace(EDGE.tensor, macs_per_cycle=rates, block_scales=False)
    target = dataclasses.replace(EDGE, tensor=tensor)
    with pytest.raises(dsa.CompileError, match="does not take these operands with their scales"):
        check("e4m3", "e4m3", target=target)
    with pytest.raises(dsa.CompileError, match="does not multiply fp4e2m1"):
        check("e2m1", "e4m3", target=target)
    check("e2m1", "e4m3", "", target=target)


MISTAKES = {
    "x, None, 'e3m2', y, None, 'e4m3'": "lhs_format of dot_scaled is one of",
    "x, None, 'bf16', y, None, 'e4m3'": "lhs of dot_scaled is bf16, a tile of bf16 or uint16, not",
    "x, None, 'e2m1', y, None, 'e4m3'": "K = 64, rhs .* has K = 32",
    "x, x, 'e4m3', y, None, 'e4m3'": r"lhs_scale of dot_scaled has shape \[8, 32\], not \[8, 1\]",
    "x, None, 'e4m3', y, 1, 'e4m3'": "rhs_scale of dot_scaled is a tile of uint8",
    "x, None, 'e4m3', y, None, 'e4m3', lhs_k_pack=False": "lhs_k_pack=False is for packed formats",
    "x, None, 'int8', y, None, 'int8', tl.zeros((8, 8), tl.float32)": "accumulates in int32",
}


@pytest.mark.parametrize("call", MISTAKES)
def test_mistakes(call: str) -> None:
    text = (
        "import dsalang as dsa\nimport dsalang.language as tl\n\n@dsa.jit\ndef wrong(p):\n"
        "    x = tl.load(p + tl.arange(0, 8)[:, None] * 32 + tl.arange(0, 32)[None, :])\n"
        "    y = tl.load(p + tl.arange(0, 32)[:, None] * 8 + tl.arange(0, 8)[None, :])\n"
        f"    tl.store(p, tl.dot_scaled({call}).to(tl.uint8))\n"
    )
    name = f"/dot_scaled/{call}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict[str, Any] = {}
    exec(compile(text, name, "exec"), scope)
    with pytest.raises(dsa.CompileError, match=MISTAKES[call]) as caught:
        scope["wrong"][(1,)](np.zeros(256, np.uint8))
    assert caught.value.loc is not None and caught.value.loc.line == 8
