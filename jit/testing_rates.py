"""Rates of the machine by the names of `triton.testing`, and what those names say of GPUs alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from dsalang._backend.errors import LaunchError
from dsalang._runtime.arrays import TORCH_FORMATS

from . import dtypes
from .machine import resolve

F = TypeVar("F", bound=Callable[..., Any])


def get_dram_gbps(device: Any = None) -> float:
    """The bandwidth of HBM in 10**9 bytes per second."""
    return float(resolve(None).hbm.bytes_per_second) / 1e9


def get_max_tensorcore_tflops(dtype: Any, clock_rate: Any = None, device: Any = None) -> float:
    """What the tensor engines of all cores reach in a format, in 10**12 operations per second.

    Raises:
        LaunchError: the tensor engine does not take the format.
    """
    target = resolve(None)
    name = _format(dtype)
    if name not in target.tensor.macs_per_cycle:
        raise LaunchError(
            f"the tensor engine of {target.name} does not take {name}",
            hint=f"it takes {', '.join(target.tensor.macs_per_cycle)}",
        )
    return 2 * target.tensor.macs_per_cycle[name] * target.cores * target.clock_mhz * 1e6 / 1e12


def get_max_simd_tflops(dtype: Any, clock_rate: Any = None, device: Any = None) -> float:
    """What the vector engines of all cores reach in a type, in 10**12 operations per second."""
    target = resolve(None)
    size = dtypes.from_name(_format(dtype)).primitive_bitwidth // 8
    return target.vector.bytes_per_cycle / size * target.cores * target.clock_mhz * 1e6 / 1e12


def _format(dtype: Any) -> str:
    """The format that a dtype of the language, of torch or of numpy names."""
    text = str(dtype)
    try:
        found = dtypes.from_name(TORCH_FORMATS.get(text, text))
    except KeyError:
        raise LaunchError(f"{dtype!r} is no number type of this machine") from None
    if not isinstance(found, dtypes.dtype):
        raise LaunchError(f"{dtype!r} is no number type of this machine")
    return found.format.name


def nvsmi(attrs: Sequence[str]) -> list[int]:
    """The machine's clock in MHz for each attribute: clocks are what perf models ask the GPU's tool for.

    Raises:
        LaunchError: an attribute is no clock.
    """
    for name in attrs:
        if not name.startswith("clocks."):
            raise LaunchError(f"{name!r} is a property of GPUs", hint="only clocks are known here")
    return [int(resolve(None).clock_mhz)] * len(attrs)


def cuda_memcheck(**target_kwargs: Any) -> Callable[[F], F]:
    """The test as it is: accesses out of bounds are always caught."""
    return lambda test: test


@contextmanager
def set_gpu_clock(
    ref_sm_clock: int = 1350, ref_mem_clock: int = 1215
) -> Iterator[tuple[float, float]]:
    """The machine's rates, which are always the same: 10**12 operations and 10**9 bytes per second."""
    yield get_max_tensorcore_tflops("float16"), get_dram_gbps()
