"""The error for kernels that do not fit the SRAM."""

from __future__ import annotations

from collections.abc import Sequence

from ..dialects.locations import from_ir
from ..dialects.tile import ints
from ..errors import SramOverflowError
from ..target import Target
from .sram import RingUse, least_bytes, room

_SHOWN = 6


def overflow_error(
    uses: Sequence[RingUse], slots: Sequence[int], target: Target
) -> SramOverflowError:
    """Which buffers are the biggest, from which lines, and by how much tiles must shrink."""
    pairs = [pair for pair in zip(uses, slots, strict=True) if pair[0].fixed is None]
    total = least_bytes(uses, slots, target)
    total = max(total, max(use.bytes * count for use, count in pairs))
    ranked = sorted(pairs, key=lambda pair: -pair[0].bytes * pair[1])
    space = room(uses, target)
    if space < target.sram_bytes:
        return _beside_kept(uses, total, space, target)
    lines = [_describe(use, count) for use, count in ranked[:_SHOWN]]
    if len(ranked) > _SHOWN:
        rest = sum(use.bytes * count for use, count in ranked[_SHOWN:])
        lines.append(f"  {len(ranked) - _SHOWN} smaller buffers: {kib(rest)}")
    message = "\n".join(
        [
            f"the kernel's tiles need {kib(total)} of SRAM at once, target {target.name!r} has "
            f"{kib(target.sram_bytes)}; the biggest are",
            *lines,
        ]
    )
    return SramOverflowError(message, from_ir(ranked[0][0].ring.location), _advice(total, target))


def _beside_kept(
    uses: Sequence[RingUse], total: int, space: int, target: Target
) -> SramOverflowError:
    """The kernel's tiles do not fit beside what it keeps across launches."""
    kept = sorted((use for use in uses if use.fixed is not None), key=lambda use: -use.bytes)
    left = target.sram_bytes - total
    names: dict[str, int] = {}
    for use in kept:
        assert use.ring.kept is not None
        names[use.ring.kept.data] = names.get(use.ring.kept.data, 0) + use.bytes
    fitting = []
    for name, size in sorted(names.items(), key=lambda item: item[1]):
        if size <= left:
            fitting.append(f"{name} ({kib(size)})")
            left -= size
    message = "\n".join(
        [
            f"the kernel's tiles need {kib(total)} of SRAM, and beside what is to stay there {kib(space)} of the "
            f"{kib(target.sram_bytes)} of target {target.name!r} are left; what is to stay:",
            *(_describe(use, 1) for use in kept[:_SHOWN]),
        ]
    )
    advice = f"of the arrays, this would fit: {', '.join(fitting)}" if fitting else "keep no array"
    return SramOverflowError(
        message,
        from_ir(kept[0].ring.location),
        f"{advice}; or use smaller blocks, or a narrower format",
    )


def _describe(use: RingUse, slots: int) -> str:
    shape = "×".join(map(str, ints(use.ring.shape))) or "scalar"
    loc = from_ir(use.ring.location)
    times = f" × {slots} slots" if slots > 1 else ""
    place = f"  {loc}" if loc else ""
    return (
        f"  {kib(use.bytes * slots):>12}  {use.ring.label.data}: {shape} {use.ring.fmt.data}"
        f"{times}{place}"
    )


def _advice(total: int, target: Target) -> str:
    """How many halvings of block sizes bring the total below the capacity."""
    factor, halvings = -(-total // target.sram_bytes), 0
    while 1 << halvings < factor:
        halvings += 1
    if halvings <= 1:
        return "halve one of the block sizes that appear in the biggest shapes"
    return (
        f"tiles must become about {1 << halvings} times smaller: halve the block sizes that appear "
        f"in the biggest shapes {halvings} times in all (two dims halved once count as two)"
    )


def kib(bytes_: int) -> str:
    """Bytes in KiB.

    >>> kib(1536)
    '1.5 KiB'
    """
    return f"{bytes_ / 1024:.1f}".removesuffix(".0") + " KiB"
