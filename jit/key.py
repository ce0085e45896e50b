"""The cache key of an image: a hash of everything that it depends on."""

from __future__ import annotations

import ast
import copy
import hashlib
import warnings
from functools import cache
from typing import TYPE_CHECKING

from dsalang._backend.errors import LaunchError

from . import knobs
from .arguments import constant_text
from .depends import dependencies
from .folder import open_cache
from .micro import registry
from .source import KernelSource
from .specialize import Specialization
from .syntax import walk
from .version import compiler_version

if TYPE_CHECKING:
    from dsalang._backend.target import Target


def digest(source: KernelSource, spec: Specialization, target: Target) -> str:
    """The cache key of an image."""
    outside = dependencies(source, given=spec.constants)
    parts = [
        compiler_version(),
        target.name,
        target.digest,
        knobs.code_key(),
        spec.key,
        registry.fingerprint(),
        canonical_digest(source),
        *(f"{way}={_text(way, outside[way])}" for way in sorted(outside)),
    ]
    return _hash(*parts)


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _text(name: str, value: object) -> str:
    """A text of an outside value. That of a stranger may differ in each process, which costs a compilation."""
    try:
        return constant_text(name, value)
    except LaunchError:
        kind = type(value)
        return f"{kind.__module__}.{kind.__qualname__}:{value!r}"


@cache
def canonical_digest(source: KernelSource) -> str:
    """A hash of `canonical`, remembered on disk for a text that stands where it stood: unparsing takes longer
    than the rest of a launch from the cache."""
    cache = open_cache()
    if cache is None:
        return _hash(canonical(source))
    place = f"{source.file}:{source.first_line}:{source.indent}"
    exact = _hash("source", compiler_version(), place, source.text)
    return cache.note(exact, lambda: _hash(canonical(source)))


def canonical(source: KernelSource) -> str:
    """A function without its decorators, docstring and layout, and where its statements stand.

    The places are part of it because an image holds them: a cached kernel that has moved in its file would
    point at the wrong lines when it fails.
    """
    try:
        return _canonical(source)
    except RecursionError:
        raise source.too_deep() from None


def _canonical(source: KernelSource) -> str:
    tree = copy.copy(source.tree)
    tree.decorator_list = []
    first = tree.body[0]
    if isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str):
        tree.body = tree.body[1:] or [ast.copy_location(ast.Pass(), first)]
    places = [
        f"{node.lineno}:{node.col_offset}"
        for node in walk(*tree.body)
        if isinstance(node, (ast.expr, ast.stmt))
    ]
    return (
        f"{source.file}:{source.first_line}:{source.indent}\n{_unparsed(tree)}\n{' '.join(places)}"
    )


def _unparsed(tree: ast.FunctionDef) -> str:
    import astunparse  # takes long to import

    with warnings.catch_warnings():
        # it asks for names that Python 3.12 and 3.13 warn about; the user may have made errors of warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return str(astunparse.unparse(tree)).strip()
        except AttributeError:
            # what is newer than astunparse, such as `match`: compiling says that kernels do not have it
            return ast.dump(tree)
