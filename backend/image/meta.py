"""The JSON metadata of an image: everything but instructions, vector programs, code and glue.

Data classes become JSON objects with the names of their fields. Reading checks every type against the data
class, so that a file that was written by something else is refused and nothing else can come of it.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
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
    return json.dumps(_plain(meta), separators=(",", ":"), sort_keys=True).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return value


def parse(text: bytes) -> Meta:
    """The metadata of a JSON text. Raises ImageError when it is not exactly what `dump` writes."""
    try:
        data = json.loads(text)
        meta: Meta = _typed(data, Meta, 0)
    except (ValueError, RecursionError) as error:
        raise ImageError(f"damaged image: metadata: {error}") from None
    return meta


_HINTS: dict[type, dict[str, Any]] = {}


def _typed(value: Any, type_: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    origin = typing.get_origin(type_)
    if origin in (types.UnionType, typing.Union):
        (inner,) = (arm for arm in typing.get_args(type_) if arm is not types.NoneType)
        return None if value is None else _typed(value, inner, depth)
    if origin is tuple:
        if not isinstance(value, list):
            raise ValueError(f"{value!r:.80} is not a list")
        entry_type = typing.get_args(type_)[0]
        return tuple(_typed(entry, entry_type, depth + 1) for entry in value)
    if dataclasses.is_dataclass(type_):
        return _object(value, type_, depth)
    if type(value) is not type_:
        raise ValueError(f"{value!r:.80} is not of type {type_.__name__}")
    if type_ is int and not -(1 << 63) <= value < 1 << 64:
        raise ValueError(f"{value!r:.80} is too big")
    return value


def _object(value: Any, type_: Any, depth: int) -> Any:
    if type_ not in _HINTS:
        _HINTS[type_] = typing.get_type_hints(type_)
    hints = _HINTS[type_]
    if not isinstance(value, dict) or set(value) != set(hints):
        raise ValueError(f"{value!r:.80} is not a {type_.__name__}")
    return type_(**{name: _typed(value[name], hint, depth + 1) for name, hint in hints.items()})
