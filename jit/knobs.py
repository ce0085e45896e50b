"""The one table of knobs: environment variables `DSA_*`, read when used.

`affects_code` knobs are part of the cache key. `docs/knobs.md` shows this table; a test compares them.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from dsalang._backend.errors import UserError, closest

T = TypeVar("T")


@dataclass(frozen=True)
class Knob(Generic[T]):
    """An environment variable: how its text is read, its value when unset, and what it does."""

    name: str
    default: T
    parse: Callable[[str], T]
    allowed: str
    doc: str
    affects_code: bool = False

    def get(self) -> T:
        """The value now. Raises UserError when the text of the variable is not allowed."""
        text = os.environ.get(self.name)
        if text is None or text == "":
            return self.default
        try:
            return self.parse(text)
        except ValueError:
            raise UserError(
                f"{self.name}={text!r} is not allowed", hint=f"{self.name} must be {self.allowed}"
            ) from None


_FLAGS = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}
DUMPS = ("passes", "tile", "dsa", "asm", "llvm", "riscv")
ENGINES = {
    "fast": "the device image as host code",
    "reference": "the readable definition of the machine, with all checks, slow",
    "adversarial": "the reference engine with random delays (seed DSA_SEED)",
    "timing": "times without data, for kernels whose control flow does not depend on it",
    "riscv": "the image's RISC-V binary under Unicorn, on the reference engine (extra riscv)",
}
"""Engines by the name that DSA_EMULATOR takes (`jit/engines.py`), and what they are."""


MICROKERNEL_MODES = {
    "auto": "where the cost model finds them faster, or nothing else compiles",
    "off": "never",
    "always": "wherever they serve a call",
}


def _microkernels(text: str) -> str:
    if text not in MICROKERNEL_MODES:
        raise ValueError
    return text


def _flag(text: str) -> bool:
    value = _FLAGS.get(text.lower())
    if value is None:
        raise ValueError
    return value


def _dumps(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if any(name not in DUMPS for name in names):
        raise ValueError
    return names


def _engine(text: str) -> str:
    if text not in ENGINES:
        raise ValueError
    return text


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def _knob(
    name: str, default: T, parse: Callable[[str], T], allowed: str, doc: str, code: bool = False
) -> Knob[T]:
    return Knob(name, default, parse, allowed, doc, code)


_FLAG = "1 or 0"

INTERPRET = _knob(
    "DSA_INTERPRET", False, _flag, _FLAG,
    "run kernels as plain Python over numpy, for breakpoints and prints",
)  # fmt: skip
TARGET = _knob(
    "DSA_TARGET", "edge", str, "the name of a shipped target or the path of a target file",
    "the machine to compile for when the launch does not say", code=True,
)  # fmt: skip
CACHE = _knob(
    "DSA_CACHE", True, _flag, _FLAG, "keep compiled kernels on disk; 0 compiles in every process"
)
CACHE_DIR = _knob(
    "DSA_CACHE_DIR", None, str, "a folder", "where compiled kernels are kept (default: the user's cache folder)"
)  # fmt: skip
CACHE_MAX_BYTES = _knob(
    "DSA_CACHE_MAX_BYTES", 1 << 30, _positive, "a number of bytes from 1",
    "how large that folder may become; what was not used for longest goes first",
)  # fmt: skip
DUMP: Knob[tuple[str, ...]] = _knob(
    "DSA_DUMP", (), _dumps, f"a comma-separated list of {', '.join(DUMPS)}",
    "print to stderr when a kernel compiles: the IR after each pass, or a text of the result",
)  # fmt: skip
VERIFY = _knob("DSA_VERIFY", False, _flag, _FLAG, "run the IR verifier after each pass")
EMULATOR = _knob(
    "DSA_EMULATOR", "fast", _engine, f"one of {', '.join(ENGINES)}",
    "the engine that runs images: " + "; ".join(f"{name}: {what}" for name, what in ENGINES.items()),
)  # fmt: skip
TIERED = _knob(
    "DSA_TIERED", True, _flag, _FLAG,
    "the fast engine leaves the first launch of a new kernel to the reference engine when it is small",
)  # fmt: skip
SEED = _knob(
    "DSA_SEED",
    0,
    int,
    "an integer",
    "seed of the adversarial engine's delays, and of a target's HBM jitter",
)
DRIVER = _knob(
    "DSA_DRIVER", None, str, "the path of a driver's library (runtime/driver/dsa_driver.h)",
    "the device that kernels run on, in place of an engine of this process",
)  # fmt: skip
MICROKERNELS = _knob(
    "DSA_MICROKERNELS", "auto", _microkernels, f"one of {', '.join(MICROKERNEL_MODES)}",
    "whether calls of ops run registered microkernels: "
    + "; ".join(f"{name}: {what}" for name, what in MICROKERNEL_MODES.items()), code=True,
)  # fmt: skip
WARN: Knob[bool | None] = _knob(
    "DSA_WARN", None, _flag, _FLAG,
    "0: no warnings; 1: all, also of lines where `//` or `%` of negative numbers at run time differs from Python's "
    "(kernels compile anew); when not set: such as an unusable cache folder",
)  # fmt: skip

KNOBS: tuple[Knob[Any], ...] = (
    INTERPRET, TARGET, CACHE, CACHE_DIR, CACHE_MAX_BYTES, DUMP, VERIFY, EMULATOR, TIERED, SEED, DRIVER,
    MICROKERNELS, WARN,
)  # fmt: skip


_ENVIRONMENT: Mapping[Any, Any] = getattr(os.environ, "_data", os.environ)
# `os.environ[...]` encodes and decodes, which takes longer than the rest of a launch's look-ups.
_RAW = [getattr(os.environ, "encodekey", str)(knob.name) for knob in KNOBS]


def raw() -> tuple[Any, ...]:
    """The texts of all knobs as they are in the environment; equal ones mean equal values."""
    return tuple(map(_ENVIRONMENT.get, _RAW))


_OTHERS = ("DSA_WORKER", "DSA_WORKER_MIB")
"""Variables of this project that are no knobs: what a driver tells its worker."""
_unknown: set[str] = set()
_OURS = __name__.partition(".")[0] + "."


def warn_of_misspelt() -> None:
    """Warn, once for each, of variables that differ from a knob's name in a letter or two."""
    names = [knob.name for knob in KNOBS]
    for name in os.environ:
        if not name.startswith("DSA_") or name in _unknown or name in (*names, *_OTHERS):
            continue
        _unknown.add(name)
        near = closest(name, names, least=0.85)
        if near and WARN.get() is not False:
            text = f"the environment variable {name} is no knob of dsalang; did you mean {near}?"
            warnings.warn(text, stacklevel=_users_level())


def _users_level() -> int:
    """The stack level of the caller's innermost frame that is not of this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_OURS):
        frame, level = frame.f_back, level + 1
    return level


def code_key() -> str:
    """The knobs that change code and their values, for the cache key (the target has its own digest)."""
    return ";".join(f"{k.name}={k.get()}" for k in KNOBS if k.affects_code and k is not TARGET)


def page() -> str:
    """The text of docs/knobs.md."""
    rows = [
        f"| `{k.name}` | {k.allowed} | {_shown(k.default)} | {k.doc} | {'yes' if k.affects_code else ''} |"
        for k in KNOBS
    ]
    return "\n".join(
        [
            "# Knobs",
            "",
            "Environment variables, read when used. Made from `jit/knobs.py` by",
            "`python -c 'from dsalang._jit.knobs import page; print(page(), end=\"\")' > docs/knobs.md`.",
            "",
            "| variable | values | default | what it does | changes code |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return str(int(default))
    return str(default) if default else ""
