"""Ring depths: `python benchmarks/rings.py [--check] [--quick] [NAME …]`.

For HBM latencies and bandwidths around those of `edge`, the slots that the compiler chooses for every ring, and how they compare
with every other choice that fits: `num_stages` from 1 to 6, and each ring with one slot less or up to three more.
Cycles are predicted (`backend/predict`), which is exact on these kernels; what looks best and what is chosen are emulated too.
`--check` fails when another choice is faster by more than 2 %.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import roofline
from rich.console import Console
from rich.table import Table
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from dsalang import Target
from dsalang._backend.dialects import dsa
from dsalang._backend.errors import SramOverflowError
from dsalang._backend.passes.lower import lower
from dsalang._backend.pipeline import passes
from dsalang._backend.predict import predict
from dsalang._jit.compiled import tile_ir
from dsalang._jit.specialize import from_signature
from dsalang._runtime.fast.engine import Program
from dsalang._runtime.memory import Memory

PAGE = Path(__file__).resolve().parents[1] / "docs" / "rings.md"
LATENCIES = (100, 400, 1600)
BANDWIDTHS = (0.25, 1.0, 4.0)
ALLOWED = 0.02
BEFORE, AFTER = (
    ("simplify", "access", "fuse", "place", "hoist", "skew"),
    ("allocate", "sync", "check"),
)


def matmul(target: Target) -> roofline.Shot:
    """1024³, so that a choice is judged in a fraction of a second."""
    shot = roofline.matmul("bf16")(target)
    size = 1024
    values = dict.fromkeys(shot.values, size)
    constants = {**shot.constants, "BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K": 128}
    return replace(shot, grid=(16,), values=values, constants=constants)


def attention(target: Target) -> roofline.Shot:
    """Of 2048 keys."""
    shot = roofline.attention(64)(target)
    values = {**shot.values, "length": 2048}
    return replace(
        shot, grid=(16, 1), values=values, constants={**shot.constants, "BLOCK_M": 128, "BLOCK_N": 256}
    )  # fmt: skip


def tight(target: Target) -> roofline.Shot:
    """The same with tiles so large that not every ring gets the slots it wants."""
    shot = matmul(target)
    blocks = {"BLOCK_M": 512, "BLOCK_N": 512, "BLOCK_K": 256}
    return replace(shot, grid=(4,), constants={**shot.constants, **blocks})


SHOTS = {
    "vector add": roofline.vector_add,
    "softmax": roofline.rows(roofline.kernels.softmax_rows, 0),
    "matmul": matmul,
    "matmul, large tiles": tight,
    "matmul + gelu": roofline.linear_gelu,
    "attention": attention,
}


@dataclass(frozen=True)
class Choice:
    """Slots by ring, and the cycles they give."""

    slots: tuple[int, ...]
    cycles: int


class Kernel:
    """A launch on a target, compiled up to where slots are chosen."""

    def __init__(self, shot: roofline.Shot, target: Target) -> None:
        self.shot, self.target = shot, target
        source = shot.kernel.source
        signature = dict(shot.signature)
        for name, value in shot.values.items():
            signature[name] = "fp32" if isinstance(value, float) else "i32"
        ordered = {p.name: signature[p.name] for p in source.params if p.name in signature}
        self.module = tile_ir(source, from_signature(source, ordered, shot.constants))
        self.names = list(ordered)
        self._run(self.module, BEFORE)

    def _run(self, module: ModuleOp, names: Sequence[str], num_stages: int | None = None) -> None:
        for name, run in passes(self.target, num_stages):
            if name in names:
                run(module)

    def chosen(self, num_stages: int | None = None) -> tuple[int, ...] | None:
        """The compiler's slots; None when `num_stages` does not fit."""
        module = self.module.clone()
        try:
            self._run(module, ("buffer",), num_stages)
        except SramOverflowError:
            return None
        return tuple(ring.slots.value.data for ring in rings(module))

    def finished(self, slots: Sequence[int]) -> ModuleOp | None:
        """The kernel with given slots; None when they do not fit."""
        module = self.module.clone()
        for ring, count in zip(rings(module), slots, strict=True):
            ring.slots = IntegerAttr(count, i64)
        try:
            self._run(module, AFTER)
        except SramOverflowError:
            return None
        return module

    def predicted(self, slots: Sequence[int]) -> Choice | None:
        """What given slots cost."""
        module = self.finished(slots)
        if module is None:
            return None
        values = [int(self.shot.values.get(name, 0)) for name in self.names]
        x, y, z = (*self.shot.grid, 1, 1)[:3]
        return Choice(tuple(slots), predict(module, self.target, values, (x, y, z)).cycles)

    def emulated(self, slots: Sequence[int]) -> int:
        """The same, run without data."""
        module = self.finished(slots)
        assert module is not None
        values = [
            int(self.shot.values.get(name, (number + 1) << 36))
            for number, name in enumerate(self.names)
        ]
        x, y, z = (*self.shot.grid, 1, 1)[:3]
        program = Program(lower(module, self.target), self.target, functional=False)
        return program.run(values, (x, y, z), Memory([])).cycles

    def others(self, slots: tuple[int, ...]) -> Iterator[Choice]:
        """All other choices that fit."""
        trials = {found for n in range(1, 7) if (found := self.chosen(n)) is not None}
        least = least_slots(self.module)
        for number, count in enumerate(slots):
            for other in (count - 1, count + 1, count + 3):
                if least[number] <= other <= self.target.semaphore_max:
                    trials.add((*slots[:number], other, *slots[number + 1 :]))
        for trial in sorted(trials - {slots}):
            choice = self.predicted(trial)
            if choice is not None:
                yield choice


def rings(module: ModuleOp) -> list[dsa.RingOp]:
    return [op for op in module.walk() if isinstance(op, dsa.RingOp)]


def least_slots(module: ModuleOp) -> list[int]:
    """How many slots each ring needs: more than the age of the oldest that is still used."""
    ages: dict[object, int] = {}
    for op in module.walk():
        if isinstance(op, dsa.HeldOp):
            acquire, age = dsa.rotation_of(op.result)
            ages[acquire.ring] = max(age, ages.get(acquire.ring, 0))
    return [1 + ages.get(ring.result, 0) for ring in rings(module)]


def machine(latency: int, bandwidth: float) -> Target:
    edge = Target.by_name("edge")
    rate = int(edge.hbm.bytes_per_second * bandwidth)
    hbm = replace(edge.hbm, latency_cycles=latency, bytes_per_second=rate)
    return replace(edge, name=f"{rate / 1e9:g} GB/s", hbm=hbm)


def page(lines: Sequence[tuple[str, ...]]) -> str:
    """The text of docs/rings.md."""
    head = [
        "# Ring depths",
        "",
        "The slots that the compiler chooses on `edge` with other HBM latencies (cycles) and bandwidths, one number per ring in the",
        "order of declaration, beside the best of all other choices that fit into SRAM: `num_stages` 1 to 6, and each ring with one slot",
        "less, one more and three more. Cycles are emulated. Written by `python benchmarks/rings.py --write`.",
        "",
        "| kernel | latency | HBM | chosen | cycles | best other | cycles | gain |",
        "| --- | ---: | ---: | --- | ---: | --- | ---: | ---: |",
    ]
    return "\n".join([*head, *(f"| {' | '.join(line)} |" for line in lines), ""])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="only kernels whose name contains one of these")
    parser.add_argument("--quick", action="store_true", help="only the corners of the sweep")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true", help="write docs/rings.md")
    options = parser.parse_args()
    lines: list[tuple[str, ...]] = []
    table = Table(title="slots per ring, in order of declaration")
    for column in ("kernel", "latency", "HBM", "chosen", "cycles", "best other", "cycles", "gain"):
        table.add_column(column, justify="left" if column == "kernel" else "right")
    failures = []
    latencies, bandwidths = LATENCIES, BANDWIDTHS
    if options.quick:
        latencies, bandwidths = (LATENCIES[0], LATENCIES[-1]), (BANDWIDTHS[0], BANDWIDTHS[-1])
    for name, make in SHOTS.items():
        if options.names and not any(part in name for part in options.names):
            continue
        for latency in latencies:
            for bandwidth in bandwidths:
                target = machine(latency, bandwidth)
                kernel = Kernel(make(target), target)
                slots = kernel.chosen()
                assert slots is not None
                chosen, tried = kernel.emulated(slots), list(kernel.others(slots))
                best = min(tried, key=lambda choice: choice.cycles)
                cycles = kernel.emulated(best.slots)
                gain = 1 - cycles / chosen
                row = (
                    name, str(latency), target.name, _text(slots), f"{chosen:,}", _text(best.slots),
                    f"{cycles:,}", f"{gain:+.2%}",
                )  # fmt: skip
                table.add_row(*row)
                lines.append(row)
                if gain > ALLOWED:
                    failures.append(
                        f"{name}, {latency} cycles, {target.name}: {_text(best.slots)} is faster than "
                        f"{_text(slots)} by {gain:.1%}"
                    )
    Console(width=130).print(table)
    if options.write:
        PAGE.write_text(page(lines))
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failures and options.check else 0


def _text(slots: Sequence[int]) -> str:
    return " ".join(map(str, slots))


if __name__ == "__main__":
    sys.exit(main())
