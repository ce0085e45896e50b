"""From the body of a `tile.fused` to a vector program: linear-scan allocation over the vector registers.

Inputs, scalars, constants and coordinates cost nothing to load, so they are loaded where they are first
used, given up when registers run out, and loaded again. Outputs are written at the end of the program:
everything has been read by then, so an output may overwrite an input that is walked the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from ..dialects import tile
from ..dialects.types import format_of
from ..errors import InternalError
from ..isa.table import VECTOR_REGISTERS
from ..isa.vector_ops import BY_NAME as VECTOR_OPS
from ..isa.vprog import CONST, IN, INDEX, OUT, SCALAR, MicroOp, VectorProgram
from .placing.constants import constant_bits


def build_program(
    fused: tile.FusedOp, in_sram: Sequence[bool]
) -> tuple[VectorProgram, list[int], list[int]]:
    """The vector program of a fused op.

    Args:
        fused: the op.
        in_sram: per operand whether it is read from SRAM (every tile is) or is a run-time scalar.

    Returns:
        The program, the operand number of each SRAM input, the operand number of each scalar input.
    """
    inputs = [j for j, sram in enumerate(in_sram) if sram]
    scalars = [j for j, sram in enumerate(in_sram) if not sram]
    block = fused.body.block
    sources: dict[SSAValue, MicroOp] = {}
    for kind, numbers in ((IN, inputs), (SCALAR, scalars)):
        for k, j in enumerate(numbers):
            name = format_of(block.args[j].type).name
            sources[block.args[j]] = MicroOp(kind, name, name, imm=k)
    maps: list[tile.MapOp] = []
    for op in block.ops:
        if isinstance(op, tile.MapOp):
            maps.append(op)
        elif not isinstance(op, tile.YieldOp):
            sources[op.results[0]] = _source(op)
    end = block.last_op
    assert end is not None
    ops = _Allocator(sources, maps, tuple(end.operands)).run()
    formats = [
        tuple(format_of(fused.args[j].type).name for j in part) for part in (inputs, scalars)
    ]
    outputs = tuple(format_of(v.type).name for v in end.operands)
    return VectorProgram(formats[0], formats[1], outputs, tuple(ops)), inputs, scalars


def _source(op: Operation) -> MicroOp:
    if isinstance(op, arith.ConstantOp):
        name = format_of(op.result.type).name
        return MicroOp(CONST, name, name, imm=constant_bits(op))
    assert isinstance(op, tile.IndexOp)
    return MicroOp(INDEX, "int32", "int32", imm=op.dim.value.data)


class _Allocator:
    """Registers by value, and the program so far."""

    def __init__(
        self,
        sources: dict[SSAValue, MicroOp],
        maps: Sequence[tile.MapOp],
        outputs: tuple[SSAValue, ...],
    ) -> None:
        self.sources = sources
        self.maps = maps
        self.outputs = outputs
        self.register: dict[SSAValue, int] = {}
        self.free = list(reversed(range(VECTOR_REGISTERS)))
        self.ops: list[MicroOp] = []
        self.uses: dict[SSAValue, list[int]] = {}
        for position, op in enumerate(maps):
            for value in op.args:
                self.uses.setdefault(value, []).append(position)
        for k, value in enumerate(outputs):
            self.uses.setdefault(value, []).append(len(maps) + k)

    def run(self) -> list[MicroOp]:
        """Emit everything."""
        for position, op in enumerate(self.maps):
            registers = self._fetch(tuple(op.args), position)
            result = format_of(op.result.type).name
            same = VECTOR_OPS[op.fn.data].result == "same"
            source = result if same else format_of(op.args[-1].type).name
            self._release(position)
            target = self._take(op.result, position, ())
            self.ops.append(MicroOp(op.fn.data, result, source, target, registers))
            if op.result not in self.uses:
                self._give_back(op.result)
        for k, value in enumerate(self.outputs):
            position = len(self.maps) + k
            registers = self._fetch((value,), position)
            name = format_of(value.type).name
            self.ops.append(MicroOp(OUT, name, name, srcs=registers, imm=k))
            self._release(position)
        return self.ops

    def _fetch(self, values: tuple[SSAValue, ...], position: int) -> tuple[int, ...]:
        """The registers of operands, loaded when they are not there."""
        for value in values:
            if value not in self.register:
                source = self.sources[value]
                target = self._take(value, position, values)
                self.ops.append(
                    MicroOp(source.op, source.fmt, source.src_fmt, target, (), source.imm)
                )
        return tuple(self.register[value] for value in values)

    def _take(self, value: SSAValue, position: int, pinned: tuple[SSAValue, ...]) -> int:
        """A register for a value, that of a source which is needed last of all if none is free."""
        if not self.free:
            candidates = [v for v in self.register if v in self.sources and v not in pinned]
            if not candidates:
                raise InternalError("a fused op needs more vector registers than there are")
            self._give_back(max(candidates, key=lambda v: self._next_use(v, position)))
        self.register[value] = self.free.pop()
        return self.register[value]

    def _next_use(self, value: SSAValue, position: int) -> int:
        return next((p for p in self.uses[value] if p >= position), 1 << 30)

    def _release(self, position: int) -> None:
        """Give back the registers of values that nothing after `position` uses."""
        for value in [v for v in self.register if self.uses[v][-1] <= position]:
            self._give_back(value)

    def _give_back(self, value: SSAValue) -> None:
        self.free.append(self.register.pop(value))
