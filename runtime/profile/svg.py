"""The few pieces of SVG that the pictures are made of."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from math import ceil, floor, log10

ENGINE_COLORS = {
    "LD": "#4878cf", "ST": "#3aa6a0", "MM": "#e8883a", "VE": "#6aa84f", "CORE": "#8e7cc3", "HBM": "#7f8c9b",
}  # fmt: skip
PALETTE = (
    "#4878cf", "#e8883a", "#6aa84f", "#c44e52", "#8e7cc3", "#a0785a", "#d988bc", "#7f8c9b", "#b8a53a",
    "#3aa6a0",
)  # fmt: skip
INK, FAINT, GRID = "#24292f", "#6b7580", "#e4e8ec"


def picture(width: int, height: int, parts: Iterable[str], label: str) -> str:
    """A whole picture that scales with the page."""
    return (
        f'<svg viewBox="0 0 {width} {height}" width="100%" role="img" aria-label="{escape(label)}" '
        f'xmlns="http://www.w3.org/2000/svg" font-family="inherit" font-size="12">{"".join(parts)}</svg>'
    )


def rect(
    x: float, y: float, width: float, height: float, fill: str, title: str = "", extra: str = ""
) -> str:
    """A filled rectangle; the title shows when the mouse is over it."""
    inside = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(0.0, width):.2f}" height="{height:.2f}" '
        f'fill="{fill}" {extra}>{inside}</rect>'
    )


def text(
    x: float, y: float, words: str, anchor: str = "start", fill: str = INK, extra: str = ""
) -> str:
    """Words at a point of their base line; `anchor` is start, middle or end."""
    return f'<text x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}" fill="{fill}" {extra}>{escape(words)}</text>'


def line(
    x1: float, y1: float, x2: float, y2: float, color: str, width: float = 1, dash: str = ""
) -> str:
    """A straight line."""
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}" stroke="{color}" '
        f'stroke-width="{width}"{dashes}/>'
    )


def polygon(points: Iterable[tuple[float, float]], fill: str, extra: str = "") -> str:
    """A filled outline."""
    joined = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
    return f'<polygon points="{joined}" fill="{fill}" {extra}/>'


def polyline(points: Iterable[tuple[float, float]], color: str, width: float = 2) -> str:
    """Joined lines."""
    joined = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
    return f'<polyline points="{joined}" fill="none" stroke="{color}" stroke-width="{width}"/>'


def ticks(low: float, high: float, most: int = 8) -> list[float]:
    """Round numbers from low to high, at most about `most`."""
    span = max(high - low, 1e-12)
    power = 10.0 ** floor(log10(span / most))
    step = next(power * n for n in (1, 2, 5, 10) if span / (power * n) <= most)
    first = ceil(low / step)
    return [step * n for n in range(first, floor(high / step + 1e-9) + 1)]


def quantity(value: float, unit: str) -> str:
    """A number with a prefix: 3.2 Gop/s.

    >>> quantity(2_500_000, "op")
    '2.5 Mop'
    """
    prefixes = ["P", "T", "G", "M", "k", ""]
    while abs(value) >= 999.5 and len(prefixes) > 1:
        value /= 1000
        prefixes.pop()
    return f"{value:.3g} {prefixes[-1]}{unit}"


def size(count: int) -> str:
    """Bytes in KiB or MiB where they are many.

    >>> size(65536), size(100)
    ('64 KiB', '100 B')
    """
    if count >= 1 << 20:
        return f"{count / (1 << 20):.4g} MiB"
    return f"{count / 1024:.4g} KiB" if count >= 1024 else f"{count} B"
