"""A profile for a terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from . import Profile

_BLOCKS = " ▁▂▃▄▅▆▇█"
_STALLS = 12


def text(profile: Profile) -> str:
    """Engines, stalls, traffic, SRAM, roofline."""
    run, point = profile.run, profile.run.roofline
    out = io.StringIO()
    console = Console(file=out, width=110, highlight=False)
    console.print(
        f"{run.image.name} on {run.target.name}: {run.cycles:,} cycles, {run.microseconds:,.2f} µs, "
        f"{len(run.cores)} core(s), bound by {point.bound}",
        markup=False,
    )
    console.print(_engines(profile))
    console.print(_stalls(profile))
    console.print(_arrays(profile))
    if run.image.choices:
        console.print(_microkernels(profile))
    console.print(
        f"HBM: {run.hbm_bytes:,} bytes in bursts, busy {run.hbm_utilisation:.1%} of the run; "
        f"{point.intensity:.2f} operations/byte; {point.attained / 1e9:,.1f} of "
        f"{point.roof / 1e9:,.1f} Gop/s under the roofline"
    )
    capacity = run.target.sram_bytes
    most = max(1, *profile.occupancy)
    bars = "".join(_BLOCKS[-(-8 * used // most)] for used in profile.occupancy[::2])
    console.print(
        f"SRAM: {run.image.sram_bytes:,} of {capacity:,} bytes allocated; in use over time, at most "
        f"{most:,}:"
    )
    console.print(f"|{bars}|", markup=False)
    return out.getvalue()


def _total(profile: Profile) -> int:
    return max(1, profile.run.cycles * len(profile.run.cores))


def _engines(profile: Profile) -> Table:
    table = Table(title="engines", title_justify="left")
    for name in ("engine", "instructions", "busy cycles", "busy", "stall cycles", "stalled"):
        table.add_column(name, justify="left" if name == "engine" else "right")
    total = _total(profile)
    for share in profile.engines:
        table.add_row(
            share.engine, f"{share.instructions:,}", f"{share.busy:,}", f"{share.busy / total:.1%}",
            f"{share.stalled:,}", f"{share.stalled / total:.1%}",
        )  # fmt: skip
    return table


def _stalls(profile: Profile) -> Table:
    table = Table(title="where they stood still", title_justify="left")
    for name in ("engine", "reason", "buffer", "line", "cycles", "share"):
        table.add_column(name, justify="right" if name in ("line", "cycles", "share") else "left")
    total = _total(profile)
    for stall in profile.stalls[:_STALLS]:
        table.add_row(
            stall.engine, stall.reason, stall.buffer, str(stall.line or ""), f"{stall.cycles:,}",
            f"{stall.cycles / total:.1%}",
        )  # fmt: skip
    return table


def _microkernels(profile: Profile) -> Table:
    """Where microkernels could run; the cycles are the cost model's for the kernel without and with them."""
    table = Table(title="microkernels", title_justify="left")
    for name in ("line", "op", "microkernel", "runs", "generated", "with it", "why"):
        table.add_column(
            name, justify="right" if name in ("line", "generated", "with it") else "left"
        )
    for choice in profile.run.image.choices:
        cycles = (
            f"{n:,}" if n >= 0 else "-" for n in (choice.generated_cycles, choice.micro_cycles)
        )
        table.add_row(
            str(choice.loc.line), choice.op, choice.kernel, "yes" if choice.ran else "no", *cycles,
            choice.reason,
        )  # fmt: skip
    return table


def _arrays(profile: Profile) -> Table:
    table = Table(title="HBM by array", title_justify="left")
    for name in ("array", "bytes read", "bytes written"):
        table.add_column(name, justify="left" if name == "array" else "right")
    for name, traffic in profile.run.hbm.items():
        table.add_row(name, f"{traffic.read:,}", f"{traffic.written:,}")
    return table
