"""From a specialisation to an image, by way of the cache."""

from __future__ import annotations

import ast
import copy
import hashlib
from functools import cache
from pathlib import Path

import astunparse

from dsalang._backend.errors import LaunchError
from dsalang._backend.image.model import Image
from dsalang._backend.target import Target
from dsalang._runtime.cache import Cache, default_folder

from . import knobs
from .arguments import constant_text
from .compiled import compile_kernel
from .source import KernelSource
from .specialize import Specialization
from .version import compiler_version


def digest(source: KernelSource, spec: Specialization, target: Target) -> str:
    """The cache key: a hash of everything that the image depends on."""
    outside = source.dependencies()
    parts = [
        compiler_version(),
        target.name,
        target.digest,
        knobs.code_key(),
        spec.key,
        canonical(source),
        *(f"{way}={_text(way, outside[way])}" for way in sorted(outside)),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _text(name: str, value: object) -> str:
    """A text of an outside value. That of a stranger may differ in each process, which costs a compilation."""
    try:
        return constant_text(name, value)
    except LaunchError:
        kind = type(value)
        return f"{kind.__module__}.{kind.__qualname__}:{value!r}"


@cache
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
    tree = copy.deepcopy(source.tree)
    tree.decorator_list = []
    first = tree.body[0]
    if isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str):
        tree.body = tree.body[1:] or [ast.copy_location(ast.Pass(), first)]
    places = [
        f"{node.lineno}:{node.col_offset}"
        for statement in tree.body
        for node in ast.walk(statement)
        if isinstance(node, (ast.expr, ast.stmt))
    ]
    text = str(astunparse.unparse(tree)).strip()
    return f"{source.file}:{source.first_line}:{source.indent}\n{text}\n{' '.join(places)}"


def image_for(source: KernelSource, spec: Specialization, target: Target, key: str) -> Image:
    """The image of a specialisation, from the cache or compiled."""

    def make() -> Image:
        return compile_kernel(source, spec, target)

    if knobs.DUMP.get():  # whoever asks for a dump wants to see a compilation
        return make()
    cache = open_cache()
    if cache is None:
        return make()
    return cache.image(key, lambda image: _fits(image, source, target), make)


def _fits(image: Image, source: KernelSource, target: Target) -> bool:
    return image.name == source.name and image.target_digest == target.digest


def open_cache() -> Cache | None:
    """The cache that the knobs name; None when it is switched off."""
    return _cache(cache_folder(), knobs.WARN.get()) if knobs.CACHE.get() else None


def cache_folder() -> Path:
    """Where images are kept."""
    folder = knobs.CACHE_DIR.get()
    return Path(folder).expanduser() if folder else default_folder()


@cache
def _cache(folder: Path, warn: bool) -> Cache:
    return Cache(folder, warn)
