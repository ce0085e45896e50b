"""Checks, prints and hints."""

from __future__ import annotations

from collections.abc import Callable

from dsalang._backend.dialects import tile

from ..dtypes import dtype
from ..parse.emit import Emitter
from ..semantics import broadcast, common_shape, materialise
from ..semantics_operators import logical, logical_not, truth
from ..values import NONE, Operand, Static, Value, describe, fail, static, static_ints, to_python


def _message(operand: Operand, what: str) -> str:
    return str(static(operand, what))


def check(condition: Operand, message: Operand) -> None:
    """A compile-time assertion."""
    known, value = to_python(condition)
    if not known:
        fail(
            f"static_assert needs a compile-time condition, not {describe(condition)}",
            "use tl.device_assert for run-time values",
        )
    if not value:
        text = _message(message, "the message")
        fail("static assertion failed" + (f": {text}" if text else ""))


def static_assert(em: Emitter, cond: Operand, msg: Operand) -> Operand:
    """Refuse the kernel when a compile-time condition is false."""
    check(cond, msg)
    return NONE


def static_print(
    em: Emitter, values: tuple[Operand, ...], sep: Operand, end: Operand, **rest: Operand
) -> Operand:
    """Print compile-time values while compiling; run-time ones by their type."""
    texts: list[str] = []
    for value in values:
        known, python = to_python(value)
        texts.append(str(python) if known else describe(value))
    em.messages.append(_message(sep, "sep").join(texts) + _message(end, "end"))
    return NONE


def device_print(em: Emitter, prefix: Operand, args: tuple[Operand, ...], hex: Operand) -> Operand:
    """Print from the device."""
    text = static(prefix, "the prefix of device_print")
    if not isinstance(text, str):
        fail(f"the prefix of device_print must be a string, not {describe(prefix)}")
    shown: list[Value] = []
    for arg in args:
        known, python = to_python(arg)
        if known and isinstance(python, str):
            text += ("" if text.endswith(" ") or not text else " ") + python
            continue
        shown.append(materialise(em, arg, "an argument of device_print"))
    unsigned = [int(not (isinstance(v.dtype, dtype) and v.dtype.signed)) for v in shown]
    em.add(tile.PrintOp(text, [v.ssa for v in shown], unsigned))
    return NONE


def device_assert(em: Emitter, cond: Operand, msg: Operand, mask: Operand) -> Operand:
    """Stop the device unless the condition holds everywhere (where the mask is true)."""
    known, value = to_python(cond)
    if known and value:
        return NONE
    condition = truth(em, cond, "device_assert")
    if not (isinstance(mask, Static) and mask.value is None):
        wanted = truth(em, mask, "the mask of device_assert")
        shape = common_shape(condition.shape, wanted.shape)
        condition = logical(
            em,
            "or",
            broadcast(em, condition, shape),
            logical_not(em, broadcast(em, wanted, shape)),
        )
    em.add(tile.AssertOp(condition.ssa, _message(msg, "the message of device_assert")))
    return NONE


def assume(em: Emitter, cond: Operand) -> Operand:
    """A hint without a use here."""
    return NONE


def debug_barrier(em: Emitter) -> Operand:
    """Nothing: the memory operations of a program keep their order anyway."""
    return NONE


def _same(em: Emitter, input: Operand, values: Operand) -> Operand:
    static_ints(values, "the values of a hint")
    return input


def _in_for_only(em: Emitter, **arguments: Operand) -> Operand:
    fail("range can only be used in for", "for i in tl.range(...):")


TABLE: dict[str, Callable[..., Operand]] = {
    "static_assert": static_assert, "static_print": static_print, "device_print": device_print,
    "device_assert": device_assert, "assume": assume, "debug_barrier": debug_barrier,
    "multiple_of": _same, "max_contiguous": _same, "max_constancy": _same, "range": _in_for_only,
    "static_range": _in_for_only,
}  # fmt: skip
