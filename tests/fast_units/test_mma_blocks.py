"""mma of packed formats and with block scales as host code, against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from dsalang._backend.formats import OPERANDS
from dsalang._backend.isa.table import NONE, SCALE_BLOCK
from dsalang._backend.llvm.host.host import AVX2, AVX512, AVX512_VNNI, PLAIN, Host, this_host

from .draw import drawn
from .harness import TARGET, Case, check, random_bytes

HOSTS = [AVX512, AVX2] if this_host().vector_bytes == 64 else [this_host()]
NAMES = tuple(name for name in TARGET.tensor.macs_per_cycle if name != "fp64")
INTEGERS = tuple(name for name in NAMES if not OPERANDS[name].is_float)
SRAM = 1 << 17
AT_B, AT_D, AT_SCALE_A, AT_SCALE_B = (SRAM * k // 8 for k in (2, 4, 6, 7))


def product(
    a: str, b: str, into: str, m: int, n: int, k: int, seed: int = 0, scaled: str = "",
    wild: bool = False, pad: int = 0, **changes: Any,
) -> Case:  # fmt: skip
    """An mma of random bits; `scaled` names the operands with scales, near 1 unless `wild`."""
    fields: dict[str, Any] = {"batch": 1, "m": m, "n": n, "k": k, "d": AT_D, "accumulate": 1}
    fields |= {"fmt_d": OPERANDS[into].code, "ldd": (n + pad) * OPERANDS[into].bytes}
    fields["batch_d"] = m * fields["ldd"]
    batch = changes.get("batch", 1)
    sram = random_bytes(SRAM, seed)
    rng = np.random.default_rng(seed)
    for name, along, address in (("a", m, 0), ("b", n, AT_B)):
        fmt = OPERANDS[{"a": a, "b": b}[name]]
        shape = (along, fmt.stored(k))
        if bool(changes.get(f"trans_{name}", 0)) != (name == "b"):
            shape = shape[::-1]
        lead = (shape[1] + pad) * fmt.bytes
        fields |= {f"fmt_{name}": fmt.code, name: address, f"ld{name}": lead}
        fields[f"batch_{name}"] = shape[0] * lead
        if fmt.is_float and fmt.bytes > 1:
            count = batch * shape[0] * lead // fmt.bytes
            data = rng.standard_normal(count).astype(np.float32).astype(fmt.storage)
            sram[address : address + data.nbytes] = data.view(np.uint8)
        if name in scaled:
            at, step = {"a": AT_SCALE_A, "b": AT_SCALE_B}[name], -(-k // SCALE_BLOCK) + pad
            fields |= {f"scale_{name}": at, f"ld_scale_{name}": step}
            fields[f"batch_scale_{name}"] = along * step
            if not wild:
                sram[at : at + batch * along * step] = rng.integers(
                    120, 135, batch * along * step, np.uint8
                )
    if not wild:
        data = rng.integers(-(2**20), 2**20, SRAM // 16, np.int32)
        start = data if into == "int32" else data.astype(np.float32).astype(OPERANDS[into].storage)
        sram[AT_D : AT_D + start.nbytes] = start.view(np.uint8)
    opened = changes.pop("open", {})
    what = f"{a} {b} {into} {m}x{n}x{k} {scaled} {changes}"
    return Case("mma", {**fields, **changes}, opened, None, sram, what=what)


def accumulator(a: str, b: str, scaled: str, bf16: bool = False) -> str:
    """The format that D must have."""
    floats = OPERANDS[a].is_float or OPERANDS[b].is_float or scaled
    return "int32" if not floats else "bf16" if bf16 else "fp32"


@pytest.mark.parametrize("host", HOSTS, ids=lambda h: str(h.vector_bytes))
def test_every_pair_of_formats(host: Host) -> None:
    cases: list[Case] = []
    for a in NAMES:
        for b in NAMES:
            n = len(cases)
            scaled = ("", "a", "b", "ab")[n % 4]
            flags = {"trans_a": n >> 2 & 1, "trans_b": n >> 3 & 1, "accumulate": int(n % 5 != 0)}
            d = accumulator(a, b, scaled, n % 7 == 0)
            cases.append(
                product(a, b, d, 5, 21, 70, n, scaled, n % 3 == 0 and d != "int32", **flags)
            )
    check(cases, host)


def test_packed_integers() -> None:
    cases: list[Case] = []
    for a in INTEGERS:
        for b in INTEGERS:
            for trans in range(4):
                k = (1, 7, 36, 37)[(trans + len(cases)) % 4]
                flags = {"trans_a": trans & 1, "trans_b": trans >> 1}
                cases.append(product(a, b, "int32", 5, 19, k, len(cases), **flags))
    for host in {*HOSTS, PLAIN, this_host()} | ({AVX512_VNNI} & {this_host()}):
        check(cases, host)


def _shape(draw: st.DrawFn) -> Case:
    sides = st.one_of(st.integers(1, 9), st.integers(1, 70), st.sampled_from([16, 32, 64]))
    m, n = draw(sides), draw(sides)
    k = draw(st.one_of(sides, st.sampled_from([95, 96, 97, 128])))
    a, b = draw(st.sampled_from(NAMES)), draw(st.sampled_from(NAMES))
    scaled = draw(st.sampled_from(["ab", "ab", "b", "a", ""]))
    d = accumulator(a, b, scaled, draw(st.booleans()))
    flags = {name: draw(st.integers(0, 1)) for name in ("trans_a", "trans_b", "accumulate")}
    batch = draw(st.sampled_from([1, 1, 2, 3])) if max(m * k, n * k, m * n) <= 1900 else 1
    wild = draw(st.booleans()) and d != "int32"
    pad = draw(st.sampled_from([0, 0, 1, 5])) if max(m, n, k) < 80 else 0
    return product(
        a, b, d, m, n, k, draw(st.integers(0, 99)), scaled, wild, pad, batch=batch, **flags
    )


@pytest.mark.parametrize("host", HOSTS, ids=lambda h: str(h.vector_bytes))
def test_random_shapes(host: Host) -> None:
    check(drawn(_shape, 40), host)


def test_operands_at_run_time_and_odd_places() -> None:
    def small(**changes: Any) -> Case:
        return product("fp4e2m1", "fp8e4m3", "fp32", 5, 9, 71, 3, "ab", **changes)

    scales = {"scale_a": AT_SCALE_B, "scale_b": AT_SCALE_A}
    cases = [
        small(open=scales),
        small(open={"m": 3, "n": 4, "k": 33}),
        small(open={"m": 3, "ld_scale_a": -1, "ld_scale_b": 0}),
        small(ld_scale_a=0, ld_scale_b=-3),
        small(open={"k": 0, "accumulate": 0}),
        small(open={"scale_a": NONE}),
        small(open={"scale_b": SRAM - 20}),
        small(scale_a=SRAM - 12),
        small(d=AT_SCALE_B, scale_b=AT_SCALE_B + 8),
        small(d=AT_SCALE_A, accumulate=0),
        small(trans_a=1, batch=2, batch_scale_a=0),
        product("int4", "int4", "int32", 3, 20, 9, open={"m": 2, "k": 5}),
        product("uint4", "int8", "int32", 3, 20, 9, trans_b=1, open={"m": 2, "k": 8}),
        product("int4", "bf16", "fp32", 3, 20, 9, trans_b=1, open={"n": 11}),
        product("int8", "int8", "fp32", 3, 20, 40, 1, "a", open={"n": 11}),
    ]  # fmt: skip
    check(cases)
