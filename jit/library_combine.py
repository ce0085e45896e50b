"""The functions with which Triton combines in reductions and scans; kernels pass them to `tl.reduce` themselves."""

from __future__ import annotations

from typing import Any

from . import builtins as tl
from .builtin import defined


@defined()
def _sum_combine(a: Any, b: Any) -> Any:
    """The sum."""
    return a + b


@defined()
def _prod_combine(a: Any, b: Any) -> Any:
    """The product."""
    return a * b


@defined()
def _xor_combine(a: Any, b: Any) -> Any:
    """Bitwise exclusive or."""
    return a ^ b


@defined()
def _or_combine(a: Any, b: Any) -> Any:
    """Bitwise or."""
    return a | b


@defined()
def _elementwise_max(a: Any, b: Any) -> Any:
    """The larger one."""
    return tl.maximum(a, b)


@defined()
def _elementwise_min(a: Any, b: Any) -> Any:
    """The smaller one."""
    return tl.minimum(a, b)


@defined()
def _argmax_combine(value1: Any, index1: Any, value2: Any, index2: Any, tie_break_left: Any) -> Any:
    """The larger value with its index, of equal ones the smaller index if tie_break_left."""
    first = value1 > value2
    if tie_break_left:
        first = first | ((value1 == value2) & (index1 < index2))
    return tl.where(first, value1, value2), tl.where(first, index1, index2)


@defined()
def _argmax_combine_tie_break_left(value1: Any, index1: Any, value2: Any, index2: Any) -> Any:
    """The larger value with its index, of equal ones the smaller index."""
    return _argmax_combine(value1, index1, value2, index2, True)


@defined()
def _argmax_combine_tie_break_fast(value1: Any, index1: Any, value2: Any, index2: Any) -> Any:
    """The larger value with its index."""
    return _argmax_combine(value1, index1, value2, index2, False)


@defined()
def _argmin_combine(value1: Any, index1: Any, value2: Any, index2: Any, tie_break_left: Any) -> Any:
    """The smaller value with its index, of equal ones the smaller index if tie_break_left."""
    first = value1 < value2
    if tie_break_left:
        first = first | ((value1 == value2) & (index1 < index2))
    return tl.where(first, value1, value2), tl.where(first, index1, index2)


@defined()
def _argmin_combine_tie_break_left(value1: Any, index1: Any, value2: Any, index2: Any) -> Any:
    """The smaller value with its index, of equal ones the smaller index."""
    return _argmin_combine(value1, index1, value2, index2, True)


@defined()
def _argmin_combine_tie_break_fast(value1: Any, index1: Any, value2: Any, index2: Any) -> Any:
    """The smaller value with its index."""
    return _argmin_combine(value1, index1, value2, index2, False)
