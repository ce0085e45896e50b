"""The names that kernels use, with the names and semantics of `triton.language`.

    import dsalang as dsa
    import dsalang.language as tl

Tiles have static shapes of any lengths; scalars are scalars.
"""

from __future__ import annotations

import builtins as _builtins
import sys as _sys
from types import ModuleType as _ModuleType
from types import SimpleNamespace
from typing import Any as _Any

from dsalang._jit import libdevice as _libdevice
from dsalang._jit import libdevice_bits as _libdevice_bits
from dsalang._jit import libdevice_convert as _libdevice_convert
from dsalang._jit import libdevice_special as _libdevice_special
from dsalang._jit import library_combine as _library_combine
from dsalang._jit import refused as _refused
from dsalang._jit.aggregate import aggregate, aggregate_replace  # noqa: F401
from dsalang._jit.builtin import Builtin as _Builtin
from dsalang._jit.builtins import (  # noqa: F401
    abs,
    advance,
    arange,
    argmax,
    argmin,
    associative_scan,
    assume,
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xchg,
    atomic_xor,
    broadcast,
    broadcast_to,
    cast,
    cat,
    cdiv,
    ceil,
    clamp,
    cos,
    cumprod,
    cumsum,
    debug_barrier,
    device_assert,
    device_print,
    div_rn,
    dot,
    dot_scaled,
    empty,
    erf,
    exp,
    exp2,
    expand_dims,
    fdiv,
    flip,
    floor,
    fma,
    full,
    gather,
    interleave,
    item,
    join,
    load,
    load_tensor_descriptor,
    log,
    log2,
    logical_and,
    logical_not,
    logical_or,
    make_block_ptr,
    make_tensor_descriptor,
    map_elementwise,
    max,
    max_constancy,
    max_contiguous,
    maximum,
    min,
    minimum,
    multiple_of,
    next_power_of_2,
    num_programs,
    permute,
    program_id,
    range,
    ravel,
    reduce,
    reduce_or,
    reshape,
    rint,
    rsqrt,
    sigmoid,
    sin,
    softmax,
    split,
    sqrt,
    sqrt_rn,
    static_assert,
    static_print,
    static_range,
    store,
    store_tensor_descriptor,
    sum,
    tanh,
    trans,
    trunc,
    umulhi,
    view,
    where,
    xor_sum,
    zeros,
    zeros_like,
)
from dsalang._jit.constexpr import constexpr, constexpr_function  # noqa: F401
from dsalang._jit.dtypes import (  # noqa: F401
    bfloat16,
    block_type,
    const,
    constexpr_type,
    dtype,
    float8e4b8,
    float8e4b15,
    float8e4nv,
    float8e5,
    float8e5b16,
    float16,
    float32,
    float64,
    get_int_dtype,
    int1,
    int8,
    int16,
    int32,
    int64,
    pointer_type,
    tensor,
    tensor_descriptor,
    tensor_descriptor_type,
    tuple_type,
    uint8,
    uint16,
    uint32,
    uint64,
    void,
)
from dsalang._jit.library import (  # noqa: F401
    add,
    atomic_load,
    atomic_poll,
    atomic_store,
    bitonic_merge,
    condition,
    expect_zero,
    histogram,
    mul,
    sort,
    squeeze,
    sub,
    swizzle2d,
    to_tensor,
    topk,
    unsqueeze,
)
from dsalang._jit.library_descriptors import (  # noqa: F401
    atomic_add_tensor_descriptor,
    atomic_and_tensor_descriptor,
    atomic_max_tensor_descriptor,
    atomic_min_tensor_descriptor,
    atomic_or_tensor_descriptor,
    atomic_xor_tensor_descriptor,
    gather_tensor_descriptor,
    scatter_tensor_descriptor,
)
from dsalang._jit.random_numbers import (  # noqa: F401
    pair_uniform_to_normal,
    philox,
    philox_impl,
    rand,
    rand4x,
    randint,
    randint4x,
    randn,
    randn4x,
    uint_to_uniform_float,
)


class PropagateNan:
    """What maximum, minimum and clamp do with a NaN: ALL gives NaN, NONE the other operand."""

    NONE = "none"
    ALL = "all"


_IN_MATH: dict[str, _Any] = {
    f.name: f
    for f in (
        abs, exp, exp2, log, log2, sqrt, sqrt_rn, rsqrt, sin, cos, tanh, erf, floor, ceil, rint, trunc,
        fma, div_rn, umulhi,
    )
}  # fmt: skip
_OTHER_NAMES: dict[str, _Any] = {
    "fabs": abs, "fmin": minimum, "fmax": maximum, "min": minimum, "max": maximum, "fma_rn": fma,
    "rsqrt_rn": rsqrt, "nearbyint": rint, "finitef": _libdevice.isfinite, "isfinited": _libdevice.isfinite,
    "saturatef": _libdevice.saturate, "fast_expf": exp, "fast_exp10f": _libdevice.exp10,
    "fast_logf": log, "fast_log2f": log2, "fast_log10f": _libdevice.log10, "fast_sinf": sin,
    "fast_cosf": cos, "fast_tanf": _libdevice.tan, "fast_tanhf": tanh, "fast_powf": _libdevice.pow,
    "fast_dividef": fdiv, "powf": _libdevice.pow,
    **{
        f"double2{kind}_{mode}": getattr(_libdevice_convert, f"float2{kind}_{mode}")
        for kind in ("int", "uint", "ll", "ull")
        for mode in ("rn", "rd", "ru", "rz")
    },
}  # fmt: skip


def _module(_path: str, **names: _Any) -> _ModuleType:
    """A module of its own, so that `from dsalang.language.extra import libdevice` works."""
    name = f"{__name__}.{_path}"
    module = _sys.modules[name] = _ModuleType(name)
    vars(module).update(names)
    return module


_LIBDEVICE: dict[str, _Any] = dict(
    **_IN_MATH, **{
        n: f
        for module in (_libdevice, _libdevice_bits, _libdevice_convert, _libdevice_special)
        for n, f in vars(module).items()
        if isinstance(f, _Builtin) and n[0] != "_"
    },
    **_OTHER_NAMES, **_refused.names(_refused.LIBDEVICE),
)  # fmt: skip

libdevice = _module("extra.libdevice", **_LIBDEVICE)
"""Names of CUDA's libdevice that kernels use."""
math = _module(
    "math", **_LIBDEVICE, sigmoid=sigmoid, cdiv=cdiv, fdiv=fdiv, maximum=maximum, minimum=minimum,
    clamp=clamp,
)  # fmt: skip
extra = _module(
    "extra",
    libdevice=libdevice,
    cuda=_module("extra.cuda", libdevice=libdevice, **_refused.names(_refused.CUDA)),
    hip=_module("extra.hip", libdevice=libdevice, **_refused.names(_refused.HIP)),
)
for _vendor in ("cuda", "hip"):
    _sys.modules[f"{__name__}.extra.{_vendor}.libdevice"] = libdevice

globals().update(_refused.names(_refused.REASONS))

TRITON_MAX_TENSOR_NUMEL = 1 << 20
"""How large tiles are on GPUs; here only the machine's memory limits them."""


@constexpr_function
def _false(*args: object) -> bool:
    return False


@constexpr_function
def _current_target() -> SimpleNamespace:
    return SimpleNamespace(backend="cpu", arch="dsa", warp_size=1)


target_info = _module(
    "target_info", current_target=_current_target, is_cuda=_false, is_hip=_false, is_hip_cdna3=_false,
    is_hip_cdna4=_false, is_hip_gfx1250=_false, cuda_capability_geq=_false,
)  # fmt: skip
"""Questions about the machine, answered at compile time: it is no GPU."""

_aggregate = aggregate
"""As Triton spells it, in `core`."""
globals().update({n: f for n, f in vars(_library_combine).items() if isinstance(f, _Builtin)})
"""Functions for `reduce`, by their names in `standard`."""
core = standard = random = _sys.modules[__name__]
for _name in ("core", "standard", "random"):
    _sys.modules[f"{__name__}.{_name}"] = core
"""Where Triton keeps these names."""

pi32_t = pointer_type(int32)
tuple, slice = _builtins.tuple, _builtins.slice
