"""The machine as kernels' host code asks for it, with the names of `triton.runtime`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from dsalang._backend.errors import DeviceError, SramOverflowError
from dsalang._jit.composite import TensorDescriptor
from dsalang._jit.configs import Config
from dsalang._jit.decorator import JITFunction
from dsalang._jit.machine import resolve
from dsalang._jit.mock_tensor import MockTensor
from dsalang._jit.reinterpret import reinterpret
from dsalang._jit.tuned import Heuristics
from dsalang._jit.tuning import Autotuner

T = TypeVar("T")


class KernelInterface(Generic[T]):
    """What libraries derive wrappers of kernels from: `wrapper[grid](*args)` calls `wrapper.run`."""

    run: Callable[..., Any]

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)


OutOfResources = SramOverflowError
"""Raised when a kernel's tiles do not fit the machine's memory."""


@dataclass(frozen=True)
class GPUTarget:
    """What `get_current_target` gives: torch's name of the device with the arrays, the machine's name, 1."""

    backend: str
    arch: int | str
    warp_size: int


def set_allocator(allocator: Any) -> None:
    """Accepted: tensor descriptors that kernels make need no memory here."""


class Utils:
    """Facts about the machine."""

    def get_device_properties(self, device: Any = 0) -> dict[str, int]:
        """Sizes and rates of the current target by the names that Triton gives them."""
        target = resolve(None)
        return {
            "max_shared_mem": target.sram_bytes,
            "multiprocessor_count": target.cores,
            "max_num_regs": 65536,
            "max_threads_per_sm": 1024,
            "warpSize": 1,
            "sm_clock_rate": int(target.clock_mhz * 1000),
            "mem_clock_rate": int(target.clock_mhz * 1000),
            "mem_bus_width": int(target.hbm.bytes_per_second / (target.clock_mhz * 1e6) * 8),
        }


class ActiveDriver:
    """The one driver: the emulated machine. Arrays are those of the host."""

    utils = Utils()

    @classmethod
    def is_active(cls) -> bool:
        """Always."""
        return True

    def get_benchmarker(self) -> Callable[..., Any]:
        """What measures launches: `dsalang.testing.do_bench`."""
        from dsalang.testing import do_bench

        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        """Nothing has to be emptied between measurements."""

    def clear_cache(self, cache: Any) -> None:
        """Nothing has to be emptied between measurements."""

    def get_current_target(self) -> GPUTarget:
        """The machine. Its backend is "cpu": libraries take that for the torch device of their tensors."""
        return GPUTarget("cpu", resolve(None).name, 1)

    def get_current_device(self) -> int:
        """The number of the device."""
        return 0

    def set_current_device(self, device: Any) -> None:
        """There is one."""

    def get_current_stream(self, device: Any = 0) -> int:
        """Launches run at once, one after the other."""
        return 0

    def get_active_torch_device(self) -> Any:
        """The device on which tensors have to be: the host."""
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        """What torch.cuda offers, as far as there is a meaning here."""
        nothing = lambda *args, **kwargs: None  # noqa: E731
        return SimpleNamespace(
            synchronize=nothing, current_device=lambda: 0, empty_cache=nothing,
            device_count=lambda: 1, get_device_capability=lambda device=0: (0, 0), is_available=lambda: True,
        )  # fmt: skip


class Driver:
    """Which machine runs kernels. There is one; what chooses between several is accepted."""

    active = default = ActiveDriver()

    def set_active(self, chosen: Any) -> None:
        """Accepted."""

    def reset_active(self) -> None:
        """Accepted."""

    def set_active_to_cpu(self) -> None:
        """Accepted: tensors are the host's."""

    def get_active_gpus(self) -> list[Any]:
        """There are none."""
        return []


driver = Driver()

__all__ = [
    "Autotuner", "Config", "DeviceError", "GPUTarget", "Heuristics", "JITFunction", "KernelInterface", "MockTensor", "OutOfResources",
    "TensorDescriptor", "driver", "reinterpret", "set_allocator",
]  # fmt: skip
