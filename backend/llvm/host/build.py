"""Building blocks of host code: constants that fold, loops, fields of an instruction, faults.

An `Int` is a 64-bit number that is either known now (a Python int) or a run-time i64. The functions on them
fold what is known, so one generator serves templates whose fields are static and those whose fields are open.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from .. import ir
from ..ir import F16, F32, F64, I1, I8, I16, I32, I64, PTR, VOID, vector
from ..ir import Value as Text
from .host import PLAIN, Host

__all__ = ("F16", "F32", "F64", "I1", "I8", "I16", "I32", "I64", "PTR", "VOID", "Text", "vector")

_TURN = "turn"

Value = Any
"""An ir.Value of some type; `Text` is one given as LLVM text, such as `splat (i32 1)`."""
Int = Any
"""int | ir.Value of type i64."""
Bool = Any
"""bool | ir.Value of type i1."""


def list_constant(element: Any, entries: Sequence[int]) -> Value:
    """A vector of known integers."""
    items = ", ".join(f"{element} {k}" for k in entries)
    return Text(vector(element, len(entries)), f"<{items}>")


def null() -> Value:
    """The null pointer."""
    return Text(PTR, "null")


def poison(type_: Any) -> Value:
    """No particular value."""
    return Text(type_, "poison")


def float_text(value: float) -> str:
    """A float in LLVM's notation, exact for every fp32 and fp64 value."""
    return f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016x}"


def constant(type_: Any, value: float) -> Value:
    """A number as a constant of a scalar type, or in all lanes of a vector type."""
    element = type_.element if isinstance(type_, ir.VectorType) else type_
    if not isinstance(element, ir.IntType):
        text = float_text(value)
    elif element.width == 1:
        text = "true" if value else "false"
    else:
        text = str(int(value))
    return Text(type_, text if element is type_ else f"splat ({element.text} {text})")


def intrinsic(module: ir.Module, name: str, result: Any, arguments: Sequence[Any]) -> Value:
    """The function `name`, declared when it is not there yet."""
    known = module.functions.get(name)
    return known or ir.Function(module, result, arguments, name)


def suffix(type_: Any) -> str:
    """The part of an overloaded intrinsic's name that stands for a type."""
    if isinstance(type_, ir.VectorType):
        return f"v{type_.count}{suffix(type_.element)}"
    names = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}
    return names.get(type_.text, str(type_))


class Code:
    """A function under construction: an IRBuilder and the folding helpers."""

    def __init__(self, function: ir.Function, host: Host = PLAIN) -> None:
        self.module, self.function, self.host = function.module, function, host
        self.entry = function.append_basic_block("entry")
        self.b: Any = ir.IRBuilder(function, self.entry)

    @property
    def looped(self) -> bool:
        """Whether there is a loop in the function."""
        return any(block.name.startswith(_TURN) for block in self.function.blocks)

    # Numbers

    def i64(self, value: Int) -> Value:
        """An Int as an LLVM value."""
        return constant(I64, value) if isinstance(value, int) else value

    def add(self, x: Int, y: Int) -> Int:
        """x + y, modulo 2^64 at run time."""
        if isinstance(x, int) and isinstance(y, int):
            return x + y
        if isinstance(x, int) and x == 0:
            return y
        if isinstance(y, int) and y == 0:
            return x
        return self.b.add(self.i64(x), self.i64(wrap(y)))

    def sub(self, x: Int, y: Int) -> Int:
        """x - y."""
        if isinstance(y, int):
            return self.add(x, -y)
        return self.b.sub(self.i64(wrap(x)), y)

    def mul(self, x: Int, y: Int) -> Int:
        """x * y."""
        if isinstance(x, int):
            x, y = y, x
        if isinstance(x, int):
            return x * y
        if isinstance(y, int) and y in (0, 1):
            return x if y else 0
        return self.b.mul(x, self.i64(wrap(y)))

    def shift_right(self, x: Int, count: int) -> Int:
        """x / 2^count, rounded down."""
        return x >> count if isinstance(x, int) else self.b.ashr(x, constant(I64, count))

    def compare(self, test: str, x: Int, y: Int) -> Bool:
        """A signed comparison."""
        if isinstance(x, int) and isinstance(y, int):
            return _COMPARE[test](x, y)
        return self.b.icmp_signed(test, self.i64(x), self.i64(y))

    def select(self, condition: Bool, x: Int, y: Int) -> Int:
        """x if condition else y."""
        if isinstance(condition, bool):
            return x if condition else y
        if isinstance(x, int) and isinstance(y, int) and x == y:
            return x
        return self.b.select(condition, self.i64(x), self.i64(y))

    def least(self, x: Int, y: Int) -> Int:
        """The smaller one."""
        return self.select(self.compare("<", x, y), x, y)

    def largest(self, x: Int, y: Int) -> Int:
        """The larger one."""
        return self.select(self.compare(">", x, y), x, y)

    def both(self, x: Bool, y: Bool) -> Bool:
        """x and y."""
        if isinstance(x, bool):
            return y if x else False
        if isinstance(y, bool):
            return x if y else False
        return self.b.and_(x, y)

    def either(self, x: Bool, y: Bool) -> Bool:
        """x or y."""
        if isinstance(x, bool):
            return True if x else y
        if isinstance(y, bool):
            return True if y else x
        return self.b.or_(x, y)

    def negate(self, x: Bool) -> Bool:
        """not x."""
        return not x if isinstance(x, bool) else self.b.not_(x)

    # Vectors

    def shuffle(self, x: Value, y: Value, entries: Sequence[int]) -> Value:
        """Lanes of x and y, counted through both."""
        return self.b.shuffle_vector(x, y, list_constant(I32, entries))

    def splat(self, value: Value, lanes: int) -> Value:
        """A scalar in all lanes."""
        none = poison(vector(value.type, lanes))
        first = self.b.insert_element(none, value, constant(I32, 0))
        return self.shuffle(first, none, [0] * lanes)

    # Memory

    def at(self, base: Value, offset: Int) -> Value:
        """base + offset bytes."""
        if isinstance(offset, int) and offset == 0:
            return base
        return self.b.gep(base, [self.i64(offset)], source_etype=I8)

    def load(self, type_: Any, base: Value, offset: Int = 0) -> Value:
        """A load at any alignment."""
        return self.b.load(self.at(base, offset), typ=type_, align=1)

    def store(self, value: Value, base: Value, offset: Int = 0) -> None:
        """A store at any alignment."""
        self.b.store(value, self.at(base, offset), align=1)

    def call(self, name: str, result: Any, *arguments: Value) -> Value:
        """Call an intrinsic or library function that is not overloaded."""
        function = intrinsic(self.module, name, result, [a.type for a in arguments])
        return self.b.call(function, arguments)

    def math(self, name: str, *arguments: Value) -> Value:
        """Call llvm.`name`, overloaded on the type of its operands, which is the result's."""
        type_ = arguments[0].type
        return self.call(f"llvm.{name}.{suffix(type_)}", type_, *arguments)

    def copy(self, to: Value, source: Value, bytes_: Int) -> None:
        """Copy between places that do not overlap."""
        flag = constant(I1, 0)
        self.call("llvm.memcpy.p0.p0.i64", VOID, to, source, self.i64(bytes_), flag)

    def prefetch(self, place: Value, write: bool = False) -> None:
        """Have the cache line at a place fetched, to be written if `write`; any address will do."""
        most, data = constant(I32, 3), constant(I32, 1)
        self.call("llvm.prefetch.p0", VOID, place, constant(I32, int(write)), most, data)

    def allocate(self, bytes_: int) -> Value:
        """Memory of this call, 64-byte aligned."""
        memory = Text(PTR, self.b.name())
        line = f"  {memory.text} = alloca {ir.ArrayType(I8, max(bytes_, 1))}, align 64"
        self.entry.lines.insert(0, line)
        return memory

    # Control flow

    def when(self, condition: Bool, body: Callable[[], None]) -> None:
        """Run `body` if the condition holds."""
        if isinstance(condition, bool):
            if condition:
                body()
            return
        with self.b.if_then(condition):
            body()

    def loop(
        self,
        start: Int,
        stop: Int,
        body: Callable[..., Sequence[Value] | None],
        step: Int = 1,
        carried: Sequence[Value] = (),
    ) -> list[Value]:
        """for i in range(start, stop, step): carried = body(i, *carried); the last carried values.

        `step` is positive. A single turn becomes no loop.
        """
        if all(isinstance(x, int) for x in (start, stop, step)):
            turns = -(-(stop - start) // step)
            if turns <= 0:
                return list(carried)
            if turns == 1:
                return list(body(start, *carried) or ())
            return self._turns(start, stop, step, body, carried)
        before = self.b.block
        inside = self.b.append_basic_block("loop")
        after = self.b.append_basic_block("after")
        self.b.cbranch(self.compare("<", start, stop), inside, after)
        self.b.position_at_end(inside)
        last = self._turns(start, stop, step, body, carried)
        end = self.b.block
        self.b.branch(after)
        self.b.position_at_end(after)
        results = []
        for old, new in zip(carried, last, strict=True):
            phi = self.b.phi(old.type)
            phi.add_incoming(old, before)
            phi.add_incoming(new, end)
            results.append(phi)
        return results

    def _turns(
        self,
        start: Int,
        stop: Int,
        step: Int,
        body: Callable[..., Sequence[Value] | None],
        carried: Sequence[Value],
    ) -> list[Value]:
        """At least one turn."""
        before = self.b.block
        head = self.b.append_basic_block(_TURN)
        self.b.branch(head)
        self.b.position_at_end(head)
        index = self.b.phi(I64)
        index.add_incoming(self.i64(start), before)
        phis = [self.b.phi(value.type) for value in carried]
        for phi, value in zip(phis, carried):
            phi.add_incoming(value, before)
        results = list(body(index, *phis) or ())
        following = self.b.add(index, self.i64(step))
        again = self.b.icmp_signed("<", following, self.i64(stop))
        end = self.b.block
        after = self.b.append_basic_block("done")
        self.b.cbranch(again, head, after)
        index.add_incoming(following, end)
        for phi, value in zip(phis, results, strict=True):
            phi.add_incoming(value, end)
        self.b.position_at_end(after)
        return results


def wrap(value: Int) -> Int:
    """A known number as a signed 64-bit one."""
    if isinstance(value, int):
        value &= (1 << 64) - 1
        return value - (1 << 64) if value >> 63 else value
    return value


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
}
