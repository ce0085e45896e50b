"""SRAM that is too small: `python benchmarks/reuse.py [--check] [--trials N] [NAME …]`.

Kernels on `edge` with SRAM cut to between the least with which they compile and what all their rings want, so that buffers
must share memory or go with fewer slots. The compiler's choice of slots and addresses stands beside the best of many others:
random slots, and random addresses among all that no two live values share. Cycles are predicted (`backend/predict`).
`--check` fails when another choice is faster by more than 2 %.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import rings
from rich.console import Console
from rich.table import Table
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from dsalang import Target
from dsalang._backend.alloc.pack import first_fit
from dsalang._backend.errors import SramOverflowError
from dsalang._backend.passes.sram import LIVES, RingUse, buffers, ring_uses, slot_stride
from dsalang._backend.predict import predict

ALLOWED = 0.02
SHARES = (0.0, 0.15, 0.4, 0.7)
MOST_SLOTS = 4


def linear_gelu(target: Target) -> rings.roofline.Shot:
    """With more than the two blocks of K of the roofline: the compiler does not know how many, and weighs 2 and 16."""
    shot = rings.roofline.linear_gelu(target)
    return replace(shot, values={**shot.values, "K": 4096})


SHOTS = {**rings.SHOTS, "matmul + gelu": linear_gelu}


class Kernel(rings.Kernel):
    """A launch whose addresses can be given, too."""

    def cycles(self, slots: Sequence[int], addresses: Sequence[int]) -> int:
        module = self.module.clone()
        for ring, count, address in zip(rings.rings(module), slots, addresses, strict=True):
            ring.slots, ring.address = IntegerAttr(count, i64), IntegerAttr(address, i64)
        self._run(module, ("sync", "check"))
        return self._predict(module)

    def choice(self) -> tuple[list[int], list[int], int] | None:
        """The compiler's slots, addresses and cycles; None when the kernel does not fit."""
        module = self.module.clone()
        try:
            self._run(module, ("buffer", *rings.AFTER))
        except SramOverflowError:
            return None
        found = rings.rings(module)
        slots = [ring.slots.value.data for ring in found]
        return slots, [ring.address.value.data for ring in found], self._predict(module)

    def uses(self) -> list[RingUse]:
        return ring_uses(next(op for op in self.module.ops if isinstance(op, func.FuncOp)))

    def _predict(self, module: ModuleOp) -> int:
        values = [int(self.shot.values.get(name, 0)) for name in self.names]
        x, y, z = (*self.shot.grid, 1, 1)[:3]
        return predict(module, self.target, values, (x, y, z)).cycles


def others(
    uses: Sequence[RingUse], target: Target, trials: int
) -> Iterator[tuple[list[int], list[int]]]:
    """Random slots and addresses that fit, each once."""
    rng = random.Random(7)
    seen: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
    for _ in range(trials * 40):
        if len(seen) == trials:
            return
        slots = [
            rng.randint(use.least, MOST_SLOTS)
            if len(use.engines) > 1 and rng.random() < 0.7
            else use.least
            for use in uses
        ]
        problem = buffers(uses, slots, [rng.randrange(len(LIVES)) for _ in uses], target)
        rng.shuffle(problem)
        offsets = first_fit(problem)
        addresses = [offsets[str(number)] for number in range(len(uses))]
        key = tuple(slots), tuple(addresses)
        ends = (
            a + slot_stride(use.bytes, target) * n
            for use, n, a in zip(uses, slots, addresses, strict=True)
        )
        if max(ends, default=0) <= target.sram_bytes and key not in seen:
            seen.add(key)
            yield slots, addresses


def sizes(make: object, edge: Target) -> list[int]:
    """SRAM sizes between the least that compiles and what the compiler takes when it has plenty."""
    plenty = replace(edge, sram_bytes=64 << 20)
    kernel = Kernel(make(edge), plenty)  # type: ignore[operator]
    found = kernel.choice()
    assert found is not None
    uses = kernel.uses()
    most = max(
        a + slot_stride(u.bytes, plenty) * n
        for u, n, a in zip(uses, found[0], found[1], strict=True)
    )
    low, high = 0, most
    while high - low > 1024:
        middle = (low + high) // 2
        fits = Kernel(make(edge), replace(edge, sram_bytes=middle)).choice() is not None  # type: ignore[operator]
        low, high = (low, middle) if fits else (middle, high)
    return sorted({int(high + share * (most - high)) // 64 * 64 + 64 for share in SHARES})


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="only kernels whose name contains one of these")
    parser.add_argument("--trials", type=int, default=150)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    table = Table(title="SRAM cut short")
    for column in ("kernel", "SRAM", "chosen", "cycles", "best other", "cycles", "gain"):
        table.add_column(column, justify="left" if column == "kernel" else "right")
    failures = []
    edge = Target.by_name("edge")
    for name, make in SHOTS.items():
        if options.names and not any(part in name for part in options.names):
            continue
        for size in sizes(make, edge):
            target = replace(edge, sram_bytes=size)
            kernel = Kernel(make(edge), target)
            found = kernel.choice()
            assert found is not None
            slots, addresses, chosen = found
            tried = [
                (kernel.cycles(*other), *other)
                for other in others(kernel.uses(), target, options.trials)
            ]
            cycles, other_slots, other_addresses = min(tried, default=found[::-1])
            gain = 1 - cycles / chosen
            table.add_row(
                name, f"{size:,}", rings._text(slots), f"{chosen:,}", rings._text(other_slots),
                f"{cycles:,}", f"{gain:+.2%}",
            )  # fmt: skip
            if gain > ALLOWED:
                print(
                    name, size, slots, addresses, chosen, "|", other_slots, other_addresses, cycles
                )
                failures.append(f"{name}, {size:,} bytes: another choice is faster by {gain:.1%}")
    Console(width=130).print(table)
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failures and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
