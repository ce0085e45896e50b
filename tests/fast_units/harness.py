"""Runs instructions through the reference semantics and through host code, on the same random memories."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from dsalang._backend.cost import dma_bytes
from dsalang._backend.errors import DeviceError
from dsalang._backend.image.model import Argument, Image, Template
from dsalang._backend.isa.table import BY_NAME, Instruction
from dsalang._backend.isa.vprog import VectorProgram
from dsalang._backend.llvm import ir
from dsalang._backend.llvm.host import host as hosts
from dsalang._backend.llvm.host.abi import Fault, Segment, Slot
from dsalang._backend.llvm.host.emit import emit_unit
from dsalang._backend.target import Target
from dsalang._runtime import memory
from dsalang._runtime.reference.prepare import prepare
from dsalang._runtime.reference.races import Clocks
from dsalang._runtime.reference.state import CoreState
from dsalang._runtime.reference.units import SEMANTICS

PAGE = 0x100000
TARGET = Target.by_name("edge")


@dataclass
class Case:
    """An instruction with its operands and memories. `hbm` are arrays of bytes, at PAGE, 2 * PAGE, …"""

    op: str
    fields: dict[str, Any]
    open: dict[str, int] = field(default_factory=dict)
    program: VectorProgram | None = None
    sram: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint8))
    hbm: Sequence[np.ndarray] = ()
    writable: bool = True
    argument: int = -1
    what: str = ""

    def image(self) -> Image:
        """An image of just this instruction."""
        row = BY_NAME[self.op]
        fields = {name.rstrip("_"): value for name, value in self.fields.items()}
        template = Template(
            Instruction(self.op, row.engines[0], fields), tuple(self.open), None, self.argument
        )
        arguments = tuple(Argument(f"x{k}", "fp32", True) for k in range(len(self.hbm)))
        programs = (self.program,) if self.program else ()
        return Image(
            "k", TARGET.name, TARGET.digest, arguments, (template,), programs, (), (), (), (),
            len(self.sram), b"", 0, 0, "",
        )  # fmt: skip


@dataclass
class Result:
    """What came out: memories, traffic, or the fault."""

    sram: np.ndarray
    hbm: list[np.ndarray]
    burst: int = 0
    moved: tuple[int, int] = (0, 0)
    fault: int = 0


def reference(case: Case) -> Result:
    """The reference engine's result."""
    image = case.image()
    (prepared,) = prepare(image, TARGET)
    arrays = [a.copy() for a in case.hbm]
    segments = [
        memory.Segment(PAGE * (k + 1), a, f"x{k}", case.writable) for k, a in enumerate(arrays)
    ]
    args = tuple(PAGE * (k + 1) for k in range(len(arrays)))
    state = CoreState(image, args, memory.Memory(segments), Clocks(), False, False)
    state.current.template = 0
    state.sram[:] = case.sram
    result = Result(state.sram, arrays)
    try:
        fields = prepared.bind(tuple(case.open.values()))
        with np.errstate(all="ignore"):
            valid = SEMANTICS[case.op](state, fields, prepared.program)
    except DeviceError as error:
        result.fault = _fault(str(error))
        return result
    if case.op.startswith("dma."):
        result.burst = dma_bytes(case.op, fields, TARGET, valid)
        traffic = state.traffic.values()
        result.moved = sum(t.read for t in traffic), sum(t.written for t in traffic)
    return result


def _fault(message: str) -> int:
    for part, code in (
        ("SRAM bytes", Fault.SRAM_BOUNDS),
        ("read-only", Fault.READ_ONLY),
        ("does not fit", Fault.OPERAND),
        ("overflowed", Fault.OVERFLOW),
    ):
        if part in message:
            return int(code)
    return int(Fault.HBM_BOUNDS)


@cache
def _machine(name: str) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = dict(llvm.get_host_cpu_features())
    if name != "avx512":
        features = {k: v and "avx512" not in k for k, v in features.items()}
    flat = ",".join(f"{'+' if on else '-'}{k}" for k, on in sorted(features.items()))
    target = llvm.Target.from_default_triple()
    cpu = llvm.get_host_cpu_name() if name == "avx512" else "x86-64-v3"
    return target.create_target_machine(cpu=cpu, features=flat, opt=1)


_KEEP: list[Any] = []


def compile_units(
    cases: Sequence[Case], host: hosts.Host | None = None, passes: bool = False
) -> list[int]:
    """Addresses of the units of all cases, from one module; with LLVM's IR passes if `passes`."""
    host = host or hosts.this_host()
    module = ir.Module()
    for number, case in enumerate(cases):
        image = case.image()
        emit_unit(module, image.templates[0], image, TARGET, f"unit{number}", host)
    machine = _machine("avx512" if host.vector_bytes == 64 else "avx2")
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    if passes:
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(parsed, builder)
    engine = llvm.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    _KEEP.append(engine)
    return [engine.get_function_address(f"unit{number}") for number in range(len(cases))]


_SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
GUARD = 64


def _aligned(count: int) -> np.ndarray:
    """Bytes that start at a cache line, as an engine's SRAM should: vectors that cross lines cost double."""
    raw = np.empty(count + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + count]


class Machine:
    """The memories of a core for one case, with guard bytes around SRAM, and its context."""

    def __init__(self, case: Case) -> None:
        self.padded = _aligned(len(case.sram) + 2 * GUARD)
        self.padded[:] = 0xA5
        self.sram = self.padded[GUARD:-GUARD]
        self.sram[:] = case.sram
        self.arrays = [a.copy() for a in case.hbm]
        self.table = np.zeros((max(len(self.arrays), 1), Segment.SIZE), np.int64)
        for k, a in enumerate(self.arrays):
            start = PAGE * (k + 1)
            self.table[k] = start, start + a.size, case.writable, a.ctypes.data - start
        self.arguments = np.array(
            [PAGE * (k + 1) for k in range(len(self.arrays))] or [0], np.int64
        )
        self.context = np.zeros(Slot.SIZE, np.int64)
        self.context[Slot.SEGMENTS] = self.table.ctypes.data
        self.context[Slot.SEGMENT_COUNT] = len(self.arrays)
        self.context[Slot.SRAM_BYTES] = self.sram.size
        self.context[Slot.ARGUMENTS] = self.arguments.ctypes.data
        self.history = np.zeros_like(self.arguments)
        self.context[Slot.HISTORY] = self.history.ctypes.data
        self.values = np.array([_signed(v) for v in case.open.values()] or [0], np.int64)

    @property
    def unharmed(self) -> bool:
        """Whether the guard bytes are as they were."""
        return bool((self.padded[:GUARD] == 0xA5).all() and (self.padded[-GUARD:] == 0xA5).all())


def call_unit(address: int, machine: Machine) -> int:
    """Run compiled code; what it returns."""
    memories = (machine.sram, machine.values, machine.context)
    return int(_SIGNATURE(address)(*(m.ctypes.data for m in memories)))


def bound_call(address: int, case: Case) -> Callable[[], int]:
    """A function that runs compiled code on memories of its own, again and again."""
    machine, function = Machine(case), _SIGNATURE(address)
    sram, values, context = (m.ctypes.data for m in (machine.sram, machine.values, machine.context))

    def call(machine: Machine = machine) -> int:
        return int(function(sram, values, context))

    return call


def run_unit(address: int, case: Case) -> Result:
    """Run compiled code once."""
    machine = Machine(case)
    context = machine.context
    code = call_unit(address, machine)
    assert machine.unharmed, case.what
    moved = int(context[Slot.READ_BYTES]), int(context[Slot.WRITTEN_BYTES])
    return Result(machine.sram, machine.arrays, int(context[Slot.BURST_BYTES]), moved, code)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 > 0 else value


def check(cases: Sequence[Case], host: hosts.Host | None = None, passes: bool = False) -> None:
    """Every case gives the same bits, traffic and faults both ways."""
    for case, address in zip(cases, compile_units(cases, host, passes)):
        want, got = reference(case), run_unit(address, case)
        assert got.fault == want.fault, (case.what, case)
        if want.fault:
            continue
        assert np.array_equal(got.sram, want.sram), (
            case.what,
            _difference(got.sram, want.sram),
            case,
        )
        for a, b in zip(got.hbm, want.hbm):
            assert np.array_equal(a, b), (case.what, _difference(a, b), case)
        if case.op.startswith("dma."):
            assert (got.burst, got.moved) == (want.burst, want.moved), (case.what, case)


def _difference(a: np.ndarray, b: np.ndarray) -> str:
    where = np.flatnonzero(a != b)
    return f"{len(where)} bytes, first at {where[0]}: {a[where[0] : where[0] + 8]} not {b[where[0] : where[0] + 8]}"


def random_bytes(count: int, seed: int) -> np.ndarray:
    """Random bits."""
    return np.random.default_rng(seed).integers(0, 256, count, np.uint8)
