"""Tracing of vector programs: Python on registers becomes micro-ops on the machine's registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import formats
from ..errors import MicrokernelError
from ..isa.check import check_program
from ..isa.table import VECTOR_REGISTERS
from ..isa.vector_ops import BY_NAME as VECTOR_OPS
from ..isa.vprog import CONST, IN, INDEX, OUT, MicroOp, VectorProgram


@dataclass(frozen=True, eq=False)
class Register:
    """A value at every point of a vector instruction's space. Arithmetic with numbers and registers of its format.

    `+ - *` are those of its kind (float, integer), `/` is for floats, `& | ^ << >>` are for integers, `>>` fills with the
    sign where the format has one. Everything else is a method of the program: `v.fexp(x)`.
    """

    program: Program = field(repr=False)
    number: int
    fmt: str

    @property
    def is_float(self) -> bool:
        """Whether its format is a float."""
        return formats.by_name(self.fmt).is_float

    def _both(self, op: str, other: Register | float) -> Register:
        kind = "f" if self.is_float else "i"
        return self.program.micro(f"{kind}{op}", (self, other))

    def _swapped(self, op: str, other: float) -> Register:
        kind = "f" if self.is_float else "i"
        return self.program.micro(f"{kind}{op}", (self.program.const(other, self.fmt), self))

    def __add__(self, other: Register | float) -> Register:
        return self._both("add", other)

    def __radd__(self, other: float) -> Register:
        return self._swapped("add", other)

    def __sub__(self, other: Register | float) -> Register:
        return self._both("sub", other)

    def __rsub__(self, other: float) -> Register:
        return self._swapped("sub", other)

    def __mul__(self, other: Register | float) -> Register:
        return self._both("mul", other)

    def __rmul__(self, other: float) -> Register:
        return self._swapped("mul", other)

    def __truediv__(self, other: Register | float) -> Register:
        return self.program.micro("fdiv", (self, other))

    def __rtruediv__(self, other: float) -> Register:
        return self.program.micro("fdiv", (self.program.const(other, self.fmt), self))

    def __neg__(self) -> Register:
        return self.program.micro("fneg", (self,)) if self.is_float else 0 - self

    def __and__(self, other: Register | int) -> Register:
        return self.program.micro("iand", (self, other))

    def __or__(self, other: Register | int) -> Register:
        return self.program.micro("ior", (self, other))

    def __xor__(self, other: Register | int) -> Register:
        return self.program.micro("ixor", (self, other))

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __lshift__(self, other: Register | int) -> Register:
        return self.program.micro("shl", (self, other))

    def __rshift__(self, other: Register | int) -> Register:
        signed = formats.by_name(self.fmt).is_signed
        return self.program.micro("ashr" if signed else "lshr", (self, other))


@dataclass(frozen=True)
class _Node:
    op: str
    fmt: str
    src_fmt: str
    sources: tuple[int, ...]
    imm: int


class Program:
    """A vector program under construction: a method per operation of `backend/isa/vector_ops.py` (docs/isa.md).

    An operation that converts takes the format of its result: `v.fcvt(x, "bf16")`. Numbers among the operands become
    constants of the format that the other operands have.
    """

    def __init__(self) -> None:
        self._nodes: list[_Node] = []

    def __getattr__(self, name: str) -> Callable[..., Register]:
        if name not in VECTOR_OPS:
            raise MicrokernelError(
                f"the vector engine has no operation {name!r}", hint="see docs/isa.md"
            )
        takes = len(VECTOR_OPS[name].operands)

        def emit(*operands: Any) -> Register:
            fmt = None
            if VECTOR_OPS[name].result == "cast":
                if not operands or not isinstance(operands[-1], str):
                    raise MicrokernelError(
                        f"{name} takes the format of its result, as in {name}(x, 'fp32')"
                    )
                *operands, fmt = operands  # type: ignore[assignment]
            if len(operands) != takes:
                raise MicrokernelError(f"{name} takes {takes} operands, not {len(operands)}")
            return self.micro(name, tuple(operands), fmt)

        return emit

    def micro(self, name: str, operands: Sequence[Any], fmt: str | None = None) -> Register:
        """Add an operation; `fmt` is the format of the result of a conversion."""
        row = VECTOR_OPS[name]
        known = [
            v
            for v, kind in zip(operands, row.operands)
            if isinstance(v, Register) and kind != "bool"
        ]
        if not known:
            known = [v for v in operands if isinstance(v, Register)]
        if not known:
            raise MicrokernelError(f"{name} has no register among its operands")
        source = known[-1].fmt
        registers = [v if isinstance(v, Register) else self.const(v, source) for v in operands]
        for register in registers:
            if register.program is not self:
                raise MicrokernelError(f"an operand of {name} comes from another vector program")
        result = "int1" if row.result == "bool" else (fmt or source)
        return self._add(_Node(name, _name(result), source if row.result != "same" else _name(result),
                               tuple(r.number for r in registers), 0))  # fmt: skip

    def const(self, value: float, fmt: str) -> Register:
        """A number in a format."""
        if not isinstance(value, int | float):
            raise MicrokernelError(f"{value!r} is not a number")
        kind = formats.by_name(_name(fmt))
        if not kind.is_float and int(value) != value:
            raise MicrokernelError(f"{value!r} is not a number of {fmt}")
        if kind.is_float:
            stored = np.asarray(value, np.float64).astype(kind.storage)
            bits = int.from_bytes(stored.tobytes(), "little")
        else:
            bits = int(value) & ((1 << 8 * kind.bytes) - 1)
        return self._add(_Node(CONST, kind.name, kind.name, (), bits))

    def index(self, dim: int) -> Register:
        """The coordinate along a dim of the space, int32."""
        return self._add(_Node(INDEX, "int32", "int32", (), dim))

    def input(self, number: int, fmt: str) -> Register:
        """An operand in SRAM."""
        return self._add(_Node(IN, fmt, fmt, (), number))

    def _add(self, node: _Node) -> Register:
        self._nodes.append(node)
        return Register(self, len(self._nodes) - 1, node.fmt)

    def finish(
        self, inputs: Sequence[str], outputs: Sequence[Register], formats_: Sequence[str]
    ) -> VectorProgram:
        """The program that writes `outputs`, in the given formats."""
        nodes, results = self._nodes, [register.number for register in outputs]
        last = {source: k for k, node in enumerate(nodes) for source in node.sources}
        last.update(dict.fromkeys(results, len(nodes)))
        free = list(reversed(range(VECTOR_REGISTERS)))
        at: dict[int, int] = {}
        ops: list[MicroOp] = []
        for k, node in enumerate(nodes):
            if k not in last:
                continue
            sources = tuple(at[s] for s in node.sources)
            free += [at.pop(s) for s in dict.fromkeys(node.sources) if last[s] == k]
            if not free:
                raise MicrokernelError(
                    f"a vector program needs more than {VECTOR_REGISTERS} registers"
                )
            at[k] = free.pop()
            ops.append(MicroOp(node.op, node.fmt, node.src_fmt, at[k], sources, node.imm))
        for k, (number, fmt) in enumerate(zip(results, formats_, strict=True)):
            ops.append(MicroOp(OUT, fmt, fmt, srcs=(at[number],), imm=k))
        return VectorProgram(tuple(inputs), (), tuple(formats_), tuple(ops))


def _name(fmt: str) -> str:
    if fmt not in formats.BY_NAME:
        raise MicrokernelError(f"there is no format {fmt!r}")
    return formats.by_name(fmt).name


def trace(
    function: Callable[..., Any], inputs: Sequence[str], outputs: Sequence[str]
) -> VectorProgram:
    """The vector program of `function(v, *registers)`, which gives a register per output, alone or in a tuple.

    Raises MicrokernelError when it is not one, or a result has another format than its output.
    """
    program = Program()
    found = function(program, *(program.input(k, fmt) for k, fmt in enumerate(inputs)))
    results = found if isinstance(found, tuple) else (found,)
    if len(results) != len(outputs):
        raise MicrokernelError(
            f"the vector program gives {len(results)} results for {len(outputs)} outputs"
        )
    for k, (result, fmt) in enumerate(zip(results, outputs)):
        if not isinstance(result, Register):
            raise MicrokernelError(f"result {k} of the vector program is no register: {result!r}")
        if _width(result.fmt) != _width(fmt):
            raise MicrokernelError(
                f"result {k} of the vector program is {result.fmt}, its tile {fmt}"
            )
    made = program.finish(inputs, results, [r.fmt for r in results])
    try:
        check_program(made)
    except ValueError as error:
        raise MicrokernelError(f"the vector program is not well formed: {error}") from None
    return made


def _width(fmt: str) -> tuple[int, bool]:
    """What an output must agree in: signless integers of one width are the same to the engine."""
    known = formats.by_name(fmt)
    return known.bits, known.is_float
