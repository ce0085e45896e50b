"""The machine as kernels' host code asks for it, with the names of `triton.runtime`."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from dsalang._backend.errors import DeviceError, SramOverflowError
from dsalang._jit.composite import TensorDescriptor
from dsalang._jit.decorator import JITFunction
from dsalang._jit.machine import resolve
from dsalang._jit.tuning import Autotuner, Config, Heuristics

T = TypeVar("T")


class KernelInterface(Generic[T]):
    """What libraries derive wrappers of kernels from: `wrapper[grid](*args)` calls `wrapper.run`."""

    run: Callable[..., Any]

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)


OutOfResources = SramOverflowError
"""Raised when a kernel's tiles do not fit the machine's memory."""


class Utils:
    """Facts about the machine."""

    def get_device_properties(self, device: Any = 0) -> dict[str, int]:
        """Sizes and rates of the current target by the names that Triton gives them."""
        target = resolve(None)
        return {
            "max_shared_mem": target.sram_bytes,
            "multiprocessor_count": target.cores,
            "max_num_regs": 65536,
            "warpSize": 1,
            "sm_clock_rate": int(target.clock_mhz * 1000),
            "mem_clock_rate": int(target.clock_mhz * 1000),
            "mem_bus_width": int(target.hbm.bytes_per_second / (target.clock_mhz * 1e6) * 8),
        }


class ActiveDriver:
    """The one driver: the emulated machine. Arrays are those of the host."""

    utils = Utils()

    def get_current_target(self) -> Any:
        """The machine: backend, name, and threads that run in lockstep."""
        return SimpleNamespace(backend="dsa", arch=resolve(None).name, warp_size=1)

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


driver = SimpleNamespace(active=ActiveDriver(), set_active=lambda chosen: None)

__all__ = [
    "Autotuner", "Config", "DeviceError", "Heuristics", "JITFunction", "KernelInterface", "OutOfResources", "TensorDescriptor", "driver",
]  # fmt: skip
