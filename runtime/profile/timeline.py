"""Pictures over time: how busy engines were in the whole run, and instructions and SRAM slots in a part of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from dsalang._backend.isa.table import QUEUED, Engine

from ..rings import ring_at
from . import svg

if TYPE_CHECKING:
    from . import Profile

WIDTH, LEFT, RIGHT = 1080, 104, 16
_LANE = 30
_SHOWN = 48
"""Instructions of the busiest engine in the part that is shown in detail."""

Scale = Callable[[float], float]


def scale(start: float, end: float) -> Scale:
    """Cycles to horizontal places."""
    span = max(1.0, end - start)
    return lambda time: LEFT + (min(max(time, start), end) - start) / span * (WIDTH - LEFT - RIGHT)


def window(profile: Profile) -> tuple[int, int]:
    """The part of the run to show in detail: from its middle on, or all of a short one."""
    events = profile.core.events
    counts = Counter(event.engine for event in events)
    if not events or max(counts.values()) <= _SHOWN:
        return 0, max(1, profile.core.cycles)
    busiest = max(counts, key=lambda engine: counts[engine])
    of_it = [event for event in events if event.engine is busiest]
    first = max(0, len(of_it) // 2 - _SHOWN // 4)
    return of_it[first].start, of_it[min(len(of_it) - 1, first + _SHOWN // 2)].end


def _axis(
    profile: Profile, to_x: Scale, start: float, end: float, y: float, top: float
) -> list[str]:
    clock = profile.run.target.clock_mhz
    parts = []
    for tick in svg.ticks(start / clock, end / clock):
        x = to_x(tick * clock)
        parts.append(svg.line(x, top, x, y, svg.GRID))
        parts.append(svg.text(x, y + 16, f"{tick:g} µs", "middle", svg.FAINT))
    return parts


def overview(profile: Profile) -> str:
    """How busy each engine was over the whole run, and how much SRAM was in use."""
    cycles, bins = max(1, profile.core.cycles), len(profile.occupancy)
    to_x = scale(0, cycles)
    busy = _busy(profile, bins)
    area = 64
    bottom = 8 + _LANE * len(QUEUED) + 10 + area
    parts = _axis(profile, to_x, 0, cycles, bottom, 8)
    step = (WIDTH - LEFT - RIGHT) / bins
    for row, engine in enumerate(QUEUED):
        y = 8 + row * _LANE
        parts.append(svg.text(LEFT - 10, y + 19, engine.name, "end"))
        parts.append(svg.rect(LEFT, y + 3, WIDTH - LEFT - RIGHT, _LANE - 6, "#f4f6f8"))
        color = svg.ENGINE_COLORS[engine.name]
        for number, share in enumerate(busy[engine]):
            if share > 0:
                height = max(1.0, share * (_LANE - 6))
                words = f"{engine.name} busy {share:.0%}"
                parts.append(
                    svg.rect(
                        LEFT + number * step,
                        y + _LANE - 3 - height,
                        step + 0.3,
                        height,
                        color,
                        words,
                    )
                )
    parts += _occupancy(profile, bottom, area, step)
    first, last = window(profile)
    if (first, last) != (0, cycles):
        x = to_x(first)
        frame = f'fill-opacity="0" stroke="{svg.INK}" stroke-width="1.2"'
        width = max(3.0, to_x(last) - x)
        parts.append(svg.rect(x, 5, width, bottom - 5, "none", "shown below", frame))
    return svg.picture(WIDTH, bottom + 24, parts, "busy engines and SRAM in use over the run")


def _occupancy(profile: Profile, bottom: float, area: float, step: float) -> list[str]:
    capacity = profile.run.target.sram_bytes
    full = min(capacity, max(1, max(profile.occupancy) * 5 // 4))
    outline = [(float(LEFT), bottom)]
    for number, used in enumerate(profile.occupancy):
        y = bottom - used / full * area
        outline += [(LEFT + number * step, y), (LEFT + (number + 1) * step, y)]
    outline.append((float(WIDTH - RIGHT), bottom))
    top = bottom - area
    return [
        svg.rect(LEFT, top, WIDTH - LEFT - RIGHT, area, "#f4f6f8"),
        svg.polygon(outline, "#b9c4e6"),
        svg.polyline(outline[1:-1], "#5b6fb5", 1.3),
        svg.line(LEFT, top, WIDTH - RIGHT, top, svg.FAINT, 1, "4 3") if full == capacity else "",
        svg.text(LEFT - 10, top + 10, svg.size(full), "end", svg.FAINT),
        svg.text(LEFT - 10, bottom - 18, "SRAM", "end"),
        svg.text(LEFT - 10, bottom - 4, "in use", "end"),
    ]


def _busy(profile: Profile, bins: int) -> dict[Engine, list[float]]:
    """Share of each part of the run for which engines were busy."""
    length = max(1, profile.core.cycles) / bins
    busy = {engine: [0.0] * bins for engine in QUEUED}
    for event in profile.core.events:
        row = busy[event.engine]
        for number in range(int(event.start / length), min(bins - 1, int(event.end / length)) + 1):
            low, high = number * length, (number + 1) * length
            row[number] += max(0.0, min(high, event.end) - max(low, event.start)) / length
    return {engine: [min(1.0, share) for share in row] for engine, row in busy.items()}


def detail(profile: Profile) -> str:
    """Instructions and stalls of a part of the run, and below them the slots of SRAM in use at the time."""
    start, end = window(profile)
    to_x = scale(start, end)
    lanes = 8 + _LANE * len(QUEUED)
    memory = _memory_height(profile)
    bottom = lanes + 14 + memory
    parts = _axis(profile, to_x, start, end, bottom, 8)
    for row, engine in enumerate(QUEUED):
        y = 8 + row * _LANE
        parts.append(svg.text(LEFT - 10, y + 19, engine.name, "end"))
        parts.append(svg.rect(LEFT, y + 3, WIDTH - LEFT - RIGHT, _LANE - 6, "#f4f6f8"))
    parts += _waits(profile, to_x, start, end) + _events(profile, to_x, start, end)
    parts += _slots(profile, to_x, (start, end), lanes + 14, memory)
    return svg.picture(WIDTH, int(bottom + 24), parts, "instructions and SRAM slots over time")


def _waits(profile: Profile, to_x: Scale, start: int, end: int) -> list[str]:
    parts = []
    for wait in profile.core.waits:
        if wait.engine in QUEUED and wait.end > start and wait.start < end:
            x, y = to_x(wait.start), 8 + int(wait.engine) * _LANE
            words = f"{wait.engine.name}: {profile.run.words(wait.reason)}, {wait.end - wait.start} cycles"
            width = to_x(wait.end) - x
            parts.append(svg.rect(x, y + 12, width, _LANE - 24, "#d9a3a3", words))
    return parts


def _events(profile: Profile, to_x: Scale, start: int, end: int) -> list[str]:
    parts, image = [], profile.run.image
    for event in profile.core.events:
        if event.end <= start or event.start >= end:
            continue
        template = image.templates[event.template]
        at = ring_at(image, event.address)
        tile = f" {at[0].label}[{at[1]}]" if at else ""
        where = f", line {template.loc.line}" if template.loc else ""
        words = f"{template.instruction.op}{tile}{where}: {event.start:,} to {event.end:,}"
        x, y = to_x(event.start), 8 + int(event.engine) * _LANE
        width = to_x(event.end) - x
        edge = 'stroke="#fff" stroke-width="0.7"'
        color = svg.ENGINE_COLORS[event.engine.name]
        parts.append(svg.rect(x, y + 3, max(0.8, width), _LANE - 6, color, words, edge))
        label = tile.strip() or template.instruction.op
        if width > 6.6 * len(label):
            style = 'font-size="11" pointer-events="none"'
            parts.append(svg.text(x + width / 2, y + 19, label, "middle", "#fff", style))
    return parts


def _memory_height(profile: Profile) -> int:
    return 24 + min(300, 15 * sum(ring.slots for ring in profile.run.image.rings))


def _slots(
    profile: Profile, to_x: Scale, span: tuple[int, int], top: float, height: float
) -> list[str]:
    """Addresses upwards; each slot is a rectangle while it is in use."""
    image = profile.run.image
    used = max(1, image.sram_bytes)
    bottom = top + height

    def to_y(address: int) -> float:
        return bottom - address / used * height

    parts = [svg.rect(LEFT, top, WIDTH - LEFT - RIGHT, height, "#f4f6f8")]
    for number, ring in enumerate(image.rings):
        color = svg.PALETTE[number % len(svg.PALETTE)]
        ring_top = to_y(ring.address + (ring.slots - 1) * ring.stride_bytes + ring.slot_bytes)
        middle = (ring_top + to_y(ring.address)) / 2
        if to_y(ring.address) - ring_top > 9:
            parts.append(svg.text(LEFT - 10, middle + 4, _short(ring.label), "end", color))
    for life in profile.lives:
        if life.end <= span[0] or life.start >= span[1]:
            continue
        ring = image.rings[life.ring]
        address = ring.address + life.slot * ring.stride_bytes
        high, low = to_y(address + ring.slot_bytes), to_y(address)
        words = (
            f"{ring.label}[{life.slot}], {svg.size(ring.slot_bytes)} at {address:#x}: "
            f"{life.start:,} to {life.end:,}"
        )
        x = to_x(life.start)
        edge = 'fill-opacity="0.78" stroke="#fff" stroke-width="0.8"'
        color = svg.PALETTE[life.ring % len(svg.PALETTE)]
        parts.append(
            svg.rect(x, high, to_x(life.end) - x, max(1.0, low - high), color, words, edge)
        )
    return parts


def _short(label: str) -> str:
    return label if len(label) <= 14 else label[:13] + "…"
