"""Shipped target files: all load, are documented, and compile kernels of the suite where SRAM allows."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from suite import CASES

import dsalang as dsa
from dsalang import Target
from dsalang._backend.errors import SramOverflowError
from dsalang._backend.target import Hbm

ROOT = Path(dsa.__file__).parents[1]
NAMES = Target.shipped()
LIKE = [name for name in NAMES if name.endswith("-like")]


@pytest.mark.parametrize("name", NAMES)
def test_loads_under_its_name_with_a_real_machine_behind_it(name: str) -> None:
    target = Target.by_name(name)
    assert target.name == name and target.description
    tensor = target.tensor
    for fmt, rate in tensor.macs_per_cycle.items():
        cells = tensor.native_m * tensor.native_n
        whole = rate % cells == 0 if rate >= cells else cells % rate == 0
        assert whole, f"{fmt}: {rate} MACs do not divide into {cells} cells"
        if tensor.model == "cube":
            assert rate >= cells, f"{fmt}: a cube takes at least its native M×N a cycle"


@pytest.mark.parametrize("name", LIKE)
def test_look_alikes_say_so_and_mark_estimates(name: str) -> None:
    text = (ROOT / "backend" / "targets" / f"{name}.toml").read_text()
    assert text.startswith("# A look-alike made from public documents, not the chip.")
    assert "# estimated" in text


def test_look_alikes_of_the_issue_are_there() -> None:
    wanted = ("ascend910b", "trainium2", "tpu-v4", "tpu-v5e", "tpu-v6e", "gemmini", "vta",
              "ethos-u65", "wormhole", "blackhole", "groq-tsp")  # fmt: skip
    assert sorted(LIKE) == sorted(f"{name}-like" for name in wanted)


@pytest.mark.parametrize(
    ("name", "fmt", "peak"),
    [
        ("trainium2-like", "bf16", 8 * 79e12), ("trainium2-like", "fp8e4m3", 8 * 158e12),
        ("tpu-v4-like", "bf16", 137.5e12), ("tpu-v5e-like", "bf16", 197e12),
        ("tpu-v5e-like", "int8", 394e12), ("tpu-v6e-like", "bf16", 920e12),
    ],
)  # fmt: skip
def test_peaks_are_those_published(name: str, fmt: str, peak: float) -> None:
    target = Target.by_name(name)
    found = 2 * target.tensor.macs_per_cycle[fmt] * target.cores * target.clock_mhz * 1e6
    assert found == pytest.approx(peak, rel=0.005)


def test_the_page_lists_every_key() -> None:
    page = (ROOT / "docs" / "targets.md").read_text()
    keys = re.findall(r"`([a-z_.]+)`", "\n".join(x for x in page.splitlines() if x[:1] == "|"))
    for field in dataclasses.fields(Target):
        parts = getattr(Target.by_name("edge"), field.name)
        if dataclasses.is_dataclass(parts):
            for part in dataclasses.fields(type(parts)):
                assert f"{field.name}.{part.name}" in keys
        else:
            assert field.name in keys
    assert isinstance(Target.by_name("edge").hbm, Hbm)


@pytest.mark.parametrize("name", LIKE)
def test_vector_add_and_matmul_run(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("DSA_CACHE_DIR", str(tmp_path))
    target = Target.by_name(name)
    product = "matmul_fp16" if "fp16" in target.tensor.macs_per_cycle else "matmul_int8"
    for case in (CASES["add_odd"](), CASES[product]()):
        try:
            result = case.launch(target=target)
        except SramOverflowError:
            need = sum(np.prod(v) for k, v in case.meta.items() if k.startswith("BLOCK"))
            assert target.sram_bytes <= 64 * 1024, f"{case.name} needs {need} elements a tile"
            continue
        case.check()
        assert result.cycles > 0
