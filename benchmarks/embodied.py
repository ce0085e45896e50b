"""Embodied workloads at batch 1 on the emulated machine: what residency, one padded image and a KV cache cost.

    python benchmarks/embodied.py [--target edge] [--check]

Every result is compared with float64. `--check` fails on any of these (figures for `edge`, where HBM sets the pace):
    chain        a chain of 1-row products takes more than 1/0.85 of its weights' time at HBM's bandwidth
    flow head    ten steps with resident weights move less than 8 times fewer bytes, or take less than 3 times
                 fewer cycles, than without
    flow steps   of ten launches in a dsa.resident block, more than the first load weights
    embodiments  other action dims compile another image
    decode       attention over a KV cache takes more than 1/0.85 of the cache's time at HBM's bandwidth
    prefix       a KV block that stays resident is read from HBM more than once
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from embodied_kernels import chain, decode_attention, flow_head, flow_step
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import dsalang as dsa

Array = NDArray[Any]
F64 = np.float64


@dataclass(frozen=True)
class Line:
    """A row of the table; `bad` says what is short, empty when nothing is."""

    name: str
    cycles: int
    bytes: int
    what: str
    error: float
    bad: str = ""


def normal(seed: int, *shape: int, scale: float = 1.0, dtype: Any = np.float16) -> Array:
    """Repeatable data."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(dtype)


def share_of_hbm(report: Any, moved: int) -> float:
    """Which part of the time HBM needs for some bytes alone."""
    target = report.target
    return moved / target.hbm.bytes_per_second * 1e6 / float(report.microseconds)


def chain_line(target: str) -> Line:
    """One row through four products of 512 and 2048."""
    pairs, d, h = 2, 512, 2048
    x, y = normal(0, d), np.zeros(d, np.float16)
    w = normal(1, pairs, 2, d * h)
    w[:, 0] *= np.float16(d**-0.5)
    w[:, 1] *= np.float16(h**-0.5)
    report = chain[1](x, w, y, pairs, d, h, 256, target=target)
    exact = x.astype(F64)
    for up, down in w.astype(F64):
        exact = np.maximum(exact @ up.reshape(d, h), 0) @ down.reshape(h, d)
    share = share_of_hbm(report, w.nbytes)
    bad = f"{share:.0%} of HBM's bandwidth" if share < 0.85 else ""
    what = f"{share:.1%} of HBM's bandwidth"
    return Line("chain", report.cycles, report.hbm_bytes, what, worst(y, exact), bad)


LAYERS, M, A, D, H, BLOCK, STEPS = 3, 16, 32, 256, 1024, 256, 10
SIZES = {"LAYERS": LAYERS, "M": M, "A": A, "D": D, "H": H, "BLOCK": BLOCK}


@dataclass
class Head:
    """A flow-matching head's weights, and what they compute."""

    action_dim: int = A

    def __post_init__(self) -> None:
        a = self.action_dim
        self.noise = normal(2, M, a, dtype=np.float32)
        self.condition = normal(3, D, scale=0.1, dtype=np.float32)
        self.w_in, self.w_out = normal(4, a, D, scale=a**-0.5), normal(5, D, a, scale=D**-0.5)
        self.w_up = normal(6, LAYERS, D, H, scale=D**-0.5)
        self.w_down = normal(7, LAYERS, H, D, scale=H**-0.5)
        self.actions = np.zeros_like(self.noise)

    def exact(self) -> Array:
        """All steps in float64."""
        x = self.noise.astype(F64)
        for step in range(STEPS):
            h = x @ self.w_in.astype(F64) + self.condition.astype(F64) * (1 + step / STEPS)
            for up, down in zip(self.w_up.astype(F64), self.w_down.astype(F64)):
                u = h @ up
                h = h + u / (1 + np.exp(-u)) @ down
            x = x + h @ self.w_out.astype(F64) / STEPS
        return x

    def run(self, target: str, **options: Any) -> Any:
        """All steps in one launch."""
        weights = (self.w_in, self.w_up, self.w_down, self.w_out)
        return flow_head[1](
            self.noise, self.condition, *weights, self.actions, STEPS, *SIZES.values(),
            target=target, **options,
        )  # fmt: skip

    def arguments(self, step: int) -> tuple[Any, ...]:
        """Of a launch of one step."""
        t = (step / STEPS, 1 / STEPS)
        weights = (self.w_in, self.w_up, self.w_down, self.w_out)
        x = self.actions if step else self.noise
        return (x, self.condition, *t, *weights, self.actions, self.action_dim)


def flow_lines(target: str) -> Iterator[Line]:
    """Ten steps in one kernel, without and with resident weights."""
    head = Head()
    exact = head.exact()
    plain = head.run(target, resident=False)
    yield Line("flow head, not resident", plain.cycles, plain.hbm_bytes, _weights(plain, head),
               worst(head.actions, exact))  # fmt: skip
    kept = head.run(target)
    traffic, time = plain.hbm_bytes / kept.hbm_bytes, plain.cycles / kept.cycles
    short = []
    if traffic < 8:
        short.append(f"only {traffic:.1f}× less HBM traffic")
    if time < 3:
        short.append(f"only {time:.1f}× fewer cycles")
    what = f"{_weights(kept, head)}; {traffic:.2f}× less traffic, {time:.2f}× fewer cycles"
    yield Line("flow head, resident", kept.cycles, kept.hbm_bytes, what,
               worst(head.actions, exact), ", ".join(short))  # fmt: skip


def _weights(report: Any, head: Head) -> str:
    read = sum(report.hbm[name].read for name in ("w_up", "w_down") if name in report.hbm)
    return f"weights read {read / (head.w_up.nbytes + head.w_down.nbytes):g}×"


def steps_lines(target: str) -> Iterator[Line]:
    """Ten steps as ten launches; and other embodiments with the same image."""
    head = Head()
    step_kernel = dsa.jit(do_not_specialize=["action_dim"])(flow_step.fn)
    for name, arrays in (("not resident", ()), ("resident", (head.w_up, head.w_down))):
        cycles, moved, loads = 0, 0, 0
        with dsa.resident(*arrays) if arrays else nullcontext():
            for step in range(STEPS):
                report = step_kernel[1](*head.arguments(step), **SIZES, target=target)
                cycles, moved = cycles + report.cycles, moved + report.hbm_bytes
                loads += report.hbm_bytes > head.w_up.nbytes
        bad = f"{loads} launches loaded weights" if loads != (1 if arrays else STEPS) else ""
        what = f"{loads} of {STEPS} launches load weights"
        yield Line(
            f"flow steps, {name}", cycles, moved, what, worst(head.actions, head.exact()), bad
        )
    images = set()
    worst_of_all, cycles, moved, loads = 0.0, 0, 0, 0
    with dsa.resident(head.w_up, head.w_down):
        for dim in (7, 14, 24, 32):
            body = Head(dim)
            body.w_up, body.w_down = head.w_up, head.w_down
            for step in range(STEPS):
                report = step_kernel[1](*body.arguments(step), **SIZES, target=target)
                cycles, moved = cycles + report.cycles, moved + report.hbm_bytes
                loads += report.hbm_bytes > head.w_up.nbytes
            compiled = step_kernel[1].warmup(*body.arguments(1), **SIZES, target=target)
            images.add(id(compiled.image))
            worst_of_all = max(worst_of_all, worst(body.actions, body.exact()))
    what = f"dims 7, 14, 24, 32: {len(images)} image, {loads} of {4 * STEPS} launches load weights"
    bad = what if len(images) != 1 or loads != 1 else ""
    yield Line("embodiments", cycles, moved, what, worst_of_all, bad)


def decode_line(target: str) -> Line:
    """8 key-value heads of 4 queries each, 2000 tokens of a cache of 2048."""
    heads, group, dim, cache, length = 8, 4, 64, 2048, 2000
    q = normal(8, heads, group, dim)
    k, v = normal(9, heads, cache, dim), normal(10, heads, cache, dim)
    out = np.zeros(q.shape, np.float32)
    report = decode_attention[heads](
        q, k, v, out, dim**-0.5, length, group, dim, cache, 512, target=target
    )
    moved = 2 * heads * length * dim * 2
    share = share_of_hbm(report, moved)
    bad = f"{share:.0%} of HBM's bandwidth" if share < 0.85 else ""
    what = f"{share:.1%} of HBM's bandwidth, {moved / report.hbm_bytes:.1%} of the traffic is the cache"
    error = worst(out, attention(q, k, v, length))
    return Line("decode attention", report.cycles, report.hbm_bytes, what, error, bad)


def prefix_line(target: str) -> Line:
    """The same over a short prefix that ten steps attend to."""
    heads, group, dim, cache = 4, 4, 64, 512
    k, v = normal(12, heads, cache, dim), normal(13, heads, cache, dim)
    cycles, moved, error, reads = 0, 0, 0.0, 0
    kernel = dsa.jit(resident=("k", "v"))(decode_attention.fn)
    for step in range(STEPS):
        q, out = normal(20 + step, heads, group, dim), np.zeros((heads, group, dim), np.float32)
        report = kernel[heads](
            q, k, v, out, dim**-0.5, 500, group, dim, cache, 512, FULL=True, target=target
        )
        cycles, moved = cycles + report.cycles, moved + report.hbm_bytes
        reads += report.hbm_bytes > k.nbytes
        error = max(error, worst(out, attention(q, k, v, 500)))
    bad = f"read {reads} times" if reads != 1 else ""
    return Line("prefix attention, resident", cycles, moved, f"cache read {reads}×", error, bad)


def attention(q: Array, k: Array, v: Array, length: int) -> Array:
    """In float64."""
    scores = (
        np.einsum("hgd,hnd->hgn", q.astype(F64), k[:, :length].astype(F64)) * q.shape[-1] ** -0.5
    )
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hgn,hnd->hgd", p / p.sum(-1, keepdims=True), v[:, :length].astype(F64))


def worst(got: Array, exact: Array) -> float:
    """The largest error, relative to the larger of 1 and the value."""
    return float(np.max(np.abs(got.astype(F64) - exact) / np.maximum(1, np.abs(exact))))


TOLERANCE = 1e-2
"""Activations are rounded to fp16 between products."""


def lines(target: str) -> Iterator[Line]:
    """All rows."""
    yield chain_line(target)
    yield from flow_lines(target)
    yield from steps_lines(target)
    yield decode_line(target)
    yield prefix_line(target)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--target", default="edge")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    table = Table(title=f"embodied workloads on {options.target}")
    for column in ("workload", "cycles", "HBM bytes", "", "error"):
        table.add_column(column, justify="left" if column in ("workload", "") else "right")
    failures = []
    for line in lines(options.target):
        error = f"{line.error:.1e}"
        table.add_row(line.name, f"{line.cycles:,}", f"{line.bytes:,}", line.what, error)
        if line.bad:
            failures.append(f"{line.name}: {line.bad}")
        if not line.error <= TOLERANCE:
            failures.append(f"{line.name}: error {error}")
    Console(width=130).print(table)
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failures and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
