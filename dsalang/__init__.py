"""Triton-style tile kernels in Python, compiled for domain-specific accelerators.

    import dsalang as dsa

    @dsa.jit
    def add(x, y, out, n, BLOCK: dsa.constexpr):
        offs = dsa.program_id(0) * BLOCK + dsa.arange(0, BLOCK)
        keep = offs < n
        dsa.store(out + offs, dsa.load(x + offs, mask=keep) + dsa.load(y + offs, mask=keep), mask=keep)

    add[(dsa.cdiv(n, 4096),)](x, y, out, n, BLOCK=4096)

The language's names (`dsa.load`, `dsa.float16`, …) stand here and in `dsalang.language`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dsalang._backend.errors import (
        CompileError as CompileError,
    )
    from dsalang._backend.errors import (
        DeviceError as DeviceError,
    )
    from dsalang._backend.errors import (
        DsaError as DsaError,
    )
    from dsalang._backend.errors import (
        ImageError as ImageError,
    )
    from dsalang._backend.errors import (
        InternalError as InternalError,
    )
    from dsalang._backend.errors import (
        LaunchError as LaunchError,
    )
    from dsalang._backend.errors import (
        SramOverflowError as SramOverflowError,
    )
    from dsalang._backend.errors import (
        TargetError as TargetError,
    )
    from dsalang._backend.errors import (
        UserError as UserError,
    )
    from dsalang._backend.micro.contract import TileSpec as TileSpec
    from dsalang._backend.target import Target as Target
    from dsalang._jit.compiled import CompiledKernel as CompiledKernel
    from dsalang._jit.configs import Config as Config
    from dsalang._jit.decorator import JITFunction as JITFunction
    from dsalang._jit.decorator import jit as jit
    from dsalang._jit.devices import Device as Device
    from dsalang._jit.devices import Stream as Stream
    from dsalang._jit.devices import to_device as to_device
    from dsalang._jit.machine import set_target as set_target
    from dsalang._jit.machine import target as target
    from dsalang._jit.micro.function import MicrokernelFunction as MicrokernelFunction
    from dsalang._jit.micro.function import microkernel as microkernel
    from dsalang._jit.micro.registry import register_microkernel as register_microkernel
    from dsalang._jit.micro.registry import unregister_microkernel as unregister_microkernel
    from dsalang._jit.profiling import profile as profile
    from dsalang._jit.resident import resident as resident
    from dsalang._jit.tuned import heuristics as heuristics
    from dsalang._jit.tuning import autotune as autotune
    from dsalang._runtime.device_array import DeviceArray as DeviceArray
    from dsalang._runtime.device_streams import Event as Event
    from dsalang._runtime.packing import pack4 as pack4
    from dsalang._runtime.packing import unpack4 as unpack4

    from . import compat as compat
    from . import language as language
    from . import runtime as runtime
    from . import testing as testing
    from .language import *  # noqa: F403

__version__ = "0.1.0"

# Loaded when first used, so that `import dsalang` costs little.
_HOMES: dict[str, str] = {
    **dict.fromkeys(
        (
            "CompileError", "DeviceError", "DsaError", "ImageError", "InternalError", "LaunchError",
            "MicrokernelError", "MicrokernelRefusedError", "SramOverflowError", "TargetError", "UserError",
        ),
        "dsalang._backend.errors",
    ),
    "Target": "dsalang._backend.target",
    "TileSpec": "dsalang._backend.micro.contract",
    "CompiledKernel": "dsalang._jit.compiled",
    "JITFunction": "dsalang._jit.decorator",
    "jit": "dsalang._jit.decorator",
    **dict.fromkeys(("MicrokernelFunction", "microkernel"), "dsalang._jit.micro.function"),
    **dict.fromkeys(("register_microkernel", "unregister_microkernel"), "dsalang._jit.micro.registry"),
    "set_target": "dsalang._jit.machine",
    "target": "dsalang._jit.machine",
    **dict.fromkeys(("Device", "Stream", "to_device"), "dsalang._jit.devices"),
    "profile": "dsalang._jit.profiling",
    "resident": "dsalang._jit.resident",
    "DeviceArray": "dsalang._runtime.device_array",
    **dict.fromkeys(("pack4", "unpack4"), "dsalang._runtime.packing"),
    "Event": "dsalang._runtime.device_streams",
    "Config": "dsalang._jit.configs",
    "autotune": "dsalang._jit.tuning",
    "heuristics": "dsalang._jit.tuned",
}  # fmt: skip


_MODULES = ("compat", "language", "microkernels", "runtime", "testing")


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module 'dsalang' has no attribute {name!r}")
    if name in _MODULES:
        return import_module(f"dsalang.{name}")
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        names = _language_names()
        if name not in names:
            raise AttributeError(f"module 'dsalang' has no attribute {name!r}")
        value = names[name]
    globals()[name] = value
    return value


def _language_names() -> dict[str, Any]:
    names = vars(import_module("dsalang.language"))
    hidden = ("annotations", "SimpleNamespace")
    return {n: v for n, v in names.items() if not n.startswith("_") and n not in hidden}


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_language_names(), *_MODULES})
