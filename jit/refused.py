"""Names of Triton's language that this machine has no meaning for: using one is an error that says why."""

from __future__ import annotations

import inspect
from typing import Any

from .builtin import Builtin

NO_GPU = "it is an instruction of one vendor's GPUs"
ROUNDING = "the machine rounds to nearest even; use the name that ends in _rn"

REASONS: dict[str, str] = {
    "inline_asm_elementwise": "this machine does not execute GPU assembly; write the operation with tl.* or tl.math.*",
    "make_tensor_map": "use tl.make_tensor_descriptor",
    "extern_elementwise": "this machine links no foreign code; use tl.extra.libdevice",
}
"""In `triton.language`."""

CUDA: dict[str, str] = {
    "globaltimer": "launches report their time: kernel[grid](...).cycles",
    "smid": "programs do not know which core runs them",
    "num_threads": "a program is not made of threads",
    "num_warps": "a program is not made of warps",
    "gdc_wait": NO_GPU,
    "gdc_launch_dependents": NO_GPU,
    "convert_custom_float8": NO_GPU,
    "convert_custom_float8_sm70": NO_GPU,
    "convert_custom_float8_sm80": NO_GPU,
    "convert_fp8e4b15_to_float16": NO_GPU,
    "convert_float16_to_fp8e4b15": NO_GPU,
}
"""In `triton.language.extra.cuda`."""

HIP: dict[str, str] = {
    "memrealtime": CUDA["globaltimer"],
    **{name: CUDA[name] for name in ("smid", "num_threads", "num_warps")},
}
"""In `triton.language.extra.hip`."""

RAGGED: dict[str, str] = dict.fromkeys(
    (
        "create_ragged_descriptor",
        "load_ragged",
        "store_ragged",
        "atomic_add_ragged",
        "to_ragged_indices",
    ),
    "it rests on addresses that wrap in a GPU's descriptors; mask loads and stores by the slice's size",
)
"""In `triton.tools.ragged_tma`."""

LIBDEVICE: dict[str, str] = {
    **{
        f"{name}_{mode}": ROUNDING
        for name in ("add", "sub", "mul", "div", "fma", "sqrt", "rcp")
        for mode in ("rd", "ru", "rz")
    },
    **{
        f"{name}_{mode}": ROUNDING
        for name in (
            "double2float", "int2float", "uint2float", "ll2float", "ull2float", "ll2double", "ull2double",
        )
        for mode in ("rd", "ru", "rz")
    },
    **dict.fromkeys(
        ("j0", "j1", "jn", "y0", "y1", "yn", "cyl_bessel_i0", "cyl_bessel_i1"),
        "there is no such series on this machine yet",
    ),
    "rcp64h": "it is an approximation of one vendor's GPUs; use 1 / x",
}  # fmt: skip
"""In `triton.language.extra.libdevice`."""


def _refuse(name: str, reason: str) -> Builtin:
    def nothing(*args: Any, **kwargs: Any) -> None: ...

    return Builtin(name, inspect.signature(nothing), reason, refused=reason)


def names(table: dict[str, str]) -> dict[str, Builtin]:
    """The names of a table as builtins that refuse to be used."""
    return {name: _refuse(name, reason) for name, reason in table.items()}
