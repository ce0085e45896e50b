"""Operations that combine the elements along a dim: products, reductions, scans."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, StringAttr, TensorType, i1, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)

from ...formats import OPERANDS, Format
from ...isa.table import SCALE_BLOCK
from ..attributes import i32_attribute, integer, segments, text
from ..definition import PureOp, op_definition, require
from ..types import element_type, format_of, shape_of, with_shape

REDUCE_KINDS = (
    "fsum", "fprod", "fmax", "fmin", "fmaxnum", "fminnum", "isum", "iprod",
    "smax", "smin", "umax", "umin", "and", "or", "xor",
)  # fmt: skip
ARG_KINDS = ("fmax", "fmin", "fmaxnum", "fminnum", "smax", "smin", "umax", "umin")


@op_definition
class DotOp(PureOp):
    """acc + a·b over the last two dims (a leading batch dim may stand before them).

    The format of acc is fp32, bf16 or int32. A missing acc means zeros; the result type says the format.
    `format_a` and `format_b` are what the elements of an operand hold where the type does not say it: `uint8`,
    or a packed format, whose bytes hold two numbers that are neighbours along K. `scale_a` [M, G] and `scale_b` [N, G]
    are E8M0 bytes, one per G-th part of K, or per 32 numbers along K (the last block may be shorter).
    """

    name = "tile.dot"
    a = operand_def(TensorType)
    b = operand_def(TensorType)
    acc = opt_operand_def(TensorType)
    scale_a = opt_operand_def(TensorType)
    scale_b = opt_operand_def(TensorType)
    format_a = opt_prop_def(StringAttr)
    format_b = opt_prop_def(StringAttr)
    result = result_def(TensorType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        a: SSAValue,
        b: SSAValue,
        acc: SSAValue | None,
        result_type: Attribute,
        scales: tuple[SSAValue | None, SSAValue | None] = (None, None),
        formats: tuple[str | None, str | None] = (None, None),
    ) -> None:
        named = zip(("format_a", "format_b"), formats)
        super().__init__(
            operands=[a, b, acc, *scales],
            properties={name: text(fmt) for name, fmt in named if fmt},
            result_types=[result_type],
        )

    def drop_accumulator(self) -> None:
        """Start from zeros."""
        scales = [scale for scale in (self.scale_a, self.scale_b) if scale is not None]
        sizes = (1, 1, 0, int(self.scale_a is not None), int(self.scale_b is not None))
        self.operands = (self.a, self.b, *scales)
        self.properties["operandSegmentSizes"] = segments(sizes)

    @property
    def formats(self) -> tuple[Format, Format]:
        """What the operands hold."""
        pairs = ((self.a, self.format_a), (self.b, self.format_b))
        return (*(format_of(v.type) if f is None else OPERANDS[f.data] for v, f in pairs),)  # type: ignore[return-value]

    @property
    def k(self) -> int:
        """Numbers that each product sums; even where an operand is packed."""
        return shape_of(self.a.type)[-1] * self.formats[0].per_element

    def block(self, scale: SSAValue) -> int:
        """Numbers along K that share a scale of `scale_a` or `scale_b`."""
        count = shape_of(scale.type)[-1]
        return SCALE_BLOCK if count == -(-self.k // SCALE_BLOCK) else self.k // count

    def takes_scale(self, scale: SSAValue | None) -> bool:
        """Whether `mma` can read scales of the op as they are: E8M0, one per 32 numbers (or none at all)."""
        if scale is None:
            return True
        return format_of(scale.type).name == "int8" and self.block(scale) == SCALE_BLOCK

    def verify_(self) -> None:
        a, b, d = (shape_of(v.type) for v in (self.a, self.b, self.result))
        require(len(a) == len(b) == len(d) and len(a) in (2, 3), "dot takes tiles of rank 2 or 3")
        same = self.k == b[-2] * self.formats[1].per_element
        ok = same and d[-2:] == (a[-2], b[-1]) and a[:-2] == b[:-2] == d[:-2]
        require(ok, f"dot of {a} and {b} does not give {d}")
        require(self.acc is None or self.acc.type == self.result.type, "accumulator differs")
        for scale, along in ((self.scale_a, a[-2]), (self.scale_b, b[-1])):
            if scale is not None:
                shape, block = shape_of(scale.type), self.block(scale)
                fits = shape[:-1] == (*a[:-2], along) and shape[-1] == -(-self.k // max(block, 1))
                require(fits, f"scales of shape {shape} for a dot of {a} and {b}")


def _reduced(value: SSAValue, axis: int, element: Attribute | None = None) -> Attribute:
    """The type of a tile without one of its axes, of its own elements or of others."""
    shape = list(shape_of(value.type))
    del shape[axis]
    return with_shape(element or element_type(value.type), tuple(shape))


@op_definition
class ReduceOp(PureOp):
    """Reduce `axis` away by a kind of REDUCE_KINDS; rank 1 gives a scalar."""

    name = "tile.reduce"
    kind = prop_def(StringAttr)
    axis = prop_def(IntegerAttr)
    value = operand_def(TensorType)
    result = result_def()

    def __init__(self, kind: str, value: SSAValue, axis: int) -> None:
        super().__init__(
            operands=[value],
            properties={"kind": text(kind), "axis": i32_attribute(axis)},
            result_types=[_reduced(value, axis)],
        )

    def verify_(self) -> None:
        require(self.kind.data in REDUCE_KINDS, f"unknown reduction {self.kind.data!r}")


@op_definition
class ArgReduceOp(PureOp):
    """Extreme value and its int32 position (the first one on ties) along `axis`.

    A NaN wins, for fmaxnum and fminnum it loses.
    """

    name = "tile.arg_reduce"
    kind = prop_def(StringAttr)
    axis = prop_def(IntegerAttr)
    value = operand_def(TensorType)
    result = result_def()
    position = result_def()

    def __init__(self, kind: str, value: SSAValue, axis: int) -> None:
        super().__init__(
            operands=[value],
            properties={"kind": text(kind), "axis": i32_attribute(axis)},
            result_types=[_reduced(value, axis), _reduced(value, axis, i32)],
        )

    def verify_(self) -> None:
        require(self.kind.data in ARG_KINDS, f"unknown reduction {self.kind.data!r}")


@op_definition
class ScanOp(PureOp):
    """Inclusive scan along `axis`."""

    name = "tile.scan"
    kind = prop_def(StringAttr)
    axis = prop_def(IntegerAttr)
    reverse = prop_def(IntegerAttr)
    value = operand_def(TensorType)
    result = result_def(TensorType)

    def __init__(self, kind: str, value: SSAValue, axis: int, reverse: bool) -> None:
        super().__init__(
            operands=[value],
            properties={
                "kind": text(kind),
                "axis": i32_attribute(axis),
                "reverse": integer(int(reverse), i1),
            },
            result_types=[value.type],
        )
