"""kernel.profile: figures that add up, reasons that name engine, buffer and line, files that stand alone."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from suite import CASES, Case
from suite import kernels as suite_kernels

import dsalang as dsa
from dsalang._backend.errors import LaunchError
from dsalang._backend.image.uses import ring_uses
from dsalang._backend.isa.table import Engine
from dsalang._runtime.profile import BINS, Profile, svg
from dsalang._runtime.profile.lives import Life, occupancy
from dsalang._runtime.report import tensor_peak


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    patch = pytest.MonkeyPatch()
    patch.setenv("DSA_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


def profile(case: Case, **options: Any) -> Profile:
    return case.kernel.profile(*case.args, grid=case.grid, show=False, **case.meta, **options)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def matmul() -> Profile:
    return profile(CASES["matmul_fp16"]())


@pytest.mark.parametrize("name", CASES)
def test_busy_and_stalls_add_up_and_outputs_are_right(name: str) -> None:
    case = CASES[name]()
    found = profile(case)
    case.check()
    total = found.run.cycles * len(found.run.cores)
    for share in found.engines:
        assert 0 <= share.busy + share.stalled <= total
        reasons = sum(stall.cycles for stall in found.stalls if stall.engine == share.engine)
        assert reasons == share.stalled
    assert found.uses is not None
    assert 0 < max(found.occupancy) <= found.run.image.sram_bytes
    assert len(found.occupancy) == BINS
    assert "stood still" in found.text


@pytest.mark.parametrize("name", CASES)
def test_templates_of_the_ir_are_those_of_the_image(name: str) -> None:
    case = CASES[name]()
    kernel = case.kernel.warmup(*case.args, grid=case.grid, **case.meta)
    uses = ring_uses(kernel.module, kernel.image)
    assert uses is not None and len(uses) == len(kernel.image.templates)
    written = {ring for found in uses for ring, roles in found.items() if "w" in roles}
    assert written == set(range(len(kernel.image.rings)))


def test_stalls_name_engine_buffer_and_line(matmul: Profile) -> None:
    lines = Path(suite_kernels.__file__).read_text().splitlines()
    waits = [s for s in matmul.stalls if s.engine == "MM" and s.waits_for == "LD"]
    assert waits
    for stall in waits:
        assert stall.buffer in ("a_tile", "b_tile") and stall.line is not None
        assert "load(" in lines[stall.line - 1]
        assert stall.reason == "waiting for LD to load"


def test_slots_live_one_after_another(matmul: Profile) -> None:
    ends: dict[tuple[int, int], int] = {}
    loads = [r.label for r in matmul.run.image.rings].index("b_tile")
    for life in matmul.lives:
        if life.ring == loads:
            assert life.start >= ends.get((life.ring, life.slot), 0)
            ends[life.ring, life.slot] = life.end


def test_occupancy_counts_what_overlaps(matmul: Profile) -> None:
    image = matmul.run.image
    size = image.rings[0].slot_bytes
    lives = [Life(0, 0, 0, 50), Life(0, 1, 40, 100)]
    assert occupancy(image, lives, 100, 10) == [size] * 4 + [2 * size] * 2 + [size] * 4
    assert occupancy(image, [Life(0, 0, 95, 100)], 100, 10) == [0] * 9 + [size]


def test_json(matmul: Profile, tmp_path: Path) -> None:
    data = json.loads(matmul.json(tmp_path / "p.json").read_text())
    assert data["cycles"] == matmul.run.cycles
    assert {e["engine"] for e in data["engines"]} == {e.name for e in Engine}
    assert data["hbm"]["arrays"]["a"]["read"] > 0 and data["hbm"]["arrays"]["c"]["written"] > 0
    assert {r["label"] for r in data["sram"]["rings"]} >= {"a_tile", "b_tile"}
    assert data["roofline"]["bound"] and data["stalls"][0]["cycles"] > 0


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.found += [value for name, value in attrs if name in ("src", "href") and value]
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_html_is_one_file_with_pictures(matmul: Profile, tmp_path: Path) -> None:
    text = matmul.html(tmp_path / "p.html").read_text()
    parser = _Links()
    parser.feed(text)
    assert parser.found == [] and parser.open == []
    assert "url(" not in text and "@import" not in text and "<script" not in text
    pictures = re.findall(r"<svg.*?</svg>", text, re.S)
    assert len(pictures) == 3
    for one in pictures:
        ElementTree.fromstring(one)
    assert "b_tile" in text and "waiting for LD" in text
    fragment = matmul._repr_html_()
    assert fragment in text and "<html" not in fragment


def test_the_roof_is_that_of_the_format(matmul: Profile) -> None:
    assert tensor_peak(matmul.run.image, matmul.run.target) == ("fp16", 4096)
    assert "tensor, fp16: 8.19 Top/s" in matmul._repr_html_()
    int8 = profile(CASES["matmul_int8"]()).run
    assert tensor_peak(int8.image, int8.target) == ("int8", 8192)
    add = profile(CASES["add_odd"]()).run
    assert tensor_peak(add.image, add.target)[1] == 16384


def test_labels_are_escaped(tmp_path: Path) -> None:
    assert svg.text(0, 0, "<a & b>").count("<") == 2
    assert "&lt;x&gt;" in svg.rect(0, 0, 1, 1, "red", "<x>")


@pytest.mark.parametrize(
    "span", [(0.0, 1.0), (3.2, 3.7), (0.0, 12345.0), (1e-3, 2e-3), (36.8, 44.5)]
)
def test_ticks_are_few_and_within(span: tuple[float, float]) -> None:
    found = svg.ticks(*span)
    assert 2 <= len(found) <= 9
    assert all(span[0] - 1e-9 <= tick <= span[1] + 1e-9 for tick in found)


def test_prints_unless_told_not_to(capsys: pytest.CaptureFixture[str]) -> None:
    case = CASES["add_odd"]()
    case.kernel.profile(*case.args, grid=case.grid, **case.meta)
    assert "HBM by array" in capsys.readouterr().out
    profile(case)
    assert capsys.readouterr().out == ""


def test_many_cores_and_static_schedules() -> None:
    assert profile(CASES["add_odd"](), target="center").run.cores
    found = profile(CASES["add_odd"](), schedule="static")
    assert found.uses is None and set(found.occupancy) == {found.run.image.sram_bytes}
    assert "<svg" in found._repr_html_()


def test_bad_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["add_odd"]()
    with pytest.raises(LaunchError, match="no programs"):
        case.kernel.profile(*case.args, grid=(0,), **case.meta)
    monkeypatch.setenv("DSA_INTERPRET", "1")
    with pytest.raises(LaunchError, match="interpreted"):
        case.kernel.profile(*case.args, grid=case.grid, **case.meta)


@dsa.jit
def nothing(x, n):
    pass


def test_a_kernel_that_does_nothing() -> None:
    found = nothing.profile(np.zeros(4, np.float32), 4, grid=(2,), show=False)
    assert found.run.cycles == 0 or found.run.cycles > 0
    assert "nothing" in found.text and "<svg" in found._repr_html_()


def test_a_function_for_any_kernel():
    with pytest.raises(dsa.LaunchError, match="function is no kernel"):
        dsa.profile(lambda: None)
