"""What host code asks of Python while it runs."""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from typing import TYPE_CHECKING

from .context import POLL_WORK, Entry, Service, Status

if TYPE_CHECKING:
    from .worker import Worker

_PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def serve(worker: Worker) -> Generator[int, int, None]:
    """A coroutine that is sent a Service and gives a Status; its operands are in the context.

    Ctrl-C arrives in Python code only, so it arrives here, in the `try`. A plain function would be too late:
    what is raised at its first instruction is lost.
    """
    result = 0
    while True:
        try:
            service = yield result
            result = 0
            _SERVICES[Service(service)](worker)
        except GeneratorExit:
            return
        except BaseException as error:
            worker.error = error
            result = int(Status.RAISED)


def callback(coroutine: Generator[int, int, None]) -> ctypes._FuncPointer:
    """The coroutine as a C function."""
    next(coroutine)
    return _PROTOTYPE(coroutine.send)


def _operands(worker: Worker, address: int, count: int) -> tuple[int, ...]:
    return tuple((ctypes.c_int64 * count).from_address(address)) if count else ()


def _poll(worker: Worker) -> None:
    worker.memory.words[Entry.BUDGET] = POLL_WORK


def _print(worker: Worker) -> None:
    from ..reference.text import print_line
    from .failures import reference_state

    words = worker.memory.words
    info = worker.image.prints[int(words[Entry.FIRST])]
    values = _operands(worker, int(words[Entry.SECOND]), len(info.fmts))
    line = print_line(reference_state(worker), info, values, worker.core)
    worker.prints.append(line)
    worker.write(line)


def _cost(worker: Worker) -> None:
    from dsalang._backend.cost import compute_cycles, operations  # seldom asked for

    words = worker.memory.words
    prepared = worker.rows[int(words[Entry.FIRST])].prepared
    fields = prepared.bind(_operands(worker, int(words[Entry.SECOND]), len(prepared.open)))
    words[Entry.FIRST] = compute_cycles(prepared.op, fields, prepared.program, worker.target)
    words[Entry.SECOND] = operations(prepared.op, fields, prepared.program)


def _timeline(worker: Worker) -> None:
    worker.memory.take_timeline(worker.events, worker.stands)


_SERVICES = {
    Service.POLL: _poll,
    Service.PRINT: _print,
    Service.COST: _cost,
    Service.TIMELINE: _timeline,
}
