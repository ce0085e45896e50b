"""One emulated core on the host: its memory, a run of it, and what came of it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dsalang._backend.llvm.host.abi import Slot

from ..memory import Memory as Hbm
from . import services
from .context import POLL_WORK, Entry, Status
from .scratchpad import Scratchpad
from .simulator import Memory

if TYPE_CHECKING:
    from collections.abc import Generator

    from dsalang._backend.image.model import Image
    from dsalang._backend.target import Target

    from .engine import Options, Program
    from .plan import Row


class Worker:
    """A core of an image, used for one run after the other. `start` comes before a run, `check` after it."""

    def __init__(self, program: Program, memory: Memory, simulate: int) -> None:
        self.program, self.memory = program, memory
        size = program.outline.sram_bytes
        self.scratchpad = Scratchpad(size, program.outline.shared)
        self.sram = self.scratchpad.data
        self._coroutine: Generator[int, int, None] = services.serve(self)
        self._callback = services.callback(self._coroutine)
        words = memory.start
        words[Entry.SRAM] = self.sram.__array_interface__["data"][0]
        words[Entry.SIMULATE] = simulate
        words[Entry.SERVICE] = ctypes.cast(self._callback, ctypes.c_void_p).value or 0
        words[Entry.BUDGET] = POLL_WORK
        words[Slot.SRAM_BYTES] = size
        words[Slot.PLACES] = self.scratchpad.places.__array_interface__["data"][0]
        words[Slot.PLACE_BITS] = self.scratchpad.place_bits
        self.core = 0
        self.error: BaseException | None = None
        self.prints: list[str] = []
        self.events: list[npt.NDArray[np.int64]] = []
        self.stands: list[npt.NDArray[np.int64]] = []
        self.write: Callable[[str], None] = print
        self._args: tuple[int, ...] = ()
        self._hbm: Hbm | None = None

    def start(
        self,
        core: int,
        arguments: int,
        segments: npt.NDArray[np.int64],
        args: tuple[int, ...],
        hbm: Hbm,
        options: Options,
    ) -> None:
        """Get ready to run as core `core`; `arguments` is the address of the arguments."""
        memory = self.memory
        memory.reset()
        words = memory.words
        words[Slot.SEGMENTS] = segments.__array_interface__["data"][0]
        words[Slot.SEGMENT_COUNT] = len(segments)
        words[Slot.ARGUMENTS] = arguments
        if self.program.outline.machine["jitter_cycles"]:
            memory.set_noise(options.seed, core)
        self.core, self.write, self.error = core, options.write, None
        self._args, self._hbm = args, hbm
        self.prints, self.events, self.stands = [], [], []

    def stop(self) -> None:
        """End the run soon, from another thread."""
        self.memory.words[Entry.STOP] = 1

    def check(self, status: int) -> None:
        """Raise what the run ended with, if anything, as the reference engine would."""
        if status != Status.DONE or self.memory.view.value("over_time") >= 0:
            from .failures import failure  # the reference engine's functions, for the words

            raise failure(self, Status(status))

    @property
    def image(self) -> Image:
        """The image."""
        return self.program.image

    @property
    def target(self) -> Target:
        """The machine."""
        return self.program.target

    @property
    def rows(self) -> tuple[Row, ...]:
        """The image's templates."""
        return self.program.rows

    @property
    def args(self) -> tuple[int, ...]:
        """The kernel's arguments."""
        return self._args

    @property
    def hbm(self) -> Hbm:
        """The launch's memory."""
        assert self._hbm is not None
        return self._hbm
