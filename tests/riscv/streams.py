"""What three control cores ask of the machine: Python's RV64, Unicorn's RV64, and the host's glue by LLVM."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import llvmlite.binding as llvm

from dsalang._backend.image.model import Image
from dsalang._backend.isa.rv64 import CALLS
from dsalang._jit.launch import argument_bits, grid_of, memory_of
from dsalang._jit.machine import resolve
from dsalang._runtime.reference.core import Control
from dsalang._runtime.reference.engine import MakeControl, run
from dsalang._runtime.reference.options import Options

Event = tuple[int, ...]
QUIET = Options(timeline=False, write=lambda line: None)


class Launched:
    """A case of the suite as an engine gets it."""

    def __init__(self, case: Any, target: str = "edge") -> None:
        kernel = case.kernel
        self.case = case  # owns the memory
        self.target = resolve(target)
        spec, arguments, grid, _ = kernel._defaults.asked(
            case.args, {**case.meta, **case.options}, case.grid
        )
        self.image: Image = kernel._images.of(spec, self.target)
        self.grid = grid_of(grid, {})
        self.args = tuple(argument_bits(arguments, a.name) for a in self.image.arguments)
        self.memory = memory_of(arguments)

    @property
    def values(self) -> tuple[int, ...]:
        return (*self.args, *self.grid)


def event(image: Image, values: Any, number: int, a0: int, a1: int) -> Event:
    """A call with its operands in place of their address."""
    if CALLS[number] in ("issue", "print"):
        count = len(image.templates[a0].open if number == 0 else image.prints[a0].fmts)
        return number, a0, *(values(a1, count) if count else ())
    return (number, a0) if CALLS[number] == "wait" else (number, a0, a1)


class Recorder:
    """Passes calls on and keeps them; results of reads are kept too."""

    def __init__(self, image: Image, inner: Control) -> None:
        self.image, self.inner = image, inner
        self.events: list[Event] = []
        self.reads: list[int] = []

    def values(self, address: int, count: int) -> tuple[int, ...]:
        return self.inner.values(address, count)

    def run(self) -> Iterator[Any]:
        calls = self.inner.run()
        result: int | None = None
        while True:
            try:
                call = next(calls) if result is None else calls.send(result)
            except StopIteration:
                return
            self.events.append(event(self.image, self.values, *call))
            result = yield call
            if CALLS[call[0]] == "read":
                self.reads.append(result)


def recorded(launched: Launched, make: MakeControl) -> list[Recorder]:
    """Run a launch on the reference engine with a control core of the caller's, core by core."""
    cores: list[Recorder] = []

    def control(core: int, count: int) -> Recorder:
        cores.append(Recorder(launched.image, make(core, count)))
        return cores[-1]

    run(
        launched.image,
        launched.target,
        launched.args,
        launched.grid,
        launched.memory,
        QUIET,
        control,
    )
    return cores


_CALL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_uint64, ctypes.c_int64)


def host_events(
    image: Image, values: tuple[int, ...], core: int, cores: int, reads: list[int]
) -> list[Event]:
    """The calls of the host's glue, its reads answered from a list."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(image.glue)
    machine = llvm.Target.from_default_triple().create_target_machine(opt=1)
    engine = llvm.create_mcjit_compiler(module, machine)
    events: list[Event] = []
    answers = iter(reads)

    def fetch(address: int, count: int) -> tuple[int, ...]:
        return tuple((ctypes.c_int64 * count).from_address(address))

    def callback(number: int) -> Any:
        def call(a0: int, a1: int) -> int:
            events.append(event(image, fetch, number, a0, a1))
            return next(answers) if CALLS[number] == "read" else 0

        return _CALL(call)

    callbacks = [callback(number) for number in range(len(CALLS))]
    for name, function in zip(CALLS, callbacks):
        try:
            declared = module.get_function(f"__dsa_{name}")
        except NameError:
            continue
        engine.add_global_mapping(declared, ctypes.cast(function, ctypes.c_void_p).value)
    engine.finalize_object()
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
        engine.get_function_address("dsa_kernel")
    )
    block = (ctypes.c_int64 * len(values))(*values)
    entry(ctypes.addressof(block), core, cores)
    return events
