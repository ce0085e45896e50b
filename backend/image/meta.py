"""The JSON metadata of an image: everything but instructions, vector programs, code and glue.

Data classes become JSON objects with the names of their fields. Reading checks every type against the data
class, so that a file that was written by something else is refused and nothing else can come of it.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from ..errors import ImageError, Loc
from .model import Argument, AssertInfo, Choice, PrintInfo, Residency, RingInfo, Timing

MAX_DEPTH = 64


@dataclasses.dataclass(frozen=True)
class TemplateMeta:
    """What a template has besides its instruction."""

    open: tuple[str, ...]
    loc: Loc | None
    hbm_arg: int


@dataclasses.dataclass(frozen=True)
class Meta:
    """The part of an image that is stored as JSON."""

    name: str
    target: str
    target_digest: str
    arguments: tuple[Argument, ...]
    templates: tuple[TemplateMeta, ...]
    programs: int
    credits: tuple[int, ...]
    rings: tuple[RingInfo, ...]
    prints: tuple[PrintInfo, ...]
    asserts: tuple[AssertInfo, ...]
    sram_bytes: int
    code_address: int
    timing: Timing | None
    residency: Residency | None
    choices: tuple[Choice, ...]


def dump(meta: Meta) -> bytes:
    """The JSON text."""
    return json.dumps(meta, separators=(",", ":"), sort_keys=True, default=_fields).encode()


def _fields(value: Any) -> dict[str, Any]:
    kind: Any = type(value)
    return {name: getattr(value, name) for name in _readers(kind)}


def parse(text: bytes) -> Meta:
    """The metadata of a JSON text. Raises ImageError when it is not exactly what `dump` writes."""
    try:
        meta: Meta = _object(Meta, json.loads(text), 0)
    except (ValueError, RecursionError) as error:
        raise ImageError(f"damaged image: metadata: {error}") from None
    return meta


Reader = Callable[[Any, int], Any]
"""Makes a value of one type from JSON, at some depth. Raises ValueError for anything else."""


@cache
def _readers(type_: Any) -> dict[str, Reader]:
    """How the fields of a data class are read."""
    return {name: _reader(hint) for name, hint in typing.get_type_hints(type_).items()}


@cache
def _reader(type_: Any) -> Reader:
    origin = typing.get_origin(type_)
    if origin in (types.UnionType, typing.Union):
        (inner,) = (arm for arm in typing.get_args(type_) if arm is not types.NoneType)
        read = _reader(inner)
        return lambda value, depth: None if value is None else read(value, depth)
    if origin is tuple:
        return partial(_list, _reader(typing.get_args(type_)[0]))
    return partial(_object if dataclasses.is_dataclass(type_) else _scalar, type_)


def _object(type_: Any, value: Any, depth: int) -> Any:
    readers = _readers(type_)
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    if not isinstance(value, dict) or value.keys() != readers.keys():
        raise ValueError(f"{value!r:.80} is not a {type_.__name__}")
    return type_(**{name: read(value[name], depth + 1) for name, read in readers.items()})


def _list(read: Reader, value: Any, depth: int) -> Any:
    if not isinstance(value, list):
        raise ValueError(f"{value!r:.80} is not a list")
    return tuple([read(entry, depth + 1) for entry in value])


def _scalar(type_: type, value: Any, depth: int) -> Any:
    if type(value) is not type_:
        raise ValueError(f"{value!r:.80} is not of type {type_.__name__}")
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise ValueError(f"{value!r:.80} is too big")
    return value
