"""What a run of the emulated machine tells: times, utilisation, stalls, traffic, the roofline."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsalang._backend import formats
from dsalang._backend.errors import LaunchError
from dsalang._backend.isa.engines import QUEUED, Engine
from dsalang._backend.target import Target

if TYPE_CHECKING:
    from rich.table import Table

    from dsalang._backend.image.model import Image

    from .stats import CoreStats, Reason, Roofline, TrafficByArray


_OF_THE_KERNEL = ("asm", "metadata", "n_regs", "n_spills", "shared")
"""What host code for GPUs asks of a launch, and the compiled kernel answers."""


class Run:
    """A finished run. Sums are over cores."""

    image: Image
    target: Target
    cores: tuple[CoreStats, ...]

    def __init__(self, image: Image, target: Target, cores: tuple[CoreStats, ...]) -> None:
        self.image, self.target, self.cores = image, target, cores

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Run):
            return NotImplemented
        return (self.image, self.target, self.cores) == (other.image, other.target, other.cores)

    __hash__ = None  # type: ignore[assignment]

    launched: tuple[Any, tuple[Any, ...], dict[str, Any], Any] | None = None
    """The kernel, its arguments by position and name, and the grid, where a kernel was launched by its function."""

    @property
    def kernel(self) -> Any:
        """The compiled kernel that ran.

        Raises:
            LaunchError: what ran was an image without a Python function.
        """
        if self.launched is None:
            raise LaunchError(f"the function of {self.image.name} is not known to its report")
        function, args, kwargs, grid = self.launched
        return function.warmup(*args, grid=grid, **kwargs)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """The kernel that ran, to be launched again: what a launch gives in Triton is the compiled kernel."""
        launcher: Callable[..., Any] = self.kernel[grid]
        return launcher

    def __getattr__(self, name: str) -> Any:
        if name in _OF_THE_KERNEL:
            return getattr(self.kernel, name)
        raise AttributeError(f"a run has no {name!r}")

    def __repr__(self) -> str:
        time = f"{self.cycles} cycles, {self.microseconds:.2f} µs"
        return f"<run of {self.image.name} on {self.target.name}: {time}; summary() tells more>"

    @property
    def cycles(self) -> int:
        """Cycles from launch until the slowest core has finished."""
        return max((core.cycles for core in self.cores), default=0)

    @property
    def microseconds(self) -> float:
        """The same as time."""
        return self.target.microseconds(self.cycles)

    @property
    def instructions(self) -> int:
        """Instructions executed, `set` and `wait` not counted."""
        return sum(c.engines[e].instructions for c in self.cores for e in QUEUED)

    def busy(self, engine: Engine) -> int:
        """Busy cycles of an engine."""
        return sum(core.engines[engine].busy for core in self.cores)

    def utilisation(self, engine: Engine | str) -> float:
        """Share of the run for which an engine ("LD", "ST", "MM", "VE", "CORE") was busy, 0 to 1."""
        if isinstance(engine, str):
            if engine not in Engine.__members__:
                names = ", ".join(Engine.__members__)
                raise LaunchError(f"there is no engine {engine!r}", hint=f"engines are {names}")
            engine = Engine[engine]
        total = self.cycles * len(self.cores)
        return self.busy(engine) / total if total else 0.0

    @property
    def hbm_utilisation(self) -> float:
        """Share of the run for which the HBM ports were busy."""
        total = self.cycles * len(self.cores)
        return sum(core.port_busy for core in self.cores) / total if total else 0.0

    def stalls(self, engine: Engine) -> dict[str, int]:
        """Stall cycles of an engine by reason in words, the longest first."""
        merged: dict[str, int] = {}
        for core in self.cores:
            for reason, cycles in core.engines[engine].stalls.items():
                text = self.words(reason)
                merged[text] = merged.get(text, 0) + cycles
        return dict(sorted(merged.items(), key=lambda item: -item[1]))

    def words(self, reason: Reason) -> str:
        """A reason as a person would say it.

        The line is that of the instruction that was waited for.
        """
        name = reason.engine.name if reason.engine is not None else ""
        if reason.what == "queue full":
            return f"queue of {name} full"
        if reason.what != "semaphore":
            return reason.what
        loc = self.image.templates[reason.template].loc if reason.template >= 0 else None
        return f"waiting for {name or 'a credit'}" + (f", line {loc.line}" if loc else "")

    @property
    def hbm(self) -> TrafficByArray:
        """Bytes read and written by kernel argument (by array where the argument is unknown)."""
        from .stats import Traffic, TrafficByArray  # what launches do not need is loaded on demand

        merged = TrafficByArray()
        for core in self.cores:
            for label, traffic in core.traffic.items():
                total = merged.setdefault(label, Traffic())
                total.read += traffic.read
                total.written += traffic.written
        return merged

    @property
    def hbm_bytes(self) -> int:
        """Bytes that HBM served, bursts included."""
        return sum(core.burst_bytes for core in self.cores)

    @property
    def prints(self) -> list[str]:
        """Lines that the kernel printed."""
        return [line for core in self.cores for line in core.prints]

    @property
    def roofline(self) -> Roofline:
        """The run's roofline point; the roof is that of the format it multiplies (or the vector engine's)."""
        from .stats import Roofline

        target = self.target
        operations = sum(sum(core.operations.values()) for core in self.cores)
        tensor = any(core.operations.get(Engine.MM) for core in self.cores)
        per_cycle = (
            2 * tensor_peak(self.image, target)[1] if tensor else target.vector.bytes_per_cycle
        )
        peak = per_cycle * target.cores * target.clock_mhz * 1e6
        intensity = operations / self.hbm_bytes if self.hbm_bytes else float("inf")
        seconds = self.microseconds * 1e-6
        shares = {
            "HBM bandwidth": self.hbm_utilisation,
            "tensor engine": self.utilisation(Engine.MM),
            "vector engine": self.utilisation(Engine.VE),
            "control core": self.utilisation(Engine.CORE),
        }
        return Roofline(
            operations,
            self.hbm_bytes,
            intensity,
            operations / seconds if seconds else 0.0,
            min(peak, intensity * target.hbm.bytes_per_second),
            max(shares, key=lambda name: shares[name]),
        )

    def summary(self, color: bool = False) -> str:
        """The report as text for a terminal."""
        from rich.console import Console  # takes longer to import than many a kernel runs

        out = io.StringIO()
        console = Console(file=out, force_terminal=color, width=100, highlight=False)
        for section in _sections(self):
            console.print(section, markup=False)
        return out.getvalue()

    def timeline(self, path: str | Path) -> Path:
        """Write a Chrome trace (open it in Perfetto or chrome://tracing); the file appears whole or not at all."""
        from . import timeline

        return timeline.write(self, Path(path))


def tensor_peak(image: Image, target: Target) -> tuple[str, int]:
    """The fastest operand format of an image's products and its MACs per cycle; without products the target's."""
    from dsalang._backend.cost import scalar

    rates = target.tensor.macs_per_cycle
    found = set()
    for template in image.templates:
        if template.instruction.op == "mma":
            names = [
                formats.OPERANDS_BY_CODE[scalar(template.instruction.fields, f)].name
                for f in _OPERANDS
            ]
            found.add(min(names, key=lambda name: rates.get(name, 0)))
    known = (found & rates.keys()) or rates.keys()
    name = max(sorted(known), key=lambda fmt: rates[fmt])
    return name, rates[name]


_OPERANDS = ("fmt_a", "fmt_b")


def _sections(run: Run) -> Iterator[str | Table]:
    point, image = run.roofline, run.image
    yield (
        f"{image.name} on {run.target.name}: {run.cycles} cycles, {run.microseconds:.2f} µs, "
        f"{len(run.cores)} core(s), bound by {point.bound}"
    )
    yield _engines(run)
    yield (
        f"HBM: {run.hbm_bytes} bytes in bursts, busy {run.hbm_utilisation:.1%}; "
        f"{point.intensity:.1f} operations/byte, {point.attained / 1e9:.1f} of "
        f"{point.roof / 1e9:.1f} Gop/s"
    )
    yield _memory(run)
    share = image.sram_bytes / run.target.sram_bytes
    yield f"SRAM: {image.sram_bytes} of {run.target.sram_bytes} bytes ({share:.0%})"
    yield _sram(run)


def _table(*columns: str, text: int) -> Table:
    """An empty table; the first `text` columns hold text, the others numbers."""
    from rich.table import Table

    table = Table()
    for position, name in enumerate(columns):
        table.add_column(name, justify="left" if position < text else "right")
    return table


def _engines(run: Run) -> Table:
    table = _table("engine", "instructions", "busy", text=1)
    table.add_column("main stalls (share of the run)")
    total = max(1, run.cycles * len(run.cores))
    for engine in Engine:
        count = sum(core.engines[engine].instructions for core in run.cores)
        worst = list(run.stalls(engine).items())[:3]
        stalls = "; ".join(f"{text} {cycles / total:.0%}" for text, cycles in worst)
        table.add_row(engine.name, str(count), f"{run.utilisation(engine):.1%}", stalls)
    return table


def _memory(run: Run) -> Table:
    table = _table("argument", "bytes read", "bytes written", text=1)
    for label, traffic in run.hbm.items():
        table.add_row(label, str(traffic.read), str(traffic.written))
    return table


def _sram(run: Run) -> Table:
    table = _table("buffer", "tile", "address", "slots", "bytes/slot", "line", text=2)
    for ring in sorted(run.image.rings, key=lambda r: r.address):
        tile = f"{ring.fmt}[{', '.join(map(str, ring.shape))}]"
        line = str(ring.loc.line) if ring.loc else ""
        numbers = (ring.address, ring.slots, ring.slot_bytes)
        table.add_row(ring.label, tile, *map(str, numbers), line)
    return table
