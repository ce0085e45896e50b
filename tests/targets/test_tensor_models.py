"""Tensor models: a compiled matmul instruction on the engine against SCALE-Sim's closed forms."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import dsalang as dsa
import dsalang.language as tl
from dsalang import Target
from dsalang._backend import cost
from dsalang._backend.errors import TargetError
from dsalang._backend.formats import BY_NAME
from dsalang._backend.isa.table import Engine
from dsalang._backend.target import parse_target
from dsalang._runtime.memory import Memory
from dsalang._runtime.reference.engine import run
from dsalang._runtime.reference.options import Options
from dsalang._runtime.stats import Event

EDGE_FILE = Path(dsa.__file__).parents[1] / "backend" / "targets" / "edge.toml"
ARRAY = """[tensor]
model = "{model}"
native_m = {rows}
native_n = {columns}
fill_cycles = 0
max_dim = 65536
overlap = {overlap}

[tensor.macs_per_cycle]
fp16 = {macs}
fp8e4m3 = {double}
fp32 = {half}
"""


def systolic(model: str, rows: int = 128, columns: int = 128, overlap: bool = False) -> Target:
    """A target file with a systolic array and enough SRAM for one large tile."""
    text = EDGE_FILE.read_text().replace("4194304", str(1 << 26))
    head, rest = text.split("[tensor]")
    tail = rest[rest.index("[vector]") :]
    cells = rows * columns
    array = ARRAY.format(
        model=model, rows=rows, columns=columns, overlap=str(overlap).lower(),
        macs=cells, double=2 * cells, half=max(1, cells // 2),
    )  # fmt: skip
    return parse_target(f"{head}{array}\n{tail}", "systolic.toml")


@dsa.jit
def product(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + n[None, :])
    tl.store(c + m[:, None] * N + n[None, :], tl.dot(x, y))


def mma_event(target: Target, m: int, n: int, k: int) -> Event:
    """The one event of the tensor engine in a run of a compiled m·n·k product."""
    compiled = product.compile(
        "*fp16:16, *fp16:16, *fp32:16", constants={"M": m, "N": n, "K": k}, target=target
    )
    addresses = [1 << 36, 2 << 36, 3 << 36]
    result = run(
        compiled.image, target, addresses, (1, 1, 1), Memory([]), Options(functional=False)
    )
    (event,) = [e for e in result.cores[0].events if e.engine is Engine.MM]
    return event


@pytest.mark.parametrize(
    ("model", "size", "cycles"),
    [
        ("systolic-ws", 256, 2551), ("systolic-ws", 512, 14_303),
        ("systolic-ws", 1024, 89_983), ("systolic-ws", 2048, 622_079),
        ("systolic-os", 256, 2039), ("systolic-os", 512, 12_255), ("systolic-os", 1024, 81_791),
    ],
)  # fmt: skip
def test_scale_sim_of_a_compiled_product(model: str, size: int, cycles: int) -> None:
    event = mma_event(systolic(model), size, size, size)
    assert event.end - event.start == cycles


@pytest.mark.parametrize(("rows", "columns"), [(16, 16), (8, 32), (32, 8)])
@pytest.mark.parametrize("shape", [(1, 16, 16), (33, 17, 70), (64, 48, 16)])
def test_scale_sim_of_odd_arrays(rows: int, columns: int, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    event = mma_event(systolic("systolic-ws", rows, columns), m, n, k)
    folds = -(-k // rows) * -(-n // columns)
    assert event.end - event.start == folds * (2 * rows + columns + m - 2) - 1
    event = mma_event(systolic("systolic-os", rows, columns), m, n, k)
    folds = -(-m // rows) * -(-n // columns)
    assert event.end - event.start == folds * (k + rows + columns - 2) - 1


@pytest.fixture(scope="module", params=["systolic-ws", "systolic-os"])
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def cycles(model: str, fmt: str, *shape: int, overlap: bool = True) -> int:
    fields = dict(zip(("m", "n", "k", "batch"), shape))
    code = BY_NAME[fmt].code
    full = cost.complete("mma", {"fmt_a": code, "fmt_b": code, "batch": 1, **fields})
    return cost.compute_cycles("mma", full, None, systolic(model, 16, 16, overlap))


def test_overlap_hides_all_skew_but_one(model: str) -> None:
    alone, apart = (cycles(model, "fp16", 16, 16, 16, overlap=o) for o in (True, False))
    assert alone == apart
    many, apart = (cycles(model, "fp16", 64, 64, 64, overlap=o) for o in (True, False))
    assert many < apart
    assert many - 64**3 // 256 == alone - 16  # at full rate behind the first fold's skew


def test_dense_formats_pack_along_k_and_wide_ones_take_more_cycles(model: str) -> None:
    full = cycles(model, "fp16", 256, 256, 256)
    assert 0.45 < cycles(model, "fp8e4m3", 256, 256, 256) / full < 0.6
    assert 1.8 < cycles(model, "fp32", 256, 256, 256) / full < 2.1


def test_a_batch_is_more_folds(model: str) -> None:
    one, three = (cycles(model, "fp16", 20, 16, 16, b, overlap=False) for b in (1, 3))
    assert three + 1 == 3 * (one + 1)


def test_cube_without_overlap_fills_for_every_block() -> None:
    edge = Target.by_name("edge")
    apart = dataclasses.replace(edge, tensor=dataclasses.replace(edge.tensor, overlap=False))
    code = BY_NAME["fp16"].code
    full = cost.complete(
        "mma", {"fmt_a": code, "fmt_b": code, "m": 32, "n": 32, "k": 16, "batch": 1}
    )
    assert cost.compute_cycles("mma", full, None, edge) == 32 + 4
    assert cost.compute_cycles("mma", full, None, apart) == 4 * (32 + 1)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"cube"', '"systolic"', "tensor.model = 'systolic' is not allowed"),
        ("max_dim = 65536", "max_dim = 65536\noverlap = 1", "tensor.overlap = 1 is not allowed"),
    ],
)
def test_bad_values_are_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        parse_target(EDGE_FILE.read_text().replace(old, new), "bad.toml")
