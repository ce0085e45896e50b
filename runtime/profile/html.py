"""A profile as HTML: a fragment for notebooks, and a document that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from . import svg
from .roofline import roofline
from .timeline import detail, overview, window

if TYPE_CHECKING:
    from . import Profile

_STALLS = 14
_STYLE = """
.dsa-profile{font:14px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;color:#24292f;
background:#fff;max-width:1120px;margin:0 auto;padding:20px 24px;box-sizing:border-box}
.dsa-profile h1{font-size:22px;margin:0 0 2px}.dsa-profile h2{font-size:15px;margin:26px 0 6px}
.dsa-profile p{margin:2px 0 8px;color:#57606a}
.dsa-profile .cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(112px,1fr));gap:10px;margin:14px 0 4px}
.dsa-profile .card{border:1px solid #dfe3e8;border-radius:8px;padding:8px 12px}
.dsa-profile .card b{display:block;font-size:18px;font-weight:600}.dsa-profile .card span{color:#57606a;font-size:12px}
.dsa-profile table{border-collapse:collapse;width:100%;font-size:13px;background:#fff;color:#24292f}
.dsa-profile th{text-align:left;font-weight:600;color:#57606a;border-bottom:1px solid #d0d7de;padding:3px 8px}
.dsa-profile td{text-align:left;padding:3px 8px;border-bottom:1px solid #eef1f4}
.dsa-profile .n{text-align:right;font-variant-numeric:tabular-nums}
.dsa-profile .two{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:28px}
.dsa-profile .bar{display:flex;height:16px;background:#f4f6f8;border-radius:3px;overflow:hidden;min-width:260px}
.dsa-profile .bar i{display:block;height:100%}
.dsa-profile .key{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:6px}
@media(max-width:800px){.dsa-profile .two{grid-template-columns:1fr}}
"""
_STALL_COLORS = {
    "LD": "#b7c9ee",
    "ST": "#b3dcd9",
    "MM": "#f5cda8",
    "VE": "#c4dfb6",
    "CORE": "#d5cdea",
    "HBM": "#ccd2d8",
}


def document(profile: Profile) -> str:
    """A whole page."""
    title = escape(f"{profile.run.image.name} on {profile.run.target.name}")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"></head><body style="margin:0;background:#fff">'
        f"{fragment(profile)}</body></html>\n"
    )


def fragment(profile: Profile) -> str:
    """The same without the page around it."""
    run, point = profile.run, profile.run.roofline
    title = f"{escape(run.image.name)} <small style='color:#57606a;font-weight:400'>on {escape(run.target.name)}</small>"
    parts = [
        f'<div class="dsa-profile"><style>{_STYLE}</style><h1>{title}</h1>',
        f"<p>{_sentence(profile)}</p>",
        _cards(profile),
        "<h2>Engines</h2>",
        _engines(profile),
    ]
    if profile.core.events:
        clock = run.target.clock_mhz
        first, last = window(profile)
        parts += [
            "<h2>Over the run</h2>", overview(profile),
            f"<h2>From {first / clock:,.2f} to {last / clock:,.2f} µs</h2>",
            "<p>Instructions, stalls (thin) and below them the slots of SRAM while they are in use.</p>",
            detail(profile),
        ]  # fmt: skip
    parts += [
        '<div class="two"><div><h2>Roofline</h2>',
        roofline(profile),
        f"<p>{point.operations:,} operations, {run.hbm_bytes:,} bytes of HBM traffic.</p></div><div>",
        "<h2>HBM by array</h2>",
        _arrays(profile),
        "<h2>SRAM</h2>",
        _rings(profile),
        "</div></div><h2>Where engines stood still</h2>",
        _stalls(profile),
        *(["<h2>Microkernels</h2>", _microkernels(profile)] if run.image.choices else []),
        "</div>",
    ]
    return "".join(parts)


def _sentence(profile: Profile) -> str:
    run, point = profile.run, profile.run.roofline
    share = point.attained / point.roof if point.roof else 0.0
    return (
        f"Bound by the {escape(point.bound)}; {share:.0%} of what its {point.intensity:.3g} operations per "
        f"byte allow. {escape(run.target.description)}."
    )


def _cards(profile: Profile) -> str:
    run = profile.run
    peak = max(profile.occupancy, default=0)
    cards = (
        (_time(run.microseconds), f"{run.cycles:,} cycles at {run.target.clock_mhz:,} MHz"),
        (f"{run.hbm_utilisation:.1%}", "HBM busy"),
        (f"{run.utilisation('MM'):.1%}", "tensor engine busy"),
        (f"{run.utilisation('VE'):.1%}", "vector engine busy"),
        (svg.size(run.hbm_bytes), "through HBM"),
        (svg.size(peak), f"of {svg.size(run.target.sram_bytes)} SRAM in use"),
        (str(len(run.cores)), "core" if len(run.cores) == 1 else "cores"),
    )
    inner = "".join(f'<div class="card"><b>{b}</b><span>{s}</span></div>' for b, s in cards)
    return f'<div class="cards">{inner}</div>'


def _time(microseconds: float) -> str:
    if microseconds < 1000:
        return f"{microseconds:.2f} µs"
    return f"{microseconds / 1000:.2f} ms" if microseconds < 1e6 else f"{microseconds / 1e6:.2f} s"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: int) -> str:
    """A table of escaped cells; the last `numbers` columns hold numbers."""
    text = len(head) - numbers

    def row(cells: Sequence[str], tag: str) -> str:
        inside = (
            f"<{tag}{' class=n' if n >= text else ''}>{cell}</{tag}>"
            for n, cell in enumerate(cells)
        )
        return f"<tr>{''.join(inside)}</tr>"

    return f"<table>{row(head, 'th')}{''.join(row(cells, 'td') for cells in rows)}</table>"


def _engines(profile: Profile) -> str:
    total = max(1, profile.run.cycles * len(profile.run.cores))
    rows = []
    for share in profile.engines:
        color = svg.ENGINE_COLORS[share.engine]
        bar = (
            f'<i style="width:{100 * share.busy / total:.3f}%;background:{color}" title="busy"></i>'
        )
        by_whom: dict[str, int] = {}
        for stall in profile.stalls:
            if stall.engine == share.engine:
                by_whom[stall.waits_for] = by_whom.get(stall.waits_for, 0) + stall.cycles
        for whom, cycles in sorted(by_whom.items(), key=lambda item: -item[1]):
            shade = _STALL_COLORS.get(whom, "#e4e8ec")
            title = f"waiting for {whom or 'nobody'}: {cycles / total:.1%}"
            bar += f'<i style="width:{100 * cycles / total:.3f}%;background:{shade}" title="{title}"></i>'
        key = f'<span class="key" style="background:{color}"></span>{share.engine}'
        rows.append(
            (
                key, f'<div class="bar">{bar}</div>', f"{share.instructions:,}", f"{share.busy:,}",
                f"{share.busy / total:.1%}", f"{share.stalled:,}", f"{share.stalled / total:.1%}",
            )
        )  # fmt: skip
    head = ("engine", "busy, then stalled in the light colour of whom it waits for", "instructions",
            "busy cycles", "busy", "stall cycles", "stalled")  # fmt: skip
    return _table(head, rows, 5)


def _stalls(profile: Profile) -> str:
    total = max(1, profile.run.cycles * len(profile.run.cores))
    rows = [
        (
            stall.engine, escape(stall.reason), escape(stall.buffer), str(stall.line or ""),
            f"{stall.cycles:,}", f"{stall.cycles / total:.1%}",
        )
        for stall in profile.stalls[:_STALLS]
    ]  # fmt: skip
    return _table(("engine", "reason", "buffer", "line", "cycles", "share"), rows, 3)


def _arrays(profile: Profile) -> str:
    rows = [(escape(n), f"{t.read:,}", f"{t.written:,}") for n, t in profile.run.hbm.items()]
    return _table(("array", "bytes read", "bytes written"), rows, 2)


def _microkernels(profile: Profile) -> str:
    rows = []
    for choice in profile.run.image.choices:
        cycles = [
            f"{n:,}" if n >= 0 else "" for n in (choice.generated_cycles, choice.micro_cycles)
        ]
        what = "runs" if choice.ran else "does not run"
        told = [escape(t) for t in (choice.op, choice.kernel, what, choice.reason)]
        rows.append((*told, str(choice.loc.line), *cycles))
    return _table(("op", "microkernel", "", "why", "line", "generated", "with it"), rows, 3)


def _rings(profile: Profile) -> str:
    rows = []
    for number, ring in enumerate(profile.run.image.rings):
        color = svg.PALETTE[number % len(svg.PALETTE)]
        key = f'<span class="key" style="background:{color}"></span>{escape(ring.label)}'
        tile = f"{ring.fmt}[{', '.join(map(str, ring.shape))}]"
        rows.append(
            (
                key,
                tile,
                str(ring.loc.line if ring.loc else ""),
                f"{ring.slots} × {svg.size(ring.slot_bytes)}",
            )
        )
    return _table(("buffer", "tile", "line", "slots"), rows, 2)
