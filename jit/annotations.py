"""Annotations of functions and classes. From Python 3.14 on they are evaluated when somebody asks, so a name may be missing then."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, ForwardRef


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function; annotations with names that do not exist are `ForwardRef`s."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def fields_of(cls: type) -> list[str]:
    """The names that a class annotates itself, in their order.

    >>> class Pair:
    ...     first: int
    ...     second: int = 2
    >>> fields_of(Pair)
    ['first', 'second']
    """
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return list(inspect.get_annotations(cls, format=Format.FORWARDREF))
    return list(inspect.get_annotations(cls))


def plain(annotation: Any) -> Any:
    """An annotation: the object, or its text where it is not known what that stands for."""
    return annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
