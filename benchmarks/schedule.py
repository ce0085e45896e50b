"""What fixed issue cycles are worth: `python benchmarks/schedule.py [--check] [--target NAME] [NAME …]`.

The kernels of the suite on the reference engine with their data, and those of the roofline table without data:
cycles with flags, cycles of the static schedule, the least that any schedule of the same instructions takes, and the
sets and waits left out. The engine fails when a run is not the schedule to the cycle. `--check` fails and names
every kernel whose static schedule is slower than flags, or whose bits differ.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import roofline
from rich.console import Console
from rich.table import Table
from suite import CASES

import dsalang as dsa
from dsalang import Target
from dsalang._jit.compiled import CompiledKernel, compile_kernel
from dsalang._jit.specialize import from_signature


@dataclass(frozen=True)
class Line:
    """A kernel on a target: cycles with flags as run, cycles of the static schedule as run, and whether the
    bits are the same (None: run without data). `worst` is with flags and all elements of gathers, scatters
    and atomics counted, which is what a schedule has to count.
    """

    name: str
    target: str
    flags: int
    static: int
    worst: int
    bound: int
    dropped: int
    same: bool | None
    seconds: float

    @property
    def slower(self) -> bool:
        """More cycles than with flags. Where those were fewer because elements were masked off, data decided."""
        return self.static > max(self.flags, self.worst if self.flags < self.worst else 0)


def suite_lines(names: list[str], target: str) -> Iterator[Line]:
    """The kernels of the suite whose control flow does not depend on data."""
    for name, make in CASES.items():
        if names and not any(n in name for n in names):
            continue
        case = make()
        clean = [out.copy() for out in case.outputs]
        flags = case.launch(target=target)
        bits = [out.tobytes() for out in case.outputs]
        for out, old in zip(case.outputs, clean, strict=True):
            out[...] = old
        start = time.perf_counter()
        try:
            kernel = case.kernel.warmup(
                *case.args, grid=case.grid, **case.meta, target=target, schedule="static"
            )
        except dsa.CompileError as error:
            print(f"{name} has no static schedule: {error.message}")
            continue
        seconds = time.perf_counter() - start
        static = case.launch(target=target, schedule="static")
        same = [out.tobytes() for out in case.outputs] == bits
        yield _line(name, kernel, flags.cycles, static.cycles, same, seconds)


def _line(
    name: str, kernel: CompiledKernel, flags: int, static: int, same: bool | None, seconds: float
) -> Line:
    schedule = kernel.schedule
    assert schedule is not None
    return Line(
        name=name,
        target=kernel.target.name,
        flags=flags,
        static=static,
        worst=schedule.dynamic_cycles,
        bound=schedule.bound_cycles,
        dropped=schedule.flags_dropped,
        same=same,
        seconds=seconds,
    )


def roofline_lines(names: list[str], target: Target) -> Iterator[Line]:
    """The kernels of the roofline table."""
    for row in roofline.ROWS:
        if names and not any(n in row.name for n in names):
            continue
        shot = row.shot(target)
        signature = dict(shot.signature)
        for name, value in shot.values.items():
            signature[name] = "fp32" if isinstance(value, float) else "i32"
        source = shot.kernel.source
        ordered = {p.name: signature[p.name] for p in source.params if p.name in signature}
        spec = from_signature(source, ordered, shot.constants)
        integers = {name: v for name, v in shot.values.items() if not isinstance(v, float)}
        x, y, z = (*shot.grid, 1, 1)[:3]
        start = time.perf_counter()
        image = compile_kernel(source, replace(spec, grid=(x, y, z), fixed=integers), target)
        seconds = time.perf_counter() - start
        flagged = compile_kernel(source, spec, target)
        flags = roofline.without_data(flagged, shot, target).cycles
        static = roofline.without_data(image, shot, target).cycles
        kernel = CompiledKernel(source, spec, target, image)
        yield _line(row.name, kernel, flags, static, None, seconds)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="only kernels whose name contains one of these")
    parser.add_argument("--target", action="append", help="default: edge and center")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    table = Table(title="static schedules")
    for column in (
        "kernel",
        "target",
        "flags",
        "static",
        "saved",
        "at least",
        "flags dropped",
        "s",
    ):
        table.add_column(column, justify="left" if column in ("kernel", "target") else "right")
    failures = []
    for name in options.target or ("edge", "center"):
        target = Target.by_name(name)
        for lines in (suite_lines(options.names, name), roofline_lines(options.names, target)):
            for line in lines:
                saved = 1 - line.static / line.flags
                table.add_row(
                    line.name, name, f"{line.flags:,}", f"{line.static:,}", f"{saved:.1%}",
                    f"{line.bound:,}", f"{line.dropped:,}", f"{line.seconds:.1f}",
                )  # fmt: skip
                if line.slower:
                    failures.append(f"{line.name} on {name}: {line.static} > {line.flags} cycles")
                if line.same is False:
                    failures.append(f"{line.name} on {name}: other bits than with flags")
    Console(width=110).print(table)
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failures and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
