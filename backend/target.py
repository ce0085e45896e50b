"""Targets: a machine is a TOML file, and nothing of it stands in code.

`Target` is the checked form of such a file; `docs/targets.md` lists the keys. Units are in the names.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from . import formats
from .errors import TargetError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TENSOR_MODELS = ("cube", "systolic-ws", "systolic-os")
"""How the tensor engine takes its operands; `cost.py` has a function for each, docs/targets.md the formulas."""
COST_CLASSES = ("cheap", "medium", "costly")
_FOLDER = (
    Path(__file__).parent / "targets"
)  # importlib.resources takes longer to import than a target to read


@dataclass(frozen=True)
class Hbm:
    """The memory outside the cores; figures are for the whole chip.

    A transfer may complete up to `jitter_cycles` later than after `latency_cycles`; nobody counts on how much.
    """

    bytes_per_second: int
    latency_cycles: int
    burst_bytes: int
    jitter_cycles: int = 0


@dataclass(frozen=True)
class Dma:
    """The load and the store queue of a core."""

    setup_cycles: int


@dataclass(frozen=True)
class Tensor:
    """The tensor engine of a core. `native_k` and `macs_per_cycle` are per format of the operands.

    `native_m` and `native_n` are M and N of the block that a `cube` takes, rows and columns of a systolic array.
    With `block_scales` it takes operands whose blocks along K have a scale (E8M0).
    Without `overlap` a block, or a fold of a systolic array, starts when the one before it has left the engine.
    """

    model: str
    native_m: int
    native_n: int
    fill_cycles: int
    macs_per_cycle: Mapping[str, int]
    max_dim: int
    overlap: bool = True
    block_scales: bool = False

    def native_k(self, fmt: str) -> int:
        """K of the native block for operands of a format: what one cycle takes."""
        return max(1, self.macs_per_cycle[fmt] // (self.native_m * self.native_n))


@dataclass(frozen=True)
class Vector:
    """The vector engine of a core. `op_cycles` prices a cost class per `bytes_per_cycle` of data."""

    bytes_per_cycle: int
    startup_cycles: int
    op_cycles: Mapping[str, int]


@dataclass(frozen=True)
class Scalar:
    """The control core: an issue costs issue_cycles + operand_cycles per run-time operand."""

    issue_cycles: int
    operand_cycles: int
    read_cycles: int


@dataclass(frozen=True)
class Target:
    """A machine. `cores` identical cores share one HBM; each has its own SRAM, semaphores and engines."""

    name: str
    description: str
    clock_mhz: int
    cores: int
    sram_bytes: int
    sram_align_bytes: int
    sram_banks: int
    queue_depth: int
    semaphores: int
    semaphore_max: int
    hbm: Hbm
    dma: Dma
    tensor: Tensor
    vector: Vector
    scalar: Scalar

    @staticmethod
    def from_file(path: str | Path) -> Target:
        """Read a target file. Raises TargetError with the key, the value and what is allowed."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise TargetError(f"cannot read target file {path}: {error}") from None
        return parse_target(text, str(path))

    @staticmethod
    def shipped() -> tuple[str, ...]:
        """Names of the targets that come with dsalang.

        >>> "edge" in Target.shipped()
        True
        """
        return tuple(sorted(file.stem for file in _FOLDER.glob("*.toml")))

    @staticmethod
    def by_name(name: str) -> Target:
        """A shipped target.

        >>> Target.by_name("edge").cores
        1
        """
        if name not in Target.shipped():
            raise TargetError(
                f"unknown target {name!r}",
                hint=f"shipped targets are {', '.join(Target.shipped())}; for a file of your own "
                "use dsa.Target.from_file(path)",
            )
        text = (_FOLDER / f"{name}.toml").read_text("utf-8")
        return parse_target(text, f"{name}.toml")

    @cached_property
    def digest(self) -> str:
        """A hash of every figure; part of the cache key and of images."""
        text = json.dumps(dataclasses.asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def hbm_bytes_per_cycle(self, active_cores: int) -> Fraction:
        """HBM bandwidth of one core when `active_cores` share it evenly, exact."""
        return Fraction(self.hbm.bytes_per_second, self.clock_mhz * 1_000_000 * active_cores)

    def microseconds(self, cycles: int) -> float:
        """Cycles as time."""
        return cycles / self.clock_mhz


_POSITIVE = (1, 2**50)
_RANGES: dict[str, tuple[int, int]] = {
    "cores": (1, 4096),
    "clock_mhz": (1, 100_000),
    "sram_bytes": (1024, 2**31),
    "sram_align_bytes": (8, 4096),
    "sram_banks": (1, 4096),
    "queue_depth": (1, 4096),
    "semaphores": (2, 256),
    "semaphore_max": (1, 255),
    "latency_cycles": (0, 1_000_000),
    "jitter_cycles": (0, 1_000_000),
    "setup_cycles": (0, 1_000_000),
    "fill_cycles": (0, 1_000_000),
    "startup_cycles": (0, 1_000_000),
    "issue_cycles": (0, 1_000_000),
    "operand_cycles": (0, 1_000_000),
    "read_cycles": (0, 1_000_000),
    "burst_bytes": (1, 65536),
}
_TABLES: dict[str, Any] = {
    "hbm": Hbm,
    "dma": Dma,
    "tensor": Tensor,
    "vector": Vector,
    "scalar": Scalar,
}


def parse_target(text: str, source: str) -> Target:
    """Check the text of a target file; `source` names it in errors."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TargetError(f"{source}: not valid TOML: {error}") from None
    target: Target = _build(Target, data, "", source)
    align = target.sram_align_bytes
    if align & (align - 1):
        raise _bad(source, "sram_align_bytes", align, "a power of two")
    return target


def _bad(source: str, key: str, value: object, allowed: str) -> TargetError:
    return TargetError(
        f"{source}: {key} = {value!r} is not allowed", hint=f"{key} must be {allowed}"
    )


def _build(cls: Any, data: Mapping[str, Any], prefix: str, source: str) -> Any:
    fields = {f.name: f for f in dataclasses.fields(cls)}
    for key in data:
        if key not in fields:
            raise TargetError(
                f"{source}: unknown key {prefix}{key} = {data[key]!r}",
                hint=f"allowed keys here: {', '.join(fields)}",
            )
    values = {}
    for name, field in fields.items():
        key = prefix + name
        if name not in data:
            if field.default is not dataclasses.MISSING:
                values[name] = field.default
                continue
            raise TargetError(
                f"{source}: key {key} is missing", hint=f"add {key}; see docs/targets.md"
            )
        values[name] = _value(name, str(field.type), data[name], key, source)
    return cls(**values)


def _value(name: str, kind: str, value: Any, key: str, source: str) -> Any:
    if name in _TABLES:
        if not isinstance(value, dict):
            raise _bad(source, key, value, "a table")
        return _build(_TABLES[name], value, f"{key}.", source)
    if kind == "str":
        if not isinstance(value, str):
            raise _bad(source, key, value, "a string")
        if name == "model" and value not in TENSOR_MODELS:
            raise _bad(source, key, value, f"one of {', '.join(TENSOR_MODELS)}")
        return value
    if kind == "bool":
        if not isinstance(value, bool):
            raise _bad(source, key, value, "true or false")
        return value
    if kind == "int":
        return _integer(value, key, source, *_RANGES.get(name, _POSITIVE))
    return _rates(name, value, key, source)


def _integer(value: Any, key: str, source: str, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise _bad(source, key, value, f"an integer from {low} to {high}")
    return value


def _rates(name: str, value: Any, key: str, source: str) -> dict[str, int]:
    allowed = COST_CLASSES if name == "op_cycles" else tuple(formats.OPERANDS)
    if not isinstance(value, dict) or not value:
        raise _bad(source, key, value, "a table of integers")
    for entry in value:
        if entry not in allowed:
            raise _bad(
                source, f"{key}.{entry}", value[entry], f"one of the keys {', '.join(allowed)}"
            )
    if name == "op_cycles" and set(value) != set(COST_CLASSES):
        raise _bad(source, key, value, f"a table with the keys {', '.join(COST_CLASSES)}")
    return {k: _integer(v, f"{key}.{k}", source, *_POSITIVE) for k, v in value.items()}
