"""The modules that `compat.install` puts in place of Triton's: one table of names and members."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

from dsalang._backend.errors import (
    CompileError,
    InternalError,
    LaunchError,
    SramOverflowError,
    UserError,
)
from dsalang._jit import library_combine, refused
from dsalang._jit.builtin import Builtin
from dsalang._jit.composite import TensorDescriptor
from dsalang._jit.constexpr import constexpr, constexpr_function
from dsalang._jit.dtypes import from_name
from dsalang._jit.reinterpret import TensorWrapper
from dsalang._jit.version import compiler_version

from .compat_knobs import knobs

VERSION = "3.4.0"
"""The version of Triton whose language this is; libraries choose between names by it."""


def modules() -> dict[str, ModuleType]:
    """Triton's modules by name, parents before children, made anew."""
    members = {**_top(), **_language(), **_runtime(), **_rest()}
    return {
        name: _module(name, values, f"dsalang in place of {name}.")
        for name, values in members.items()
    }


def _module(name: str, members: Mapping[str, Any], doc: str) -> ModuleType:
    module = ModuleType(name, doc)
    module.__spec__ = ModuleSpec(name, _Members(members), is_package=True)
    module.__dict__.update(members)
    module.__path__ = []  # so that submodules are looked for
    module.__dsalang__ = True  # type: ignore[attr-defined]
    return module


class _Members(Loader):
    """Makes a module anew from its spec, as some libraries do in place of importing it."""

    def __init__(self, members: Mapping[str, Any]) -> None:
        self._members = members

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(self._members)


def _builtins_of(module: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if isinstance(value, Builtin)}


def _public(module: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if name[0] != "_"}


_ERRORS = {"TritonError": UserError, "CompilationError": CompileError}
_RUNTIME_ERRORS = {
    "OutOfResources": SramOverflowError, "InterpreterError": CompileError, "AutotunerError": LaunchError,
    "PTXASError": InternalError,
}  # fmt: skip
"""Triton's errors by those of ours that mean the same; there is no PTX, so nobody ever sees the last."""

_TOP = (
    "jit", "autotune", "heuristics", "Config", "cdiv", "next_power_of_2", "constexpr_function", "JITFunction",
    "aggregate",
)  # fmt: skip


def _top() -> dict[str, Mapping[str, Any]]:
    import dsalang
    from dsalang import runtime

    names = {name: getattr(dsalang, name) for name in _TOP}
    names |= {name: getattr(runtime, name) for name in ("KernelInterface", "OutOfResources")}
    return {
        "triton": {
            **names, **_ERRORS, "__version__": VERSION,
            "set_allocator": runtime.set_allocator, "reinterpret": runtime.reinterpret,
            "must_use_result": _same, "InterpreterError": CompileError, "compile": _no_compile, "MockTensor": runtime.MockTensor, "TensorWrapper": TensorWrapper,
        },
    }  # fmt: skip


def _language() -> dict[str, Mapping[str, Any]]:
    from dsalang import language

    math, libdevice = _public(language.math), _public(language.libdevice)
    functions = _public(language)
    functions["_experimental_make_tensor_descriptor"] = functions["make_tensor_descriptor"]
    functions["str_to_ty"] = _str_to_ty
    table: dict[str, Mapping[str, Any]] = {
        "triton.language": functions,
        "triton.language.core": {
            **functions,
            "CONSTEXPR_0": constexpr(0),
            "_aggregate": functions["aggregate"],
        },
        "triton.language.standard": {
            **functions,
            **_builtins_of(library_combine),
            "_log2": _log2,
            "_is_power_of_two": _is_power_of_two,
        },
        "triton.language.random": functions,
        "triton.language.math": math,
        "triton.language.target_info": _public(language.target_info),
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
        "TensorWrapper": TensorWrapper, "type_canonicalisation_dict": _canonical_types(),
    }  # fmt: skip
    return {
        "triton.runtime": {
            **_public(runtime),
            **tuning,
            **kernels,
            "InterpreterError": CompileError,
        },
        "triton.runtime.driver": {
            name: getattr(runtime.driver, name)
            for name in dir(runtime.driver)
            if not name.startswith("_")
        }
        | {"driver": runtime.driver},
        "triton.runtime.jit": kernels,
        "triton.runtime.autotuner": {**tuning, **_RUNTIME_ERRORS, **kernels},
        "triton.runtime.errors": {**_ERRORS, **_RUNTIME_ERRORS},
        "triton.runtime.cache": {
            "triton_key": compiler_version,
            "knobs": SimpleNamespace(**knobs()),
        },
        "triton.runtime.interpreter": {"InterpretedFunction": _Never},
        "triton.runtime._allocation": {
            "NullAllocator": _nothing,
            "set_allocator": runtime.set_allocator,
        },
    }


def _rest() -> dict[str, Mapping[str, Any]]:
    import dsalang
    from dsalang import mxfp, runtime, testing

    target = {"GPUTarget": runtime.GPUTarget, "BaseBackend": _Never}
    compiler = {"CompiledKernel": dsalang.CompiledKernel, "triton_key": compiler_version}
    return {
        "triton.testing": _public(testing),
        "triton.errors": _ERRORS,
        "triton.knobs": knobs(),
        "triton.profiler": {
            **dict.fromkeys(("start", "activate", "deactivate", "finalize"), _nothing),
            "scope": _scope,
        },
        "triton.compiler": {**_ERRORS, **compiler, "compile": _no_compile, "ASTSource": _Never},
        "triton.compiler.errors": _ERRORS,
        "triton.compiler.compiler": {**compiler, "ASTSource": _Never, "make_backend": _no_backend},
        "triton.backends": {"backends": {}},
        "triton.backends.compiler": target,
        "triton.tools": {},
        "triton.tools.tensor_descriptor": {"TensorDescriptor": TensorDescriptor},
        "triton.tools.ragged_tma": refused.names(refused.RAGGED),
        "triton.tools.mxfp": {
            name: getattr(mxfp, name) for name in ("MXFP4Tensor", "MXScaleTensor", "fp8e8m0_to_float32")
        },
    }  # fmt: skip


class _Never:
    """In place of a class of Triton's compiler that no object here belongs to."""


def _no_compile(*args: Any, **kwargs: Any) -> Any:
    raise LaunchError(
        "triton.compile takes one of Triton's sources, which there are none of here",
        hint="kernel.compile(signature, constants) compiles without running",
    )


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


def _str_to_ty(name: str, constants: object = None) -> Any:
    """The type that a signature names."""
    return from_name(name)


def _canonical_types() -> dict[str, str]:
    """Names of dtypes as torch, numpy and Triton write them, to the ones of signatures."""
    found = {**dict.fromkeys(("bool", "int1"), "u1"), "bfloat16": "bf16"}
    for bits in (8, 16, 32, 64):
        found |= {f"int{bits}": f"i{bits}", f"uint{bits}": f"u{bits}", f"float{bits}": f"fp{bits}"}
    del found["float8"]
    for short, *others in (("e4nv", "_e4m3fn"), ("e5", "_e5m2"), ("e4b15",), ("e5b16",), ("e4b8",)):
        found |= dict.fromkeys((f"float8{n}" for n in (short, *others)), f"fp8{short}")
    return found
