"""`install()`: libraries that say `import triton` get this project instead."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

from dsalang._backend.errors import CompileError, LaunchError, UserError
from dsalang._jit.composite import TensorDescriptor
from dsalang._jit.constexpr import constexpr, constexpr_function
from dsalang._jit.dtypes import from_name
from dsalang._jit.reinterpret import TensorWrapper, reinterpret

VERSION = "3.4.0"
"""The version of Triton whose language this is; libraries choose between names by it."""


def install(force: bool = False) -> ModuleType:
    """Make `import triton` and its submodules mean dsalang in this process, and return that module.

    Args:
        force: also when another Triton has been imported already.

    Raises:
        LaunchError: another Triton has been imported already.
    """
    present = sys.modules.get("triton")
    if present is not None and getattr(present, "__dsalang__", False):
        return present
    if present is not None and not force:
        raise LaunchError(
            "triton has been imported already",
            hint="call dsalang.compat.install() before whatever imports it, or with force=True",
        )
    for name in [n for n in sys.modules if n == "triton" or n.startswith("triton.")]:
        del sys.modules[name]
    modules = _modules()
    for name, module in modules.items():
        sys.modules[name] = module
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(modules[parent], last, module)
    return modules["triton"]


def uninstall() -> None:
    """Undo `install`: `import triton` finds what is installed."""
    present = sys.modules.get("triton")
    if present is not None and getattr(present, "__dsalang__", False):
        for name in [n for n in sys.modules if n == "triton" or n.startswith("triton.")]:
            del sys.modules[name]


def _module(name: str, members: Mapping[str, Any], doc: str) -> ModuleType:
    module = ModuleType(name, doc)
    module.__dict__.update(members)
    module.__path__ = []  # so that submodules are looked for
    module.__dsalang__ = True  # type: ignore[attr-defined]
    return module


def _public(module: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if name[0] != "_"}


def _modules() -> dict[str, ModuleType]:
    import dsalang
    from dsalang import language, runtime, testing

    names = {name: getattr(dsalang, name) for name in _TOP}
    math, libdevice = _public(language.math), _public(language.libdevice)
    functions = _public(language)
    functions["_experimental_make_tensor_descriptor"] = functions["make_tensor_descriptor"]
    functions["str_to_ty"] = _str_to_ty
    members: dict[str, Mapping[str, Any]] = {
        "triton": {
            **names, **_ERRORS, "KernelInterface": runtime.KernelInterface, "__version__": VERSION,
            "set_allocator": _ignore, "reinterpret": reinterpret, "TensorWrapper": TensorWrapper,
        },
        "triton.errors": _ERRORS,
        "triton.knobs": _knobs(),
        "triton.backends": {"backends": {}},
        "triton.language": functions,
        "triton.language.core": {**functions, "CONSTEXPR_0": constexpr(0)},
        "triton.language.standard": {**functions, "_log2": _log2, "_is_power_of_two": _is_power_of_two},
        "triton.language.random": functions,
        "triton.language.math": math,
        "triton.language.extra": {"libdevice": libdevice},
        "triton.language.extra.libdevice": libdevice,
        "triton.language.extra.cuda": {},
        "triton.language.extra.cuda.libdevice": libdevice,
        "triton.language.extra.hip": {},
        "triton.language.extra.hip.libdevice": libdevice,
        "triton.language.extra.intel": {},
        "triton.language.extra.intel.libdevice": libdevice,
        "triton.testing": _public(testing),
        "triton.runtime": _public(runtime),
        "triton.runtime.driver": vars(runtime.driver),
        "triton.runtime.jit": {
            "JITFunction": runtime.JITFunction, "KernelInterface": runtime.KernelInterface, "jit": dsalang.jit,
            "TensorWrapper": TensorWrapper, "reinterpret": reinterpret, "type_canonicalisation_dict": _canonical_types(),
        },
        "triton.runtime.autotuner": {
            name: getattr(dsalang, name) for name in ("Config", "autotune", "heuristics")
        } | {"Autotuner": runtime.Autotuner, "Heuristics": runtime.Heuristics},
        "triton.runtime._allocation": {"NullAllocator": _ignore, "set_allocator": _ignore},
        "triton.runtime.errors": {"OutOfResources": runtime.OutOfResources, "InterpreterError": CompileError},
        "triton.compiler": {**_ERRORS, "CompiledKernel": dsalang.CompiledKernel},
        "triton.compiler.errors": _ERRORS,
        "triton.tools": {},
        "triton.tools.tensor_descriptor": {"TensorDescriptor": TensorDescriptor},
    }  # fmt: skip
    return {
        name: _module(name, values, f"dsalang in place of {name}.")
        for name, values in members.items()
    }


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


def _knobs() -> dict[str, Any]:
    """Settings of Triton's compiler that libraries read or set; they change nothing here."""
    found: dict[str, Any] = {name: Knobs() for name in _KNOBS}
    return {**found, "base_knobs": Knobs, "propagate_env": True}


class Knobs(SimpleNamespace):
    """A group of Triton's settings: any may be set, those that were not are None."""

    knob_descriptors: Mapping[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

    def copy(self) -> Knobs:
        """Another group of the same settings."""
        return Knobs(**vars(self))

    def reset(self) -> Knobs:
        """Forget all settings."""
        vars(self).clear()
        return self

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Settings made inside are undone at the end."""
        before = dict(vars(self))
        yield
        vars(self).clear()
        vars(self).update(before)


_KNOBS = (
    "autotuning",
    "build",
    "cache",
    "compilation",
    "redis",
    "runtime",
    "language",
    "nvidia",
    "amd",
    "proton",
)

_ERRORS = {"TritonError": UserError, "CompilationError": CompileError}

_TOP = (
    "jit", "autotune", "heuristics", "Config", "cdiv", "next_power_of_2", "constexpr_function", "JITFunction",
)  # fmt: skip


def _ignore(*args: Any, **kwargs: Any) -> None:
    """Accepted for Triton's sake."""
