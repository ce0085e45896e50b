"""The modules that `compat.install` puts in place of Triton's: one table of names and members."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

from dsalang._backend.errors import CompileError, LaunchError, UserError
from dsalang._jit.composite import TensorDescriptor
from dsalang._jit.constexpr import constexpr, constexpr_function
from dsalang._jit.version import compiler_version

VERSION = "3.4.0"
"""The version of Triton whose language this is; libraries choose between names by it."""

KNOBS: dict[str, dict[str, Any]] = {
    "runtime": {
        "interpret": False, "debug": False, "override_arch": None, "launch_enter_hook": None,
        "launch_exit_hook": None, "jit_cache_hook": None, "jit_post_compile_hook": None,
        "kernel_load_start_hook": None, "kernel_load_end_hook": None,
    },
    "compilation": {"always_compile": False, "disable_line_info": False, "override": False, "dump_ir": False,
                    "instrumentation_mode": "", "listener": None, "front_end_debugging": False},
    "autotuning": {"cache": False, "print": False},
    "cache": {"dir": None, "manager_class": None},
    "language": {"default_fp_fusion": True},
    "build": {}, "nvidia": {}, "amd": {}, "proton": {"disable": True}, "redis": {},
}  # fmt: skip
"""What `triton.knobs` holds: libraries read and set these; none changes anything here."""


def modules() -> dict[str, ModuleType]:
    """Triton's modules by name, parents before children, made anew."""
    members = {**_top(), **_language(), **_runtime(), **_rest()}
    return {
        name: _module(name, values, f"dsalang in place of {name}.")
        for name, values in members.items()
    }


def _module(name: str, members: Mapping[str, Any], doc: str) -> ModuleType:
    module = ModuleType(name, doc)
    module.__dict__.update(members)
    module.__path__ = []  # so that submodules are looked for
    module.__dsalang__ = True  # type: ignore[attr-defined]
    return module


def _public(module: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if name[0] != "_"}


_TOP = (
    "jit", "autotune", "heuristics", "Config", "cdiv", "next_power_of_2", "constexpr_function", "JITFunction",
)  # fmt: skip


def _top() -> dict[str, Mapping[str, Any]]:
    import dsalang
    from dsalang import runtime

    names = {name: getattr(dsalang, name) for name in _TOP}
    names |= {name: getattr(runtime, name) for name in ("KernelInterface", "OutOfResources")}
    return {
        "triton": {
            **names, "__version__": VERSION, "CompilationError": CompileError, "TritonError": UserError,
            "set_allocator": runtime.set_allocator, "reinterpret": runtime.reinterpret,
            "must_use_result": _same, "MockTensor": runtime.MockTensor,
        },
    }  # fmt: skip


def _language() -> dict[str, Mapping[str, Any]]:
    from dsalang import language

    math, libdevice = _public(language.math), _public(language.libdevice)
    functions = _public(language)
    functions["_experimental_make_tensor_descriptor"] = functions["make_tensor_descriptor"]
    table: dict[str, Mapping[str, Any]] = {
        "triton.language": functions,
        "triton.language.core": {**functions, "CONSTEXPR_0": constexpr(0)},
        "triton.language.standard": {
            **functions,
            "_log2": _log2,
            "_is_power_of_two": _is_power_of_two,
        },
        "triton.language.random": functions,
        "triton.language.math": math,
        "triton.language.target_info": vars(language.target_info),
        "triton.language.extra": {},
        "triton.language.extra.libdevice": libdevice,
    }
    for vendor in ("cuda", "hip", "intel", "xpu", "mlu", "cann", "musa"):
        own = _public(getattr(language.extra, vendor, SimpleNamespace()))
        table[f"triton.language.extra.{vendor}"] = own
        table[f"triton.language.extra.{vendor}.libdevice"] = libdevice
    return table


def _runtime() -> dict[str, Mapping[str, Any]]:
    import dsalang
    from dsalang import runtime

    tuning = {name: getattr(dsalang, name) for name in ("Config", "autotune", "heuristics")}
    tuning |= {name: getattr(runtime, name) for name in ("Autotuner", "Heuristics")}
    kernels = {
        "JITFunction": runtime.JITFunction, "KernelInterface": runtime.KernelInterface, "jit": dsalang.jit,
        "reinterpret": runtime.reinterpret, "MockTensor": runtime.MockTensor, "constexpr_function": constexpr_function,
    }  # fmt: skip
    return {
        "triton.runtime": {**_public(runtime), **tuning, **kernels},
        "triton.runtime.driver": {
            name: getattr(runtime.driver, name)
            for name in dir(runtime.driver)
            if not name.startswith("_")
        }
        | {"driver": runtime.driver},
        "triton.runtime.jit": kernels,
        "triton.runtime.autotuner": {**tuning, "OutOfResources": runtime.OutOfResources},
        "triton.runtime.errors": {
            "OutOfResources": runtime.OutOfResources,
            "InterpreterError": UserError,
        },
        "triton.runtime.cache": {"triton_key": compiler_version, "knobs": _knobs()},
        "triton.runtime.interpreter": {"InterpretedFunction": _Never},
        "triton.runtime._allocation": {"set_allocator": runtime.set_allocator},
    }


def _rest() -> dict[str, Mapping[str, Any]]:
    import dsalang
    from dsalang import mxfp, runtime, testing

    target = {"GPUTarget": runtime.GPUTarget, "BaseBackend": _Never}
    compiler = {"CompiledKernel": dsalang.CompiledKernel, "triton_key": compiler_version}
    return {
        "triton.testing": _public(testing),
        "triton.errors": {"TritonError": UserError},
        "triton.knobs": vars(_knobs()),
        "triton.profiler": {
            **dict.fromkeys(("start", "activate", "deactivate", "finalize"), _nothing),
            "scope": _scope,
        },
        "triton.compiler": {"CompilationError": CompileError, **compiler},
        "triton.compiler.errors": {"CompilationError": CompileError},
        "triton.compiler.compiler": {**compiler, "ASTSource": _Never, "make_backend": _no_backend},
        "triton.backends": {"backends": {}},
        "triton.backends.compiler": target,
        "triton.tools": {},
        "triton.tools.tensor_descriptor": {"TensorDescriptor": TensorDescriptor},
        "triton.tools.mxfp": {name: getattr(mxfp, name) for name in ("MXFP4Tensor", "MXScaleTensor")},
    }  # fmt: skip


def _knobs() -> SimpleNamespace:
    groups = {name: SimpleNamespace(**values) for name, values in KNOBS.items()}
    return SimpleNamespace(**groups)


class _Never:
    """In place of a class of Triton's compiler that no object here belongs to."""


def _no_backend(target: Any) -> Any:
    raise LaunchError(
        "dsalang has none of Triton's compiler backends", hint="use kernel.compile or warmup"
    )


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Accepted: `kernel.profile` tells where time goes."""


def _scope(*args: Any, **kwargs: Any) -> AbstractContextManager[None]:
    return nullcontext()


def _same(value: Any, *args: Any, **kwargs: Any) -> Any:
    return value


@constexpr_function
def _log2(n: int) -> int:
    return n.bit_length() - 1


@constexpr_function
def _is_power_of_two(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0
