"""`schedule="static"` and `deadline_us`: what they ask for, and what a compiled schedule looks like."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dsalang._backend.errors import CompileError, LaunchError, Loc

from .arguments import Arguments
from .launch import Grid, grid_of
from .specialize import whole_numbers

if TYPE_CHECKING:
    from dsalang._backend.image.model import Image
    from dsalang._backend.image.schedule import Row
    from dsalang._backend.target import Target

    from .source import KernelSource
    from .specialize import Specialization

SCHEDULES = ("dynamic", "static")


@dataclass(frozen=True)
class Request:
    """What a kernel or a launch asks for; None leaves it to the kernel's decorator."""

    schedule: str | None = None
    deadline_us: float | None = None

    @staticmethod
    def of(schedule: Any, deadline_us: Any) -> Request:
        """Options as the user wrote them. Raises LaunchError for values that are not allowed."""
        if schedule is not None and schedule not in SCHEDULES:
            allowed = " or ".join(f'"{name}"' for name in SCHEDULES)
            raise LaunchError(
                f"schedule={schedule!r} is not allowed", hint=f"schedule must be {allowed}"
            )
        if deadline_us is not None:
            number = isinstance(deadline_us, (int, float)) and not isinstance(deadline_us, bool)
            if not number or not 0 < deadline_us < float("inf"):
                raise LaunchError(
                    f"deadline_us={deadline_us!r} is not allowed",
                    hint="it is a number of microseconds above 0",
                )
        return Request(schedule, deadline_us)

    def over(self, other: Request) -> Request:
        """This one, completed by another. Raises LaunchError for a deadline that nothing can promise."""
        merged = Request(
            self.schedule or other.schedule or "dynamic",
            other.deadline_us if self.deadline_us is None else self.deadline_us,
        )
        if merged.deadline_us is not None and not merged.static:
            raise LaunchError(
                f"deadline_us={merged.deadline_us} without a static schedule",
                hint='only schedule="static" guarantees a latency',
            )
        return merged

    @property
    def static(self) -> bool:
        """Whether issue cycles are fixed at compile time."""
        return self.schedule == "static"


def fixed(spec: Specialization, arguments: Arguments, grid: Grid) -> Specialization:
    """A specialisation for a static schedule: for one grid, and for the values of all integers."""
    values = whole_numbers(arguments, spec.signature)
    return replace(spec, grid=grid, fixed=values)


def variants(spec: Specialization) -> Iterator[Specialization]:
    """What to compile for a specialisation. For a static schedule with values of integers two ways compete:
    values as constants in the code, and the code for any values scheduled for these."""
    yield spec
    if spec.fixed:
        yield spec.folded()


def shortest(images: Iterable[Image]) -> Image:
    """The image that is done first, of one or more."""
    return min(images, key=lambda image: max(image.timing.cycles, default=0) if image.timing else 0)


def compiled_grid(wanted: Request, grid: Any, constants: Mapping[str, Any]) -> Grid | None:
    """The grid that `compile` is for: one with a static schedule, none otherwise. Raises LaunchError."""
    if not wanted.static:
        return None
    if grid is None:
        raise LaunchError(
            'schedule="static" without a grid',
            hint="a static schedule is for one grid: pass grid=(programs,) to compile",
        )
    return grid_of(grid, constants)


def check_deadline(
    image: Image, target: Target, deadline_us: float | None, source: KernelSource
) -> None:
    """Raise CompileError when a kernel's guaranteed latency is above its deadline."""
    if deadline_us is None or image.timing is None:
        return
    schedule = Schedule(image, target)
    if schedule.microseconds <= deadline_us:
        return
    over = schedule.microseconds - deadline_us
    least = target.microseconds(max(image.timing.bound, default=0))
    raise CompileError(
        f"kernel {image.name!r} takes {schedule.microseconds:.3f} µs ({schedule.cycles} cycles on "
        f"{target.name}), {over:.3f} µs more than its deadline of {deadline_us:g} µs",
        Loc(source.file, source.first_line, 1),
        f"its longest chain: {schedule.dominant()}; no schedule of these instructions takes less than {least:.3f} µs: "
        "give the kernel less to do, or move fewer bytes",
    )


class Schedule:
    """A static schedule as a table: when each engine of each core executes which line.

    `print(schedule)` shows the slowest core.
    """

    def __init__(self, image: Image, target: Target) -> None:
        assert image.timing is not None
        self._image, self._target, self._timing = image, target, image.timing

    @property
    def cycles(self) -> int:
        """The guaranteed latency: when the slowest core is done."""
        return max(self._timing.cycles, default=0)

    @property
    def microseconds(self) -> float:
        """The same as time."""
        return self._target.microseconds(self.cycles)

    @property
    def dynamic_cycles(self) -> int:
        """The cycles of the same kernel with flags, all elements of gathers, scatters and atomics counted."""
        return max(self._timing.dynamic, default=0)

    @property
    def bound_cycles(self) -> int:
        """No schedule of the same instructions is shorter."""
        return max(self._timing.bound, default=0)

    @property
    def flags_dropped(self) -> int:
        """Sets and waits that the fixed times made needless, over all cores."""
        return self._timing.flags

    @property
    def slowest(self) -> int:
        """The core that is done last."""
        cycles = self._timing.cycles
        return max(range(len(cycles)), key=lambda core: cycles[core], default=0)

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """All instructions: core, engine, operation, start, end, completion and source line."""
        from dsalang._backend.image.schedule import rows_of

        return tuple(rows_of(self._image, self._target))

    def dominant(self) -> str:
        """What the slowest core's time goes to, the largest part first, with the line that most of it comes from."""
        from dsalang._backend.image.schedule import longest_chain

        parts: dict[str, int] = {}
        lines: dict[str, dict[str, int]] = {}
        for span in longest_chain([row for row in self.rows if row.core == self.slowest]):
            parts[span.what] = parts.get(span.what, 0) + span.cycles
            if span.row is not None:
                line = f"line {span.row.loc.line}" if span.row.loc else "no line"
                mine, name = lines.setdefault(span.what, {}), f"{span.row.op} of {line}"
                mine[name] = mine.get(name, 0) + span.cycles
        texts = []
        for what in sorted(parts, key=lambda name: -parts[name])[:3]:
            text = f"{what} {parts[what]} cycles"
            if what in lines:
                most = max(lines[what], key=lambda name: lines[what][name])
                text += f" (most for {most})"
            texts.append(text)
        return ", ".join(texts) or "nothing"

    def __str__(self) -> str:
        from dsalang._backend.image.schedule import text

        worst = self.slowest
        head = (
            f"{self._image.name} on {self._target.name}, grid {self._timing.grid}: {self.cycles} cycles, "
            f"{self.microseconds:.3f} µs ({self.dynamic_cycles} cycles with flags, {self.flags_dropped} flags "
            f"dropped, at least {self.bound_cycles}); core {worst} of {len(self._timing.cycles)}"
        )
        return f"{head}\n{text([row for row in self.rows if row.core == worst])}"

    __repr__ = __str__
