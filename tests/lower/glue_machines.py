"""Running glue: the RV64 code under Unicorn and the host IR compiled by LLVM, each with a trivial machine.

The machine records what the glue asks of it as a list of events: ("issue", template, *operands),
("wait", semaphore), ("read", address, format code), ("print", number, *values), ("assert", number, condition).
A read answers with a number made of its address and how many reads came before.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import lru_cache

import llvmlite.binding as llvm

from dsalang._backend.image.model import Image
from dsalang._backend.isa.rv64 import CALLS

Event = tuple[object, ...]
MASK = (1 << 64) - 1
MOST_EVENTS = 5000


class TooLongError(Exception):
    """More events than any test means to make."""


def signed(value: int, bits: int = 64) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


class Machine:
    """Records calls. `fetch` reads count i64 values from the glue's memory."""

    def __init__(self, image: Image, fetch: Callable[[int, int], tuple[int, ...]]) -> None:
        self.image = image
        self.fetch = fetch
        self.events: list[Event] = []
        self.reads = 0

    def call(self, name: str, a0: int, a1: int) -> int:
        if len(self.events) >= MOST_EVENTS:
            raise TooLongError
        if name == "issue":
            values = self.fetch(a1, len(self.image.templates[a0].open))
            self.events.append((name, a0, *values))
        elif name == "print":
            values = self.fetch(a1, len(self.image.prints[a0].fmts))
            self.events.append((name, a0, *values))
        elif name == "read":
            self.events.append((name, a0, a1))
            self.reads += 1
            return read_answer(a0, self.reads)
        elif name == "wait":
            self.events.append((name, a0))
        else:
            self.events.append((name, a0, a1))
        return 0


def read_answer(address: int, count: int) -> int:
    """What read number `count` answers."""
    return signed(address * 0x9E3779B97F4A7C15 + count * 0x5851F42D4C957F2D)


def run_rv64(image: Image, args: list[int], core: int = 0, cores: int = 1) -> list[Event]:
    """Run the image's code under Unicorn."""
    import unicorn
    from unicorn import riscv_const as reg

    emulator = unicorn.Uc(unicorn.UC_ARCH_RISCV, unicorn.UC_MODE_RISCV64)
    code_size = (len(image.code) + 4095) // 4096 * 4096
    emulator.mem_map(image.code_address, code_size)
    emulator.mem_write(image.code_address, image.code)
    stack, data, stop = 0x4000_0000, 0x5000_0000, 0x6000_0000
    emulator.mem_map(stack, 0x10000)
    emulator.mem_map(data, 0x1000)
    emulator.mem_map(stop, 0x1000)
    emulator.mem_write(data, struct.pack(f"<{len(args)}Q", *(a & MASK for a in args)))

    def fetch(address: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}q", emulator.mem_read(address, 8 * count)) if count else ()

    machine = Machine(image, fetch)
    failure: list[BaseException] = []

    def trap(uc: unicorn.Uc, number: int, _: object) -> None:
        try:
            word = int.from_bytes(uc.mem_read(uc.reg_read(reg.UC_RISCV_REG_PC) - 4, 4), "little")
            assert number == 2 and word & 0xFFFF8FFF == 0x00B5050B, f"trap {number}, {word:#x}"
            a0 = signed(uc.reg_read(reg.UC_RISCV_REG_A0))
            a1 = signed(uc.reg_read(reg.UC_RISCV_REG_A1))
            result = machine.call(CALLS[word >> 12 & 7], a0, a1)
            uc.reg_write(reg.UC_RISCV_REG_A0, result & MASK)
        except BaseException as error:
            failure.append(error)
            uc.emu_stop()

    emulator.hook_add(unicorn.UC_HOOK_INTR, trap)
    registers = {
        reg.UC_RISCV_REG_SP: stack + 0x10000,
        reg.UC_RISCV_REG_RA: stop,
        reg.UC_RISCV_REG_A0: data,
        reg.UC_RISCV_REG_A1: core,
        reg.UC_RISCV_REG_A2: cores,
    }
    for register, value in registers.items():
        emulator.reg_write(register, value)
    emulator.emu_start(image.code_address + image.entry, stop, timeout=20_000_000)
    if failure:
        raise failure[0]
    return machine.events


CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
RUNNING: list[Machine] = []
CALLBACKS = [CALLBACK(lambda a, b, name=name: RUNNING[-1].call(name, a, b)) for name in CALLS]


def run_host(image: Image, args: list[int], core: int = 0, cores: int = 1) -> list[Event]:
    """Run the image's glue compiled for this machine."""

    def fetch(address: int, count: int) -> tuple[int, ...]:
        return tuple((ctypes.c_int64 * count).from_address(address)) if count else ()

    engine = _engine(image.glue)
    kernel = KERNEL(engine.get_function_address("dsa_kernel"))
    array = (ctypes.c_uint64 * max(len(args), 1))(*(a & MASK for a in args))
    machine = Machine(image, fetch)
    RUNNING.append(machine)
    kernel(ctypes.addressof(array), core, cores)
    RUNNING.pop()
    return machine.events


@lru_cache(maxsize=4)
def _engine(glue: str) -> llvm.ExecutionEngine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name, callback in zip(CALLS, CALLBACKS, strict=True):
        llvm.add_symbol(f"__dsa_{name}", ctypes.cast(callback, ctypes.c_void_p).value)
    machine = llvm.Target.from_default_triple().create_target_machine(opt=1)
    module = llvm.parse_assembly(glue)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine
