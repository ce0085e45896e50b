"""Loads that repeat in every iteration of a loop fill a buffer before it."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

import dsalang as dsa
from dsalang._backend.dialects import parse_ir, print_ir
from dsalang._backend.passes.check import find_hazards
from dsalang._backend.passes.reside import reside
from dsalang._backend.target import Target

EDGE = Target.by_name("edge")

KERNEL = """
func.func @steps(%w: i64, %y: i64, %n: i32) attributes {{dsa.args = ["w", "y", "n"],
    dsa.formats = ["*fp16", "*fp16", "int32"], dsa.alias = array<i64: 0, {alias}, -1>}} {{
  %ring = "dsa.ring"() <{{label = "w", bytes = {bytes} : i64, slots = 0 : i64, address = -1 : i64,
    shape = array<i64: 4, 32>, fmt = "fp16"}}> : () -> !dsa.ring
  %out = "dsa.ring"() <{{label = "y", bytes = 256 : i64, slots = 0 : i64, address = -1 : i64,
    shape = array<i64: 4, 32>, fmt = "fp16"}}> : () -> !dsa.ring
  %core = "dsa.core_id"() : () -> i32
  %cores = "dsa.num_cores"() : () -> i32
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %six = arith.constant 6 : i32
  %ten = arith.constant 10 : i32
  scf.for %p = %core to %n step %cores : i32 {{
    %o = "dsa.acquire"(%out) : (!dsa.ring) -> !dsa.slot
    scf.for %step = %zero to {steps} step %one : i32 {{
      scf.for %j = {tiles} step %two : i32 {{
        %wide = arith.extsi {index} : i32 to i64
        %a = arith.addi %w, %wide : i64
        %s = "dsa.acquire"(%ring) : (!dsa.ring) -> !dsa.slot
        "dsa.issue"(%a, %s) <{{op = "dma.load", bind = ["hbm", "sram"], fields = {{elem_bytes = 2 : i64,
          ndim = 1 : i64, size = array<i64: {elements}>, hi = array<i64: {elements}>, hbm_stride = array<i64: 2>,
          sram_stride = array<i64: 2>}}, hbm_arg = 0 : i64}}> : (i64, !dsa.slot) -> ()
        "dsa.issue"(%s, %o) <{{op = "vexec", bind = ["in.0", "out.0"], fields = {{ndim = 1 : i64,
          size = array<i64: {points}>, in_stride = array<i64: 2>, out_stride = array<i64: 2>}},
          program = "program inputs(fp16) scalars() outputs(fp16)\\0Ar0 = in.fp16 0\\0Aout.fp16 r0, 0"
          }}> : (!dsa.slot, !dsa.slot) -> ()
      }}
    }}
    "dsa.issue"(%y, %o) <{{op = "dma.store", bind = ["hbm", "sram"], fields = {{elem_bytes = 2 : i64,
      ndim = 1 : i64, size = array<i64: 128>, hi = array<i64: 128>, hbm_stride = array<i64: 2>,
      sram_stride = array<i64: 2>}}, hbm_arg = 1 : i64}}> : (i64, !dsa.slot) -> ()
  }}
  func.return
}}
"""
DEFAULT: dict[str, Any] = {
    "alias": 1, "bytes": 16384, "elements": 8192, "steps": "%ten", "tiles": "%zero to %six", "index": "%j",
    "points": 128,
}  # fmt: skip


def resided(target: Target = EDGE, **changes: Any) -> str:
    module = parse_ir(KERNEL.format(**(DEFAULT | changes)))
    reside(module, target)
    module.verify()
    return print_ir(module)


def shape(text: str) -> list[str]:
    """The loops, conditions and loads, indented."""
    found = re.findall(r"^( *)(?:scf\.(for|if)|.*op = \"(dma\.load)\")", text, re.MULTILINE)
    return [" " * (len(space) // 2 - 2) + (a or b) for space, a, b in found]


def test_all_tiles_of_a_loop_over_weights_are_loaded_before_the_steps() -> None:
    text = resided()
    assert shape(text) == ["for", " dma.load", "for", " for", "  for"]
    assert 'label = "w", bytes = 49152 : i64' in text  # three tiles
    assert "shape = array<i64: 3, 4, 32>" in text
    assert text.count('"dsa.part"') == 2


def test_one_tile_needs_no_loop_of_its_own() -> None:
    text = resided(index="%one")
    assert shape(text)[0] == "dma.load"
    assert 'label = "w", bytes = 16384 : i64' in text
    assert "dsa.part" not in text


@pytest.mark.parametrize(
    "changes",
    [
        {"alias": 0},  # the kernel may write what it loads
        {"index": "%step", "tiles": "%zero to %two"},  # another box in each step
        {"index": "%p", "steps": "%one", "tiles": "%zero to %two"},  # only programs repeat anything
        {"tiles": "%zero to %n"},  # how many tiles there are is not known
        {"points": 1 << 16},  # the loads hide behind the work on them
    ],
    ids=str,
)
def test_what_changes_or_does_not_pay_is_loaded_where_it_stood(changes: dict[str, Any]) -> None:
    before = print_ir(parse_ir(KERNEL.format(**(DEFAULT | changes))))
    assert resided(**changes) == before


@pytest.mark.parametrize(
    "index,expected",
    [
        ("%p", ["for", " dma.load", " for", "  for"]),
        ("%step", ["for", " for", "  dma.load", "  for"]),
    ],
)
def test_the_buffer_is_filled_where_it_need_not_grow(index: str, expected: list[str]) -> None:
    assert shape(resided(index=index)) == expected


def test_it_must_leave_room_for_the_rest() -> None:
    small = dataclasses.replace(EDGE, sram_bytes=49152 + 256)
    assert shape(resided(small))[-1].strip() == "dma.load"
    assert shape(resided(dataclasses.replace(EDGE, sram_bytes=49152 + 4096)))[0] == "for"


def test_steps_that_may_not_run_load_nothing() -> None:
    text = resided(steps="%n")
    assert shape(text)[:3] == ["if", " for", "  dma.load"]


@dsa.jit
def chain(
    x, w, b, y, steps, K: dsa.constexpr, BLOCK: dsa.constexpr, STEPS: dsa.constexpr, POINTERS: dsa.constexpr
):  # fmt: skip
    rows, cols = dsa.arange(0, 16), dsa.arange(0, BLOCK)
    at = rows[:, None] * BLOCK + cols[None, :]
    pid = dsa.program_id(0)
    h = dsa.load(x + pid * 16 * BLOCK + at).to(dsa.float32)
    for _ in range(STEPS if STEPS else steps):
        v = h.to(dsa.float16)
        acc = dsa.zeros((16, BLOCK), dsa.float32)
        tile = w + cols[:, None] * BLOCK + cols[None, :]
        for k in range(K):
            acc = dsa.dot(v, dsa.load(tile if POINTERS else tile + k * BLOCK * BLOCK), acc)
            acc += dsa.load(b + (K - 1 - k) * BLOCK + cols)[None, :]
            tile += BLOCK * BLOCK if POINTERS else 0
        h += acc * 0.5
    dsa.store(y + pid * 16 * BLOCK + at, h)


def chain_data(k: int = 3, block: int = 64, programs: int = 2) -> tuple[Any, ...]:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((programs, 16, block)).astype(np.float32)
    w = (rng.standard_normal((k, block, block)) / 20).astype(np.float16)
    b = rng.standard_normal((k, block)).astype(np.float32) / 20
    return x, w, b, np.zeros_like(x)


def chain_exact(x: Any, w: Any, b: Any, steps: int) -> Any:
    h = x.astype(np.float64)
    for _ in range(steps):
        v = h.astype(np.float16).astype(np.float64)
        h = h + 0.5 * (v @ w.sum(0, dtype=np.float64) + b.sum(0, dtype=np.float64))
    return h


@pytest.mark.parametrize("engine", ["reference", "fast", "adversarial"])
@pytest.mark.parametrize("target", ["edge", "center"])
@pytest.mark.parametrize("steps,pointers", [(4, 0), (0, 0), (4, 1)])
def test_engines_compute_the_same_from_resident_tiles(
    engine: str, target: str, steps: int, pointers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSA_EMULATOR", engine)
    x, w, b, y = chain_data()
    compiled, _, _ = chain.prepared((x, w, b, y, 4, 3, 64, steps, pointers), {"target": target}, 2)
    assert "dsa.part" in compiled.text["dsa"]
    assert find_hazards(compiled.module, compiled.target) == []
    report = chain[2](x, w, b, y, 4, 3, 64, steps, pointers, target=target)
    assert np.abs(y - chain_exact(x, w, b, 4)).max() < 2e-2
    once = x.nbytes + y.nbytes + (w.nbytes + b.nbytes) * len(report.cores)
    assert report.hbm_bytes < 2 * once


def test_steps_at_run_time_may_be_none() -> None:
    x, w, b, y = chain_data()
    chain[2](x, w, b, y, 0, 3, 64, 0, 0)
    assert np.array_equal(x, y)
