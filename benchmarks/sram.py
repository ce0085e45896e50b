"""Peak SRAM of kernels beside the live-range lower bound: `python benchmarks/sram.py [--check] [--target NAME]`.

The bound is the most bytes that are alive at one point of the program: all slots of a ring with several for the whole loop that it turns
in, a single slot from its first write to its last read. While SRAM lasts, the allocator keeps buffers apart that need not be, which
costs peak and saves time; `tight` is the same kernel on the least SRAM that its slots fit into. `--check` fails when the
median of the kernels is more than 5 % above the bound.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from rich.console import Console
from rich.table import Table
from suite import CASES
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, i64

from dsalang import Target
from dsalang._backend.dialects import parse_ir
from dsalang._backend.errors import SramOverflowError
from dsalang._backend.passes.allocate import allocate
from dsalang._backend.passes.sram import RingUse, ring_uses, slot_stride

ALLOWED = 1.05


def lower_bound(uses: list[RingUse], target: Target) -> int:
    """The most bytes alive at one position."""
    changes: dict[int, int] = {}
    for use in uses:
        slots = use.ring.slots.value.data
        first, last = use.loop_wide if slots > 1 else use.exact
        size = slots * slot_stride(use.bytes, target)
        changes[first] = changes.get(first, 0) + size
        changes[last + 1] = changes.get(last + 1, 0) - size
    most = now = 0
    for position in sorted(changes):
        now += changes[position]
        most = max(most, now)
    return most


def peak(uses: list[RingUse], target: Target) -> int:
    """One past the last byte in use."""
    return max(
        use.ring.address.value.data
        + (use.ring.slots.value.data - 1) * slot_stride(use.bytes, target)
        + use.bytes
        for use in uses
    )


def tight_peak(text: str, target: Target, bound: int) -> int:
    """The peak on the least SRAM in which the allocator places the rings, to 64 bytes."""
    low, high = bound, target.sram_bytes
    best = high
    while low <= high:
        size = (low + high) // 2 // 64 * 64
        module = parse_ir(text)
        kernel = next(op for op in module.ops if isinstance(op, func.FuncOp))
        for use in ring_uses(kernel):
            use.ring.address = IntegerAttr(-1, i64)
        small = dataclasses.replace(target, sram_bytes=size)
        try:
            allocate(module, small)
        except SramOverflowError:
            low = size + 64
            continue
        best = min(best, peak(ring_uses(kernel), small))
        high = size - 64
    return best


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--target", default="edge")
    options = parser.parse_args()
    target = Target.by_name(options.target)
    table = Table(title=f"peak SRAM on {target.name}, bytes")
    for column in ("kernel", "bound", "peak", "over", "tight", "over"):
        table.add_column(column, justify="left" if column == "kernel" else "right")
    wide, tight = [], []
    for name, make in CASES.items():
        case = make()
        compiled = case.kernel.warmup(*case.args, grid=case.grid, **case.meta, target=target)
        text = compiled.text["dsa"]
        kernel = next(op for op in parse_ir(text).ops if isinstance(op, func.FuncOp))
        uses = ring_uses(kernel)
        bound = lower_bound(uses, target)
        found, least = peak(uses, target), tight_peak(text, target, bound)
        wide.append(found / bound)
        tight.append(least / bound)
        table.add_row(
            name, f"{bound:,}", f"{found:,}", f"{found / bound - 1:.1%}", f"{least:,}",
            f"{least / bound - 1:.1%}",
        )  # fmt: skip
    Console().print(table)
    medians = {"peak": statistics.median(wide), "tight": statistics.median(tight)}
    failures = [
        f"{what}: median {m - 1:.1%} above the bound" for what, m in medians.items() if m > ALLOWED
    ]
    print(", ".join(f"{what}: median {m - 1:+.1%}" for what, m in medians.items()))
    for failure in failures:
        print(f"FAILED {failure}, at most {ALLOWED - 1:.0%}", file=sys.stderr)
    return 1 if failures and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
