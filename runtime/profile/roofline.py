"""The roofline as a picture: what the machine allows by operations per byte, and where the run stands."""

from __future__ import annotations

from collections.abc import Callable
from math import atan2, ceil, degrees, floor, log10
from typing import TYPE_CHECKING

from ..report import tensor_peak
from . import svg

if TYPE_CHECKING:
    from . import Profile

Place = Callable[[float], float]

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 520, 330, 76, 18, 16, 46


def roofline(profile: Profile) -> str:
    """Log-log; a line for each roof and a dot for the run."""
    run, point = profile.run, profile.run.roofline
    target = run.target
    chip = target.cores * target.clock_mhz * 1e6
    fmt, rate = tensor_peak(run.image, target)
    tensor = 2 * rate * chip
    vector = target.vector.bytes_per_cycle * chip
    bandwidth = float(target.hbm.bytes_per_second)
    intensity = point.intensity if 0 < point.intensity < float("inf") else tensor / bandwidth
    ridge = tensor / bandwidth
    low_x, high_x = (
        floor(log10(min(intensity, vector / bandwidth) / 3)),
        ceil(log10(max(intensity, ridge) * 3)),
    )
    high_y = ceil(log10(tensor * 1.5))
    low_y = floor(log10(min(bandwidth * 10.0**low_x * 3, max(point.attained, 1.0)) / 1.5))

    def to_x(value: float) -> float:
        return LEFT + (log10(value) - low_x) / (high_x - low_x) * (WIDTH - LEFT - RIGHT)

    def to_y(value: float) -> float:
        at = TOP + (high_y - log10(value)) / (high_y - low_y) * (HEIGHT - TOP - BOTTOM)
        return min(at, HEIGHT - BOTTOM)

    parts = _grid(low_x, high_x, low_y, high_y, to_x, to_y)
    start = max(10.0**low_x, 10.0**low_y / bandwidth)
    roof = [
        (to_x(start), to_y(start * bandwidth)),
        (to_x(ridge), to_y(tensor)),
        (to_x(10.0**high_x), to_y(tensor)),
    ]
    parts.append(svg.polyline(roof, svg.INK, 2))
    parts.append(
        svg.text(
            WIDTH - RIGHT - 4,
            to_y(tensor) - 6,
            f"tensor, {fmt}: {svg.quantity(tensor, 'op/s')}",
            "end",
        )
    )
    bend = vector / bandwidth
    parts.append(
        svg.line(to_x(bend), to_y(vector), to_x(10.0**high_x), to_y(vector), svg.FAINT, 1.4, "5 4")
    )
    words = f"vector {svg.quantity(vector, 'op/s')}"
    parts.append(svg.text(WIDTH - RIGHT - 4, to_y(vector) + 15, words, "end", svg.FAINT))
    parts.append(_along(to_x, to_y, start, bandwidth))
    if point.attained > 0:
        x, y = to_x(intensity), to_y(point.attained)
        parts.append(svg.line(x, y, x, to_y(point.roof), "#c44e52", 1.2, "3 3"))
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="#c44e52" stroke="#fff" stroke-width="1.5"/>'
        )
        share = point.attained / point.roof if point.roof else 0.0
        words = f"{svg.quantity(point.attained, 'op/s')} ({share:.0%})"
        left = min(x + 10, WIDTH - RIGHT - 7.6 * len(words))
        parts.append(svg.text(left, y + 20, words, "start", "#c44e52", 'font-weight="600"'))
    return svg.picture(WIDTH, HEIGHT, parts, "roofline")


def _along(to_x: Place, to_y: Place, start: float, bandwidth: float) -> str:
    near, far = start * 1.6, start * 16
    x, y = to_x(near), to_y(near * bandwidth)
    angle = degrees(atan2(to_y(far * bandwidth) - y, to_x(far) - x))
    turn = f'transform="rotate({angle:.1f} {x:.1f} {y:.1f})"'
    return svg.text(x, y - 7, f"HBM {svg.quantity(bandwidth, 'B/s')}", "start", svg.INK, turn)


def _grid(low_x: int, high_x: int, low_y: int, high_y: int, to_x: Place, to_y: Place) -> list[str]:
    parts = []
    bottom = HEIGHT - BOTTOM
    for power in range(low_x, high_x + 1):
        x = to_x(10.0**power)
        parts.append(svg.line(x, TOP, x, bottom, svg.GRID))
        parts.append(svg.text(x, bottom + 17, f"{10.0**power:g}", "middle", svg.FAINT))
    for power in range(low_y, high_y + 1):
        y = to_y(10.0**power)
        parts.append(svg.line(LEFT, y, WIDTH - RIGHT, y, svg.GRID))
        parts.append(svg.text(LEFT - 8, y + 4, svg.quantity(10.0**power, "op/s"), "end", svg.FAINT))
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        svg.text(middle, HEIGHT - 8, "operations per byte of HBM traffic", "middle", svg.FAINT)
    )
    return parts
