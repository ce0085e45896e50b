"""How a run ended that went wrong: the error of the reference engine, in its words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dsalang._backend import formats
from dsalang._backend.errors import DeviceError, ImageError, InternalError
from dsalang._backend.isa.table import Engine
from dsalang._backend.llvm.host.abi import Fault

from ..reference.races import Clocks
from ..reference.state import CoreState, Current
from ..reference.units import SEMANTICS, overflow_error, read_scalar
from .context import Entry, Status
from .stuck import deadlock, overflowed

if TYPE_CHECKING:
    from .worker import Worker


def failure(worker: Worker, status: Status) -> BaseException:
    """What a run ended with."""
    if status == Status.RAISED and worker.error is not None:
        return worker.error
    if status == Status.STOPPED:
        return KeyboardInterrupt()
    if status in (Status.DONE, Status.STUCK):
        overfull = worker.memory.view.value("over_time") >= 0
        return overflowed(worker) if overfull else deadlock(worker)
    if status == Status.NO_DATA:
        return DeviceError("timing without data: the kernel reads a value back to the core")
    words = worker.memory.words
    detail = int(words[Entry.DETAIL])
    if status == Status.ASSERT:
        return _assertion(worker, detail)
    if status == Status.READ:
        return _bad_read(worker, detail, int(words[Entry.FORMAT]))
    return _fault(worker, Fault(detail), int(words[Entry.TEMPLATE]))


def reference_state(worker: Worker, template: int = -1) -> CoreState:
    """The core as the reference engine's functions see it."""
    state = CoreState(worker.image, worker.args, worker.hbm, Clocks(), False, False)
    state.sram = worker.scratchpad.unfolded()
    engine = worker.rows[template].engine if template >= 0 else Engine.CORE
    state.current = Current(engine, 0, template)
    return state


def _assertion(worker: Worker, number: int) -> Exception:
    if number >= len(worker.image.asserts):
        return ImageError(f"the control core refers to assert {number}, which does not exist")
    info = worker.image.asserts[number]
    return DeviceError(f"device assertion failed on core {worker.core}: {info.message}", info.loc)


def _bad_read(worker: Worker, address: int, code: int) -> Exception:
    fmt = formats.BY_CODE.get(code)
    if fmt is None:
        return ImageError(f"the control core reads a value of unknown format {code}")
    return _replay(lambda: read_scalar(reference_state(worker), address, fmt))


def _fault(worker: Worker, fault: Fault, template: int) -> Exception:
    """The error of a faulting instruction: that of the reference engine, which gets to execute it too."""
    prepared = worker.rows[template].prepared
    operands = worker.memory.words[Entry.SIZE : Entry.SIZE + len(prepared.open)].tolist()
    state = reference_state(worker, template)
    if fault == Fault.OVERFLOW:  # the accumulator may have changed already
        return overflow_error(state, prepared.fields)

    def execute() -> None:
        SEMANTICS[prepared.op](state, prepared.bind(operands), prepared.program)

    return _replay(execute)


def _replay(action: Callable[[], Any]) -> Exception:
    try:
        action()
    except DeviceError as error:
        return error
    return InternalError("the fast engine reports a fault that the reference engine does not")
