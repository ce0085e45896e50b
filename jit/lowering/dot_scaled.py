"""The matrix product of operands in block formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dsalang._backend.dialects import tile
from dsalang._backend.formats import OPERANDS, Format

from .. import dtypes
from ..dtypes import dtype
from ..parse.emit import Emitter
from ..semantics import bitcast, cast
from ..values import Operand, Value, fail, ir_type, shape_text, static, static_bool
from ..values import tile as need_tile
from .dot import accumulator, result_types
from .indexing import element, interleaved
from .shape import reshaped

_BYTES = (dtypes.uint8, dtypes.int8)
_WORDS = (dtypes.uint16, dtypes.int16)
_FORMATS: dict[str, tuple[str, dtype, tuple[dtype, ...]]] = {
    "e2m1": ("fp4e2m1", dtypes.uint8, _BYTES),
    "e4m3": ("fp8e4m3", dtypes.float8e4nv, _BYTES),
    "e5m2": ("fp8e5m2", dtypes.float8e5, _BYTES),
    "bf16": ("bf16", dtypes.bfloat16, _WORDS),
    "fp16": ("fp16", dtypes.float16, _WORDS),
    "int8": ("int8", dtypes.int8, _BYTES),
    "uint8": ("uint8", dtypes.uint8, _BYTES),
    "int4": ("int4", dtypes.uint8, _BYTES),
    "uint4": ("uint4", dtypes.uint8, _BYTES),
}
"""By the language's name: the machine's format, the type of a tile of it, and the types that are taken for it."""


@dataclass(frozen=True)
class _Side:
    """An operand: `dims` are that of M (or N) and that of K."""

    value: Value
    fmt: Format
    scale: Value | None
    dims: tuple[int, int]

    @property
    def k(self) -> int:
        return self.value.shape[self.dims[1]] * self.fmt.per_element

    @property
    def along(self) -> int:
        return self.value.shape[self.dims[0]]


def dot_scaled(
    em: Emitter,
    lhs: Operand,
    lhs_scale: Operand,
    lhs_format: Operand,
    rhs: Operand,
    rhs_scale: Operand,
    rhs_format: Operand,
    acc: Operand,
    lhs_k_pack: Operand,
    rhs_k_pack: Operand,
    out_dtype: Operand,
    **hints: Operand,
) -> Operand:
    """acc + lhs · rhs, each with its scales."""
    a = _side(em, "lhs", lhs, lhs_scale, lhs_format, lhs_k_pack)
    b = _side(em, "rhs", rhs, rhs_scale, rhs_format, rhs_k_pack)
    batch = a.value.shape[:-2]
    if batch != b.value.shape[:-2]:
        fail(f"the batch sizes of dot_scaled differ: {a.value.type} and {b.value.type}")
    if a.k != b.k:
        fail(
            f"the inner sizes of dot_scaled differ: lhs {shape_text(a.value.shape)} has K = {a.k}, "
            f"rhs {shape_text(b.value.shape)} has K = {b.k}",
            "e2m1, int4 and uint4 are packed two per byte along K, or along the other dim without k_pack",
        )
    for name, side in (("lhs", a), ("rhs", b)):
        _check_scale(name, side, batch)
    shape = (*batch, a.along, b.along)
    integers = not any(side.fmt.is_float or side.scale for side in (a, b))
    kind = dtypes.int8 if integers else dtypes.bfloat16
    result, inner = result_types(kind, acc, out_dtype, "dot_scaled")
    start = accumulator(em, acc, inner, shape)
    op = tile.DotOp(
        a.value.ssa,
        b.value.ssa,
        start,
        ir_type(inner, shape),
        (a.scale.ssa if a.scale else None, b.scale.ssa if b.scale else None),
        (_named(a), _named(b)),
    )
    return cast(em, Value(em.add(op).result, inner, shape), result)


def _side(
    em: Emitter, name: str, value: Operand, scale: Operand, fmt: Operand, k_pack: Operand
) -> _Side:
    kind = static(fmt, f"{name}_format")
    if kind not in _FORMATS:
        fail(f"{name}_format of dot_scaled is one of {', '.join(_FORMATS)}, not {kind!r}")
    machine, wanted, others = _FORMATS[kind]
    given = need_tile(value, f"{name} of dot_scaled")
    if len(given.shape) not in (2, 3):
        fail(f"{name} of dot_scaled is a tile of rank 2 (or 3), not {given.type}")
    if given.dtype != wanted and given.dtype not in others:
        fail(f"{name} of dot_scaled is {kind}, a tile of {wanted} or {others[0]}, not {given.type}")
    rank = len(given.shape)
    dims = (rank - 2, rank - 1) if name == "lhs" else (rank - 1, rank - 2)
    given = bitcast(em, given, wanted)
    side = _Side(given, OPERANDS[machine], _scale(name, scale), dims)
    if static_bool(k_pack, f"{name}_k_pack"):
        return side
    if side.fmt.per_element == 1:
        fail(f"{name}_k_pack=False is for packed formats, not {kind}")
    if given.shape[dims[1]] % 2:
        fail(f"{name} of dot_scaled: K = {given.shape[dims[1]]} is odd, so {kind} has no pairs")
    return _Side(_pairs_along_k(em, given, dims), side.fmt, side.scale, dims)


def _scale(name: str, scale: Operand) -> Value | None:
    if not isinstance(scale, Value):
        if static(scale, f"{name}_scale") is not None:
            fail(f"{name}_scale of dot_scaled is a tile of uint8 (E8M0) or None")
        return None
    given = need_tile(scale, f"{name}_scale of dot_scaled")
    if given.dtype not in (*_BYTES, dtypes.float8e4nv):
        fail(f"{name}_scale of dot_scaled is a tile of uint8 (E8M0), not {given.type}")
    return given


def _check_scale(name: str, side: _Side, batch: tuple[int, ...]) -> None:
    if side.scale is None:
        return
    shape, k = side.scale.shape, side.k
    blocks = -(-k // 32)
    count = shape[-1] if shape else 0
    equal = count and k % count == 0 and k // count % 16 == 0
    if shape[:-1] != (*batch, side.along) or not (count == blocks or equal):
        letter = "M" if name == "lhs" else "N"
        fail(
            f"{name}_scale of dot_scaled has shape {shape_text(shape)}, not "
            f"{shape_text((*batch, side.along, blocks))}",
            f"it is [{letter}, K / 32]: a scale for every 32 numbers along K = {k}, or for 16, 64, 96, …",
        )


def _named(side: _Side) -> str | None:
    """The format's name where the tile's type does not say it."""
    plain = side.fmt.per_element == 1 and side.fmt.name != "uint8"
    return None if plain else side.fmt.name


def _pairs_along_k(em: Emitter, value: Value, dims: tuple[int, int]) -> Value:
    """A tile whose bytes hold neighbours along M or N as one whose bytes hold neighbours along K."""
    along, k = dims
    shape = (*value.shape[:k], value.shape[k] // 2, 2, *value.shape[k + 1 :])
    pairs = reshaped(em, value, shape)
    first, second = (element(em, pairs, k + 1, n) for n in (0, 1))
    four, low, high = (em.constant(c, dtypes.uint8, first.shape) for c in (4, 0x0F, 0xF0))

    def op(name: str, x: Value, y: Value) -> Value:
        return em.map(name, [x, y])

    even = op("ior", op("iand", first, low), op("shl", second, four))
    odd = op("ior", op("lshr", first, four), op("iand", second, high))
    return interleaved(em, even, odd, along)


TABLE: dict[str, Callable[..., Operand]] = {"dot_scaled": dot_scaled}
