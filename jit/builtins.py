"""The builtins of the language: names, signatures and what they mean.

The compiler's side of each is in `lowering/`, the interpreter's in `interpreter.py`. Below, "value" means
a scalar or a tile. Arguments that are hints on GPUs (caches, eviction, scheduling) are accepted and change
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .builtin import builtin
from .dtypes import float32


def _cdiv(x: int, div: int) -> int:
    return -(-x // div)


def _next_power_of_2(n: int) -> int:
    return 1 << (n - 1).bit_length() if n > 1 else 1


def _empty(shape: int | Sequence[int], dtype: Any) -> Any:
    from .devices import empty  # the language is imported without devices

    return empty(shape, dtype)


# ---- programs -------------------------------------------------------------------------------------


@builtin()
def program_id(axis: int) -> Any:
    """The index (int32) of this program along grid axis 0, 1 or 2."""


@builtin()
def num_programs(axis: int) -> Any:
    """The size (int32) of the grid along axis 0, 1 or 2."""


# ---- making tiles ---------------------------------------------------------------------------------


@builtin()
def arange(start: int, end: int) -> Any:
    """start, start + 1, …, end - 1 as an int32 tile; both bounds are compile-time, any length."""


@builtin()
def zeros(shape: Any, dtype: Any) -> Any:
    """A tile of zeros."""


@builtin(host=_empty)
def empty(shape: Any, dtype: Any) -> Any:
    """A tile whose contents do not matter (zeros here). Outside kernels, an array on the current device."""


@builtin()
def zeros_like(input: Any) -> Any:
    """Zeros with the shape and type of a tile."""


@builtin()
def full(shape: Any, value: Any, dtype: Any) -> Any:
    """A tile filled with a scalar, converted to dtype."""


@builtin(method=True)
def cast(input: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: bool = False) -> Any:
    """Convert to dtype (nearest even; float to int truncates); bitcast keeps the bits."""


# ---- memory ---------------------------------------------------------------------------------------


@builtin(method=True)
def load(
    pointer: Any,
    mask: Any = None,
    other: Any = None,
    boundary_check: Any = (),
    padding_option: str = "",
    cache_modifier: str = "",
    eviction_policy: str = "",
    volatile: bool = False,
) -> Any:
    """Load through a pointer or a tile of pointers; where mask is false the result is other (0 if absent)."""


@builtin(method=True)
def store(
    pointer: Any,
    value: Any,
    mask: Any = None,
    boundary_check: Any = (),
    cache_modifier: str = "",
    eviction_policy: str = "",
) -> None:
    """Store through a pointer or a tile of pointers where mask is true."""


@builtin()
def make_block_ptr(
    base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any
) -> Any:
    """A window of an array: load and store take it in place of a tile of pointers."""


@builtin(method=True)
def advance(base: Any, offsets: Any) -> Any:
    """A block pointer moved by offsets, one per dim."""


@builtin()
def make_tensor_descriptor(
    base: Any, shape: Any, strides: Any, block_shape: Any, padding_option: str = "zero"
) -> Any:
    """An array whose blocks `.load(offsets)` and `.store(offsets, value)` access; outside it reads 0, or nan."""


@builtin()
def load_tensor_descriptor(desc: Any, offsets: Any) -> Any:
    """The block of a tensor descriptor at offsets; `desc.load(offsets)` is the same."""


@builtin()
def store_tensor_descriptor(desc: Any, offsets: Any, value: Any) -> None:
    """Store a block through a tensor descriptor; `desc.store(offsets, value)` is the same."""


@builtin(method=True)
def atomic_add(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
    """Add in memory; gives the old values."""


@builtin(method=True)
def atomic_max(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
    """Maximum in memory; gives the old values."""


@builtin(method=True)
def atomic_min(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
    """Minimum in memory; gives the old values."""


@builtin(method=True)
def atomic_and(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
    """Bitwise and in memory; gives the old values."""


@builtin(method=True)
def atomic_or(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
    """Bitwise or in memory; gives the old values."""


@builtin(method=True)
def atomic_xor(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
    """Bitwise exclusive or in memory; gives the old values."""


@builtin(method=True)
def atomic_xchg(
    pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None
) -> Any:
    """Exchange with memory; gives the old values."""


@builtin(method=True)
def atomic_cas(pointer: Any, cmp: Any, val: Any, sem: Any = None, scope: Any = None) -> Any:
    """Store val where memory equals cmp; gives the old values."""


# ---- elementwise ----------------------------------------------------------------------------------


@builtin()
def where(condition: Any, x: Any, y: Any) -> Any:
    """x where condition is true, else y; both are evaluated."""


@builtin()
def maximum(x: Any, y: Any, propagate_nan: Any = None) -> Any:
    """Larger of x and y; a NaN loses unless propagate_nan is PropagateNan.ALL."""


@builtin()
def minimum(x: Any, y: Any, propagate_nan: Any = None) -> Any:
    """Smaller of x and y; a NaN loses unless propagate_nan is PropagateNan.ALL."""


@builtin()
def clamp(x: Any, min: Any, max: Any, propagate_nan: Any = None) -> Any:
    """X limited to [min, max]; a NaN in x gives min unless propagate_nan is PropagateNan.ALL."""


@builtin(method=True)
def abs(x: Any) -> Any:
    """Absolute value."""


@builtin(method=True)
def exp(x: Any) -> Any:
    """e to the x."""


@builtin(method=True)
def exp2(x: Any) -> Any:
    """2 to the x."""


@builtin(method=True)
def log(x: Any) -> Any:
    """Natural logarithm."""


@builtin(method=True)
def log2(x: Any) -> Any:
    """Base-2 logarithm."""


@builtin(method=True)
def sqrt(x: Any) -> Any:
    """Square root, correctly rounded."""


@builtin(method=True)
def sqrt_rn(x: Any) -> Any:
    """Square root, correctly rounded."""


@builtin(method=True)
def rsqrt(x: Any) -> Any:
    """One over the square root."""


@builtin(method=True)
def sin(x: Any) -> Any:
    """Sine."""


@builtin(method=True)
def cos(x: Any) -> Any:
    """Cosine."""


@builtin(method=True)
def tanh(x: Any) -> Any:
    """Hyperbolic tangent."""


@builtin(method=True)
def erf(x: Any) -> Any:
    """Error function."""


@builtin(method=True)
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""


@builtin(method=True)
def softmax(x: Any, dim: Any = None, keep_dims: bool = False, ieee_rounding: bool = False) -> Any:
    """exp(x - max) / sum along dim (0 when absent)."""


@builtin()
def rint(x: Any) -> Any:
    """Round to the nearest integer, ties to even."""


@builtin()
def trunc(x: Any) -> Any:
    """Round towards zero."""


@builtin(method=True)
def floor(x: Any) -> Any:
    """Round down."""


@builtin(method=True)
def ceil(x: Any) -> Any:
    """Round up."""


@builtin()
def fma(x: Any, y: Any, z: Any) -> Any:
    """X * y + z with one rounding."""


@builtin()
def fdiv(x: Any, y: Any, ieee_rounding: bool = False) -> Any:
    """X / y of floats."""


@builtin()
def div_rn(x: Any, y: Any) -> Any:
    """X / y of floats, rounded to nearest even."""


@builtin()
def umulhi(x: Any, y: Any) -> Any:
    """High half of the product of two 32- or 64-bit integers taken as unsigned."""


@builtin(method=True, host=_cdiv)
def cdiv(x: Any, div: Any) -> Any:
    """X / div rounded up. Also works on the host, for grids."""


@builtin(host=_next_power_of_2)
def next_power_of_2(n: int) -> Any:
    """The smallest power of two that is >= n (compile-time). Also works on the host."""


@builtin(method=True)
def logical_and(x: Any, y: Any) -> Any:
    """True where both are non-zero."""


@builtin(method=True)
def logical_or(x: Any, y: Any) -> Any:
    """True where either is non-zero."""


@builtin(method=True)
def logical_not(x: Any) -> Any:
    """True where x is zero."""


# ---- reductions and scans ---------------------------------------------------------------------------


@builtin(method=True)
def sum(input: Any, axis: Any = None, keep_dims: bool = False, dtype: Any = None) -> Any:
    """Sum along axis (all when None); integers narrower than 32 bits are summed as 32 bits."""


@builtin(method=True)
def max(
    input: Any,
    axis: Any = None,
    return_indices: bool = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Any:
    """Maximum along axis (all when None), with int32 positions if return_indices."""


@builtin(method=True)
def min(
    input: Any,
    axis: Any = None,
    return_indices: bool = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Any:
    """Minimum along axis (all when None), with int32 positions if return_indices."""


@builtin(method=True)
def argmax(input: Any, axis: Any, tie_break_left: bool = True, keep_dims: bool = False) -> Any:
    """Position (int32) of the first maximum along axis."""


@builtin(method=True)
def argmin(input: Any, axis: Any, tie_break_left: bool = True, keep_dims: bool = False) -> Any:
    """Position (int32) of the first minimum along axis."""


@builtin(method=True)
def xor_sum(input: Any, axis: Any = None, keep_dims: bool = False) -> Any:
    """Bitwise exclusive or along axis."""


@builtin(method=True)
def reduce_or(input: Any, axis: Any, keep_dims: bool = False) -> Any:
    """Bitwise or along axis."""


@builtin(method=True)
def cumsum(input: Any, axis: int = 0, reverse: bool = False, dtype: Any = None) -> Any:
    """Inclusive running sum along axis, from the end if reverse."""


@builtin(method=True)
def cumprod(input: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Inclusive running product along axis, from the end if reverse."""


# ---- shapes -----------------------------------------------------------------------------------------


@builtin(method=True)
def expand_dims(input: Any, axis: Any) -> Any:
    """Insert dims of size 1 at axis (an int or a tuple)."""


@builtin(method=True)
def broadcast_to(input: Any, *shape: Any) -> Any:
    """Repeat dims of size 1 (and a scalar) up to shape."""


@builtin()
def broadcast(input: Any, other: Any) -> Any:
    """Both values broadcast to their common shape, as a tuple."""


@builtin(method=True)
def reshape(input: Any, *shape: Any, can_reorder: bool = False) -> Any:
    """The same elements in row-major order under another shape."""


@builtin(method=True)
def view(input: Any, *shape: Any) -> Any:
    """The same as reshape."""


@builtin(method=True)
def ravel(x: Any, can_reorder: bool = False) -> Any:
    """The elements in row-major order as a tile of rank 1."""


@builtin(method=True)
def trans(input: Any, *dims: Any) -> Any:
    """Permute the dims; without dims, swap the last two."""


@builtin(method=True)
def permute(input: Any, *dims: Any) -> Any:
    """Dim d of the result is dim dims[d] of the input."""


@builtin(method=True)
def item(x: Any) -> Any:
    """The one element of a tile, as a scalar."""


@builtin()
def join(a: Any, b: Any) -> Any:
    """Two values side by side in a new last dim of size 2."""


@builtin(method=True)
def split(a: Any) -> Any:
    """The two halves of a tile along its last dim, of size 2; undoes join."""


@builtin()
def interleave(a: Any, b: Any) -> Any:
    """The elements of two tiles in turn along the last dim."""


@builtin()
def cat(input: Any, other: Any, can_reorder: bool = False, dim: int = 0) -> Any:
    """One tile after the other along dim; the order is kept in any case."""


@builtin()
def flip(x: Any, dim: Any = None) -> Any:
    """Backwards along a dim, the last one when None."""


@builtin(method=True)
def gather(src: Any, index: Any, axis: int) -> Any:
    """Elements of src at index along axis: result[i, j] is src[index[i, j], j] for axis 0; 0 for an index outside."""


# ---- functions of the kernel's over tiles ---------------------------------------------------------------


@builtin(method=True)
def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: bool = False) -> Any:
    """Combine all elements along axis (all when None) with an associative function, of a tile or a tuple of tiles.

    Neighbours are combined in pairs, the left one first, and the pairs again; combine_fn takes all left
    values, then all right ones.
    """


@builtin(method=True)
def associative_scan(input: Any, axis: int, combine_fn: Any, reverse: bool = False) -> Any:
    """Running combinations along axis with an associative function, of a tile or a tuple of tiles."""


@builtin()
def map_elementwise(scalar_fn: Any, *args: Any, pack: int = 1) -> Any:
    """A function applied to tiles element by element."""


# ---- matrix product -----------------------------------------------------------------------------------


@builtin()
def dot(
    input: Any,
    other: Any,
    acc: Any = None,
    input_precision: Any = None,
    allow_tf32: Any = None,
    max_num_imprecise_acc: Any = None,
    out_dtype: Any = float32,
) -> Any:
    """acc + input · other over the last two dims, in fp32 (fp64 for fp64, int32 for int8); any M, N, K."""


@builtin()
def dot_scaled(
    lhs: Any,
    lhs_scale: Any,
    lhs_format: str,
    rhs: Any,
    rhs_scale: Any,
    rhs_format: str,
    acc: Any = None,
    fast_math: bool = False,
    lhs_k_pack: bool = True,
    rhs_k_pack: bool = True,
    out_dtype: Any = float32,
) -> Any:
    """acc + lhs · rhs of block formats: e2m1, e4m3, e5m2, bf16, fp16, int8, uint8, int4, uint4.

    lhs is [M, K], rhs [K, N]; e2m1, int4 and uint4 are bytes of two numbers that are neighbours along K (without
    k_pack along the other dim), the first one in the low half. A scale is a uint8 tile of E8M0 exponents, lhs_scale
    [M, K / 32] and rhs_scale [N, K / 32], or None; wider blocks of equal size and float8e4nv scales are taken too.
    Integers count as whole numbers (MXINT8 is int8 with scales 6 lower); integers without scales on both sides give int32.
    """


# ---- control flow ---------------------------------------------------------------------------------------


@builtin()
def range(
    arg1: Any,
    arg2: Any = None,
    step: Any = None,
    num_stages: Any = None,
    loop_unroll_factor: Any = None,
    disallow_acc_multi_buffer: bool = False,
    flatten: bool = False,
    warp_specialize: bool = False,
    disable_licm: bool = False,
) -> Any:
    """A loop at run time, as Python's range; num_stages is a hint for the number of slots."""


@builtin()
def static_range(arg1: int, arg2: Any = None, step: Any = None) -> Any:
    """A loop unrolled at compile time; the counter is a compile-time value."""


# ---- checks, prints and hints ------------------------------------------------------------------------------


@builtin()
def static_assert(cond: Any, msg: Any = "") -> None:
    """Refuse to compile when a compile-time condition is false."""


@builtin()
def static_print(
    *values: Any, sep: str = " ", end: str = "\n", file: Any = None, flush: bool = False
) -> None:
    """Print compile-time values, or the types of others, while compiling."""


@builtin()
def device_print(prefix: str, *args: Any, hex: bool = False) -> None:
    """Print a prefix and values from the device."""


@builtin()
def device_assert(cond: Any, msg: Any = "", mask: Any = None) -> None:
    """Stop the device when cond is false anywhere (where mask is true)."""


@builtin()
def assume(cond: Any) -> None:
    """Hint: cond is true."""


@builtin()
def multiple_of(input: Any, values: Any) -> Any:
    """Hint: input is a multiple of values; gives input."""


@builtin()
def max_contiguous(input: Any, values: Any) -> Any:
    """Hint about runs of consecutive values; gives input."""


@builtin()
def max_constancy(input: Any, values: Any) -> Any:
    """Hint about runs of equal values; gives input."""


@builtin()
def debug_barrier() -> None:
    """Hint: nothing to do here, a program's memory operations keep their order."""
