"""Hand-made programs for the reference engine: a stream of issues, without glue."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from dsalang._backend.errors import Loc
from dsalang._backend.image.model import Argument, AssertInfo, Image, PrintInfo, RingInfo, Template
from dsalang._backend.isa.rv64 import CALLS
from dsalang._backend.isa.table import BY_NAME, Engine, Instruction
from dsalang._backend.isa.vprog import MicroOp, VectorProgram
from dsalang._backend.target import Target
from dsalang._runtime.memory import Memory, Segment
from dsalang._runtime.reference.engine import run
from dsalang._runtime.reference.options import Options
from dsalang._runtime.report import Run

PAGE = 0x10000
LD, ST, MM, VE, CORE = Engine.LD, Engine.ST, Engine.MM, Engine.VE, Engine.CORE


def simple_target(**changes: Any) -> Target:
    """One core on which everything but the work itself is free, 1 byte per cycle of HBM."""
    edge = Target.by_name("edge")
    target = dataclasses.replace(
        edge,
        clock_mhz=1000,
        queue_depth=64,
        hbm=dataclasses.replace(edge.hbm, bytes_per_second=10**9, latency_cycles=0, burst_bytes=1),
        dma=dataclasses.replace(edge.dma, setup_cycles=0),
        tensor=dataclasses.replace(edge.tensor, fill_cycles=0),
        vector=dataclasses.replace(
            edge.vector,
            bytes_per_cycle=1,
            startup_cycles=0,
            op_cycles={"cheap": 1, "medium": 4, "costly": 8},
        ),
        scalar=dataclasses.replace(edge.scalar, issue_cycles=0, operand_cycles=0, read_cycles=0),
    )
    for name, value in changes.items():
        table, _, key = name.partition("__")
        if key:
            value = dataclasses.replace(getattr(target, table), **{key: value})
        target = dataclasses.replace(target, **{table: value})
    return target


class Stream:
    """Plays the control core: calls in order, operands from a list."""

    def __init__(self, calls: Sequence[tuple[int, int, int]], operands: Sequence[int]) -> None:
        self.calls, self.operands = calls, operands
        self.results: list[int] = []

    def run(self) -> Generator[tuple[int, int, int], int, None]:
        for call in self.calls:
            self.results.append((yield call))

    def values(self, address: int, count: int) -> tuple[int, ...]:
        return tuple(self.operands[address : address + count])


class Program:
    """Builds an image line by line: the n-th statement is line n of k.py."""

    def __init__(self, target: Target | None = None, sram_bytes: int = 4096) -> None:
        self.target = target or simple_target()
        self.sram_bytes = sram_bytes
        self.templates: list[Template] = []
        self.calls: list[tuple[int, int, int]] = []
        self.operands: list[int] = []
        self.programs: list[VectorProgram] = []
        self.prints: list[PrintInfo] = []
        self.asserts: list[AssertInfo] = []
        self.rings: list[RingInfo] = []
        self.credits = [0] * 8
        self.segments: list[Segment] = []
        self.arguments: list[Argument] = []
        self.args: list[int] = []
        self.streams: list[Stream] = []
        self.line = 0

    def array(self, name: str, data: np.ndarray, writable: bool = True) -> int:
        """An argument; its address."""
        address = PAGE * (len(self.segments) + 1)
        flat = data.reshape(-1).view(np.uint8)
        self.segments.append(Segment(address, flat, name, writable))
        self.arguments.append(Argument(name, "fp32", True))
        self.args.append(address)
        return address

    def loc(self) -> Loc:
        self.line += 1
        return Loc("k.py", self.line, 1)

    def issue(
        self, op: str, engine: Engine | None = None, argument: int = -1, **fields: Any
    ) -> None:
        """Issue an instruction; a field given as `open=(("hi.0", 3),)` is a run-time operand."""
        opened = fields.pop("open", ())
        fields = {name.rstrip("_"): value for name, value in fields.items()}
        row = BY_NAME[op]
        instruction = Instruction(op, engine if engine is not None else row.engines[0], fields)
        self.templates.append(
            Template(instruction, tuple(name for name, _ in opened), self.loc(), argument)
        )
        self.call("issue", len(self.templates) - 1, len(self.operands))
        self.operands += [value for _, value in opened]

    def call(self, kind: str, a0: int, a1: int) -> None:
        self.calls.append((CALLS.index(kind), a0, a1))

    def set(self, engine: Engine, sem: int) -> None:
        self.issue("set", engine, sem=sem)

    def wait(self, engine: Engine, sem: int) -> None:
        if engine is CORE:
            self.line += 1
            self.call("wait", sem, 0)
        else:
            self.issue("wait", engine, sem=sem)

    def sync(self, source: Engine, to: Engine, sem: int) -> None:
        self.set(source, sem)
        self.wait(to, sem)

    def load(self, hbm: int, sram: int, count: int, elem_bytes: int = 4, **fields: Any) -> None:
        self.issue("dma.load", **self._row(hbm, sram, count, elem_bytes), **fields)

    def store(self, sram: int, hbm: int, count: int, elem_bytes: int = 4, **fields: Any) -> None:
        self.issue("dma.store", **self._row(hbm, sram, count, elem_bytes), **fields)

    @staticmethod
    def _row(hbm: int, sram: int, count: int, width: int) -> dict[str, Any]:
        return {
            "elem_bytes": width, "ndim": 1, "size": (count,), "hbm": hbm, "hbm_stride": (width,),
            "sram": sram, "sram_stride": (width,), "hi": (count,),
        }  # fmt: skip

    def binary(self, op: str, fmt: str, a: int, b: int, out: int, count: int, width: int) -> None:
        """out = op(a, b) on contiguous vectors."""
        program = VectorProgram(
            (fmt, fmt),
            (),
            (fmt,),
            (
                MicroOp("in", fmt, fmt, 0, (), 0),
                MicroOp("in", fmt, fmt, 1, (), 1),
                MicroOp(op, fmt, fmt, 2, (0, 1)),
                MicroOp("out", fmt, fmt, 0, (2,), 0),
            ),
        )
        self.vexec(program, (count,), (a, b), ((width,), (width,)), (out,), ((width,),))

    def vexec(
        self,
        program: VectorProgram,
        size: Sequence[int],
        ins: Sequence[int],
        in_strides: Sequence[Sequence[int]],
        outs: Sequence[int],
        out_strides: Sequence[Sequence[int]],
        **fields: Any,
    ) -> None:
        self.programs.append(program)
        self.issue(
            "vexec",
            program=len(self.programs) - 1,
            ndim=len(size),
            size=tuple(size),
            inputs=len(ins),
            outputs=len(outs),
            in_=tuple(ins),
            in_stride=_strides(in_strides),
            out=tuple(outs),
            out_stride=_strides(out_strides),
            **fields,
        )

    def busy(self, cycles: int, read: int, write: int) -> None:
        """A vexec of exactly `cycles` cycles that reads a byte and writes `cycles` bytes (int8)."""
        program = VectorProgram(
            ("int8",),
            (),
            ("int8",),
            (
                MicroOp("in", "int8", "int8", 0, (), 0),
                MicroOp("iabs", "int8", "int8", 0, (0,)),
                MicroOp("out", "int8", "int8", 0, (0,), 0),
            ),
        )
        self.vexec(program, (cycles,), (read,), ((0,),), (write,), ((1,),))

    def image(self) -> Image:
        return Image(
            "k", self.target.name, self.target.digest, tuple(self.arguments), tuple(self.templates),
            tuple(self.programs), tuple(self.credits), tuple(self.rings), tuple(self.prints),
            tuple(self.asserts), self.sram_bytes, b"", 0, 0, "",
        )  # fmt: skip

    def run(self, grid: tuple[int, int, int] = (1, 1, 1), **options: Any) -> Run:
        def control(core: int, cores: int) -> Stream:
            self.streams.append(Stream(self.calls, self.operands))
            return self.streams[-1]

        memory = Memory(self.segments)
        return run(self.image(), self.target, self.args, grid, memory, Options(**options), control)


def _strides(rows: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(value for row in rows for value in (*row, *(0,) * (4 - len(row))))
