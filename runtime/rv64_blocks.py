"""Basic blocks of RV64IM code, as Python runs them.

A new block is interpreted, one that has run often is translated to a Python function: most blocks of most kernels run a
few times, and a translation takes as long as a hundred interpreted instructions. What an instruction means stands in one
table of expressions that both use.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from dsalang._backend.errors import ImageError
from dsalang._backend.isa.rv64 import CALLS, Decoded, decode_rv64

MASK = (1 << 64) - 1
OFTEN = 16
"""Runs of a block before it is translated."""

Step = Callable[[list[int], bytearray], int]
Operation = Callable[[int, int], int]


def _s64(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _s32(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def _quotient(a: int, b: int) -> int:
    """C's quotient: towards zero. The divisor is not 0."""
    q = abs(a) // abs(b)
    return -q if (a < 0) != (b < 0) else q


def _div(a: int, b: int) -> int:
    return -1 if b == 0 else _quotient(a, b)


def _rem(a: int, b: int) -> int:
    return a if b == 0 else a - b * _quotient(a, b)


def _divu(a: int, b: int) -> int:
    return -1 if b == 0 else a // b


def _remu(a: int, b: int) -> int:
    return a if b == 0 else a % b


# Registers hold unsigned 64-bit values; {a} and {b} are rs1 and rs2 (or the immediate), and every
# result is masked by the caller.
_BINARY: dict[str, str] = {
    "add": "{a} + {b}",
    "sub": "{a} - {b}",
    "sll": "{a} << ({b} & 63)",
    "slt": "+(({a} ^ SIGN) < (({b}) & MASK ^ SIGN))",
    "sltu": "+({a} < (({b}) & MASK))",
    "xor": "{a} ^ {b}",
    "srl": "{a} >> ({b} & 63)",
    "sra": "s64({a}) >> ({b} & 63)",
    "or": "{a} | {b}",
    "and": "{a} & {b}",
    "mul": "{a} * {b}",
    "mulh": "s64({a}) * s64({b}) >> 64",
    "mulhsu": "s64({a}) * {b} >> 64",
    "mulhu": "{a} * {b} >> 64",
    "div": "div(s64({a}), s64({b}))",
    "divu": "divu({a}, {b})",
    "rem": "rem(s64({a}), s64({b}))",
    "remu": "remu({a}, {b})",
    "addw": "s32({a} + {b})",
    "subw": "s32({a} - {b})",
    "sllw": "s32({a} << ({b} & 31))",
    "srlw": "s32(({a} & 0xFFFFFFFF) >> ({b} & 31))",
    "sraw": "s32({a}) >> ({b} & 31)",
    "mulw": "s32({a} * {b})",
    "divw": "s32(div(s32({a}), s32({b})))",
    "divuw": "s32(divu({a} & 0xFFFFFFFF, {b} & 0xFFFFFFFF))",
    "remw": "s32(rem(s32({a}), s32({b})))",
    "remuw": "s32(remu({a} & 0xFFFFFFFF, {b} & 0xFFFFFFFF))",
}
_IMMEDIATE = {
    "addi": "add", "slti": "slt", "sltiu": "sltu", "xori": "xor", "ori": "or", "andi": "and",
    "slli": "sll", "srli": "srl", "srai": "sra", "addiw": "addw", "slliw": "sllw",
    "srliw": "srlw", "sraiw": "sraw",
}  # fmt: skip
_BRANCH = {
    "beq": "{a} == {b}",
    "bne": "{a} != {b}",
    "blt": "({a} ^ SIGN) < ({b} ^ SIGN)",
    "bge": "({a} ^ SIGN) >= ({b} ^ SIGN)",
    "bltu": "{a} < {b}",
    "bgeu": "{a} >= {b}",
}
_LOADS = {
    name: struct.Struct(layout)
    for name, layout in (
        ("lb", "<b"), ("lh", "<h"), ("lw", "<i"), ("ld", "<Q"), ("lbu", "<B"), ("lhu", "<H"), ("lwu", "<I"),
    )
}  # fmt: skip
_STORES = {
    "sb": (struct.Struct("<B"), 0xFF),
    "sh": (struct.Struct("<H"), 0xFFFF),
    "sw": (struct.Struct("<I"), 0xFFFFFFFF),
    "sd": (struct.Struct("<Q"), MASK),
}
_ENDS = ("jal", "jalr")

_NAMES: dict[str, object] = {
    "MASK": MASK, "SIGN": 1 << 63, "s64": _s64, "s32": _s32,
    "div": _div, "rem": _rem, "divu": _divu, "remu": _remu,
    **{f"get_{name}": layout.unpack_from for name, layout in _LOADS.items()},
    **{f"put_{name}": layout.pack_into for name, (layout, _) in _STORES.items()},
}  # fmt: skip


class Block:
    """A basic block: instructions one after the other, the last of which says where to go on.

    Attributes:
        call: (rd, funct3, rs1, rs2) of its last instruction when that is a custom-0 call.
    """

    def __init__(self, code: bytes, base: int, pc: int) -> None:
        """Decode the block at `pc` of code that starts at address `base`. Raises ImageError."""
        self._base = base
        self._body: list[Decoded] = []
        while True:
            d = _decoded(code, base, pc)
            if d.mnemonic in _BRANCH or d.mnemonic in _ENDS or d.mnemonic.startswith("dsa."):
                break
            if d.mnemonic == "auipc":
                d = d._replace(mnemonic="lui", imm=pc + d.imm)
            if d.rd or d.mnemonic in _STORES:  # others have no effect
                self._body.append(d)
            pc += 4
        self._last, self._next = d, pc + 4
        self.call: tuple[int, int, int, int] | None = None
        if d.mnemonic.startswith("dsa."):
            self.call = d.rd, CALLS.index(d.mnemonic.removeprefix("dsa.")), d.rs1, d.rs2
        self._runs = 0
        self._function: Step | None = None

    def step(self, x: list[int], m: bytearray) -> int:
        """Run it once with registers and memory; the next pc.

        Raises struct.error, OverflowError or IndexError when it accesses memory outside its own.
        """
        if self._function is not None:
            return self._function(x, m)
        self._runs += 1
        if self._runs > OFTEN:
            self._function = _translated(self._body, self._last, self._base, self._next)
            return self._function(x, m)
        for d in self._body:
            name, a = d.mnemonic, x[d.rs1]
            if name in _BINARY:
                x[d.rd] = _operation(name)(a, x[d.rs2])
            elif name in _IMMEDIATE:
                x[d.rd] = _operation(_IMMEDIATE[name])(a, d.imm)
            elif name in _LOADS:
                x[d.rd] = _LOADS[name].unpack_from(m, a + d.imm - self._base & MASK)[0] & MASK
            elif name in _STORES:
                layout, mask = _STORES[name]
                layout.pack_into(m, a + d.imm - self._base & MASK, x[d.rs2] & mask)
            else:
                x[d.rd] = d.imm & MASK
        return self._end(x)

    def _end(self, x: list[int]) -> int:
        """The last instruction; the next pc."""
        d, following = self._last, self._next
        if d.mnemonic in _BRANCH:
            taken = _condition(d.mnemonic)(x[d.rs1], x[d.rs2])
            return following - 4 + d.imm if taken else following
        if d.mnemonic == "jal":
            target = following - 4 + d.imm
        elif d.mnemonic == "jalr":
            # Before rd is written: rd and rs1 may be the same register.
            target = x[d.rs1] + d.imm & MASK - 1
        else:
            return following
        if d.rd:
            x[d.rd] = following
        return target


def _decoded(code: bytes, base: int, pc: int) -> Decoded:
    offset = pc - base
    if offset % 4 or not 0 <= offset <= len(code) - 4:
        raise ImageError(f"the control core jumped to {pc:#x}, which is outside its code")
    word = int.from_bytes(code[offset : offset + 4], "little")
    d = decode_rv64(word)
    if d is None:
        raise ImageError(f"the control core met an unknown instruction {word:#010x} at {pc:#x}")
    return d


@cache
def _operation(name: str) -> Operation:
    """An operation as a function of two register values (or an immediate)."""
    text = _BINARY[name].format(a="a", b="b")
    operation: Operation = eval(f"lambda a, b: ({text}) & MASK", dict(_NAMES))
    return operation


@cache
def _condition(name: str) -> Operation:
    """A branch's condition as a function of two register values."""
    condition: Operation = eval(f"lambda a, b: {_BRANCH[name].format(a='a', b='b')}", dict(_NAMES))
    return condition


@dataclass
class _Source:
    """Python source of a block under construction. Registers become locals, written back at the end."""

    base: int
    lines: list[str] = field(default_factory=list)
    used: set[int] = field(default_factory=set)
    written: set[int] = field(default_factory=set)

    def read(self, register: int) -> str:
        if register == 0:
            return "0"
        self.used.add(register)
        return f"x{register}"

    def write(self, register: int, expression: str) -> None:
        if register:
            self.used.add(register)
            self.written.add(register)
            self.lines.append(f"x{register} = ({expression}) & MASK")

    def emit(self, d: Decoded) -> None:
        """Translate an instruction that is not a jump, a branch or a call."""
        name = d.mnemonic
        if name in _BINARY:
            self.write(d.rd, _BINARY[name].format(a=self.read(d.rs1), b=self.read(d.rs2)))
        elif name in _IMMEDIATE:
            text = _BINARY[_IMMEDIATE[name]]
            self.write(d.rd, text.format(a=self.read(d.rs1), b=f"({d.imm})"))
        elif name in _LOADS:
            where = f"({self.read(d.rs1)} + {d.imm - self.base}) & MASK"
            self.write(d.rd, f"get_{name}(m, {where})[0]")
        elif name in _STORES:
            where = f"({self.read(d.rs1)} + {d.imm - self.base}) & MASK"
            self.lines.append(f"put_{name}(m, {where}, {self.read(d.rs2)} & {_STORES[name][1]:#x})")
        else:  # lui
            self.write(d.rd, str(d.imm))

    def function(self, result: str) -> Step:
        body = [f"x{r} = x[{r}]" for r in sorted(self.used)] + self.lines
        body += [f"x[{r}] = x{r}" for r in sorted(self.written)] + [f"return {result}"]
        text = "def step(x, m):\n" + "".join(f"    {line}\n" for line in body)
        scope = dict(_NAMES)
        exec(compile(text, "<rv64 block>", "exec"), scope)
        step: Step = scope["step"]  # type: ignore[assignment]
        return step


def _translated(body: list[Decoded], last: Decoded, base: int, following: int) -> Step:
    """A block as a Python function."""
    source = _Source(base)
    for d in body:
        source.emit(d)
    if last.mnemonic in _BRANCH:
        test = _BRANCH[last.mnemonic].format(a=source.read(last.rs1), b=source.read(last.rs2))
        return source.function(f"{following - 4 + last.imm} if {test} else {following}")
    if last.mnemonic == "jal":
        source.write(last.rd, str(following))
        return source.function(str(following - 4 + last.imm))
    if last.mnemonic == "jalr":
        # The target is read first: rd and rs1 may be the same register.
        source.lines.append(f"target = ({source.read(last.rs1)} + {last.imm}) & {MASK - 1}")
        source.write(last.rd, str(following))
        return source.function("target")
    return source.function(str(following))
