"""Predicted against emulated cycles: `python benchmarks/predict.py [--check] [--write] [NAME …]`.

The kernels of `roofline.py` at several block sizes on three targets. `--check` fails when the median error is above 3 % or
the worst above 10 %; `--write` writes docs/predictions.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import roofline
from rich.console import Console
from rich.table import Table

from dsalang import Target
from dsalang._backend.errors import SramOverflowError
from dsalang._backend.predict import Prediction
from dsalang._jit.compiled import CompiledKernel

PAGE = Path(__file__).resolve().parents[1] / "docs" / "predictions.md"
TARGETS = ("edge", "edge-server", "center")
MEDIAN, WORST = 0.03, 0.10


def variants(shot: roofline.Shot) -> Iterator[roofline.Shot]:
    """The launch with its own block sizes, with smaller ones, and with larger ones where programs remain."""
    yield shot
    blocks = {n: v for n, v in shot.constants.items() if n.startswith(("BLOCK", "ROWS"))}
    fixed = "BLOCK" if "ROWS" in blocks else ""  # the rows must fit into it
    for factor in (0.5, 2.0):
        changed = {n: max(1, int(v * factor)) for n, v in blocks.items() if n != fixed}
        if factor > 1 and "BLOCK_M" in changed:
            changed = {"BLOCK_K": changed["BLOCK_K"]} if "BLOCK_K" in changed else {}
        if "BLOCK_M" in changed and factor < 1:
            scale = 2 if "BLOCK_N" in shot.constants and len(shot.grid) == 2 else 4
            grid = _finer(shot, scale)
        elif set(changed) <= {"BLOCK_K"} or shot.kernel.source.name == "softmax_long":
            grid = shot.grid
        else:
            grid = (ceil(shot.grid[0] / factor), *shot.grid[1:])
        if changed:
            yield dataclasses.replace(shot, grid=grid, constants={**shot.constants, **changed})


def _finer(shot: roofline.Shot, scale: int) -> tuple[int, ...]:
    name = shot.kernel.source.name
    if name == "attention":
        return (shot.grid[0] * 2, shot.grid[1])
    if len(shot.grid) == 2:
        return (shot.grid[0] * 2, shot.grid[1] * 2)
    return (shot.grid[0] * scale,)


def prediction(compiled: CompiledKernel, shot: roofline.Shot) -> tuple[Prediction, float]:
    """The prediction of a launch and the seconds that it took, compiling left out."""
    assert compiled.text["dsa"]  # the IR is made now
    start = time.perf_counter()
    found = compiled.predict(shot.grid, shot.values)
    return found, time.perf_counter() - start


@dataclasses.dataclass(frozen=True)
class Line:
    """A row of the table."""

    name: str
    target: str
    blocks: str
    emulated: int
    predicted: Prediction
    seconds: float

    @property
    def error(self) -> float:
        return abs(self.predicted.cycles - self.emulated) / self.emulated


def lines(names: list[str], targets: list[str]) -> Iterator[Line]:
    for row in roofline.ROWS:
        if names and not any(name in row.name for name in names):
            continue
        for target_name in targets:
            target = Target.by_name(target_name)
            for shot in variants(row.shot(target)):
                try:
                    compiled = compile_shot(shot, target)
                except SramOverflowError:
                    continue
                emulated = emulate(compiled, shot, target)
                predicted, seconds = prediction(compiled, shot)
                blocks = "×".join(
                    str(v) for n, v in shot.constants.items() if n.startswith(("BLOCK", "ROWS"))
                )
                yield Line(row.name, target_name, blocks, emulated, predicted, seconds)


def compile_shot(shot: roofline.Shot, target: Target) -> CompiledKernel:
    signature = dict(shot.signature)
    for name, value in shot.values.items():
        signature[name] = "fp32" if isinstance(value, float) else "i32"
    ordered = [p.name for p in shot.kernel.source.params if p.name in signature]
    compiled: CompiledKernel = shot.kernel.compile(
        {name: signature[name] for name in ordered}, constants=shot.constants, target=target
    )
    return compiled


def emulate(compiled: CompiledKernel, shot: roofline.Shot, target: Target) -> int:
    """Cycles of a run without data."""
    from dsalang._runtime.fast.engine import Program
    from dsalang._runtime.memory import Memory

    args = []
    for number, argument in enumerate(compiled.image.arguments):
        is_value = argument.name in shot.values and not argument.is_pointer
        args.append(int(shot.values[argument.name]) if is_value else (number + 1) << 36)
    x, y, z = (*shot.grid, 1, 1)[:3]
    program = Program(compiled.image, target, functional=False)
    return program.run(args, (x, y, z), Memory([])).cycles


def page(found: list[Line]) -> str:
    """The text of docs/predictions.md."""
    errors = [line.error for line in found]
    rows = [
        f"| {x.name} | {x.target} | {x.blocks} | {x.predicted.cycles:,} | {x.emulated:,} | {x.error:.2%} | "
        f"{x.predicted.bound} | {x.predicted.walked:,} of {x.predicted.walked + x.predicted.left_out:,} |"
        for x in found
    ]
    head = [
        "# Predictions",
        "",
        "`compiled.predict(grid, values)` says how long a launch takes without running it: loops are walked on the rules of",
        "machine time until they repeat themselves, and the rest of their iterations is taken at that pace. The table is",
        "written by `python benchmarks/predict.py --write`; blocks are in the order of the kernel's parameters.",
        "",
        f"{len(found)} launches: median error {median(errors):.2%}, worst {max(errors):.2%}.",
        "",
        "| kernel | target | blocks | predicted | emulated | error | bound by | iterations walked |",
        "| --- | --- | --- | ---: | ---: | ---: | --- | ---: |",
    ]
    return "\n".join([*head, *rows, ""])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="only rows whose name contains one of these")
    parser.add_argument("--target", action="append", help=f"default: {', '.join(TARGETS)}")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true", help="write docs/predictions.md")
    options = parser.parse_args()
    table = Table(title="cycles")
    for column in ("kernel", "target", "blocks", "predicted", "emulated", "error", "walked", "ms"):
        table.add_column(column, justify="left" if column in ("kernel", "target") else "right")
    found = []
    for line in lines(options.names, options.target or list(TARGETS)):
        found.append(line)
        p = line.predicted
        table.add_row(
            line.name, line.target, line.blocks, f"{p.cycles:,}", f"{line.emulated:,}",
            f"{line.error:.2%}", f"{p.walked:,}/{p.walked + p.left_out:,}", f"{line.seconds * 1e3:.0f}",
        )  # fmt: skip
    Console(width=120).print(table)
    errors = [line.error for line in found]
    print(f"{len(found)} launches: median error {median(errors):.2%}, worst {max(errors):.2%}")
    if options.write:
        PAGE.write_text(page(found))
    bad = median(errors) > MEDIAN or max(errors) > WORST
    return 1 if bad and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
