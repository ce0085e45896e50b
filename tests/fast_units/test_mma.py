"""mma as host code against the reference: shapes, transposes, batches, formats, overflow."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from dsalang._backend import formats
from dsalang._backend.llvm.host.host import AVX2, AVX512, PLAIN, Host, this_host

from .draw import drawn
from .harness import TARGET, Case, check, random_bytes
from .test_vexec import values

HOSTS = [AVX512, AVX2] if this_host().vector_bytes == 64 else [this_host()]
RATES = TARGET.tensor.macs_per_cycle
FLOATS = [f.name for f in formats.FORMATS if f.is_float and f.bits <= 32 and f.name in RATES]
INTS = [f for f in ("int8", "uint8") if f in RATES]
SRAM = 1 << 17


def product(
    fmt_a: str, fmt_b: str, fmt_d: str, m: int, n: int, k: int, seed: int = 0, wild: bool = False,
    **changes: Any,
) -> Case:  # fmt: skip
    """An mma on row-major operands, of ordinary numbers or of any bits."""
    code = {f.name: f.code for f in formats.FORMATS}
    fa, fb, fd = (formats.by_name(x) for x in (fmt_a, fmt_b, fmt_d))
    trans_a, trans_b = changes.get("trans_a", 0), changes.get("trans_b", 0)
    batch = changes.get("batch", 1)
    pad = changes.pop("pad", 0)
    rows_a, cols_a = (k, m) if trans_a else (m, k)
    rows_b, cols_b = (n, k) if trans_b else (k, n)
    lda, ldb, ldd = ((c + pad) * f.bytes for c, f in ((cols_a, fa), (cols_b, fb), (n, fd)))
    rng = np.random.default_rng(seed)
    sram = random_bytes(SRAM, seed)
    at_b, at_d = SRAM // 4, SRAM // 2
    for fmt, at, count in (
        (fa, 0, rows_a * lda // fa.bytes * batch),
        (fb, at_b, rows_b * ldb // fb.bytes * batch),
        (fd, at_d, m * ldd // fd.bytes * batch),
    ):
        if wild:
            data = values(fmt, seed + at, max(count, 8))
        elif fmt.is_float:
            data = rng.standard_normal(count).astype(np.float32).astype(fmt.storage).view(np.uint8)
        elif fmt.bytes == 4:
            data = rng.integers(-(2**20), 2**20, count, np.int32).view(np.uint8)
        else:
            continue
        sram[at : at + len(data)] = data
    fields = {
        "fmt_a": code[fmt_a], "fmt_b": code[fmt_b], "fmt_d": code[fmt_d], "batch": batch, "m": m, "n": n, "k": k,
        "a": 0, "lda": lda, "batch_a": rows_a * lda, "b": at_b, "ldb": ldb, "batch_b": rows_b * ldb,
        "d": at_d, "ldd": ldd, "batch_d": m * ldd, "accumulate": 1,
    }  # fmt: skip
    opened = changes.pop("open", {})
    what = f"{fmt_a} {fmt_b} {fmt_d} {m}x{n}x{k} {changes}"
    return Case("mma", {**fields, **changes}, opened, None, sram, what=what)


@pytest.mark.parametrize("host", HOSTS, ids=lambda h: str(h.vector_bytes))
def test_formats(host: Host) -> None:
    cases: list[Case] = []
    for a in FLOATS:
        for b in FLOATS:
            n = len(cases)
            flags: dict[str, Any] = {
                "trans_a": n & 1,
                "trans_b": n >> 1 & 1,
                "accumulate": n >> 2 & 1,
            }
            cases.append(
                product(a, b, ("fp32", "bf16")[n % 3 == 0], 5, 21, 6, n, n % 4 == 1, **flags)
            )
    for n in range(8):
        flags = {"trans_a": n & 1, "trans_b": n >> 1 & 1, "accumulate": n >> 2 & 1}
        cases.append(product("fp64", "fp64", "fp64", 5, 21, 6, n, n % 3 == 1, **flags))
    check(cases, host)


def test_integers() -> None:
    cases: list[Case] = []
    for a in INTS:
        for b in INTS:
            for trans in range(4):
                for k in (1, 37):
                    flags: dict[str, Any] = {
                        "trans_a": trans & 1,
                        "trans_b": trans >> 1,
                        "accumulate": len(cases) % 3 != 0,
                    }
                    flags["accumulate"] = int(flags["accumulate"])
                    cases.append(product(a, b, "int32", 5, 19, k, len(cases), **flags))
    for host in {*HOSTS, PLAIN, this_host()}:
        check(cases, host)


def _shape(draw: st.DrawFn) -> Case:
    sides = st.one_of(st.integers(1, 9), st.integers(1, 70), st.sampled_from([16, 32, 64]))
    m, n, k = draw(sides), draw(sides), draw(sides)
    a = draw(st.sampled_from([*FLOATS, "int8", "fp64"]))
    b = a if a in ("int8", "fp64") else draw(st.sampled_from([a, *FLOATS]))
    d = draw(
        st.sampled_from({"int8": ["int32"], "fp64": ["fp64"]}.get(a, ["fp32", "fp32", "bf16"]))
    )
    flags = {name: draw(st.integers(0, 1)) for name in ("trans_a", "trans_b", "accumulate")}
    batch = draw(st.sampled_from([1, 1, 2, 3])) if max(m * k, n * k, m * n) <= 1300 else 1
    return product(
        a, b, d, m, n, k, draw(st.integers(0, 99)), draw(st.booleans()), batch=batch,
        pad=draw(st.sampled_from([0, 0, 1, 5])), **flags,
    )  # fmt: skip


@pytest.mark.parametrize("host", HOSTS, ids=lambda h: str(h.vector_bytes))
def test_random_shapes(host: Host) -> None:
    check(drawn(_shape, 40), host)


def test_operands_at_run_time_and_odd_places() -> None:
    small = partial(product, "fp16", "bf16", "fp32", 5, 9, 7)
    cases = [
        small(open={"a": 2, "b": 40000, "d": 60000}),
        small(open={"trans_a": 1, "accumulate": 0, "lda": 20}),
        small(open={"m": 3, "n": 4, "k": 5}),
        small(open={"k": 0, "accumulate": 0}),
        small(open={"k": 0, "accumulate": 1}),
        product("fp16", "fp16", "fp32", 5, 9, 0, accumulate=0),
        product("fp16", "fp16", "bf16", 5, 9, 0, accumulate=1),
        small(open={"batch": 2}),
        small(open={"m": 0}),
        small(open={"d": SRAM - 100}),
        small(open={"a": -1}),
        product("fp32", "fp32", "fp32", 6, 6, 6, d=0),
        product("fp32", "fp32", "fp32", 6, 6, 6, d=16, accumulate=0),
        product("fp16", "fp16", "fp32", 6, 40, 6, open={"d": SRAM // 4}),
        product("fp32", "fp32", "fp32", 4, 4, 4, ldd=4),
        product("fp32", "fp32", "fp32", 4, 4, 4, batch=3, batch_d=0),
        product("fp32", "fp32", "fp32", 4, 4, 4, ldd=-16),
        product("fp32", "fp32", "fp32", 4, 4, 4, lda=0, ldb=-16),
    ]
    check(cases)


def test_overflow_of_int32_is_a_fault() -> None:
    cases: list[Case] = []
    for start in (2**31 - 1, 2**31 - 1 - 255 * 255 * 4, -(2**31), 0):
        for open_ in ({}, {"m": 9}):
            case = product("uint8", "uint8", "int32", 9, 20, 4, open=dict(open_))
            d = case.sram[SRAM // 2 :].view(np.int32)
            d[:] = 0
            case.sram[: SRAM // 2] = 255
            d[37] = start
            cases.append(case)
    check(cases)
