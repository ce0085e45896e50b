"""From a specialisation to an image, by way of the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import knobs
from .folder import open_cache
from .source import KernelSource
from .specialize import Specialization

if TYPE_CHECKING:
    from dsalang._backend.image.model import Image
    from dsalang._backend.target import Target


def image_for(source: KernelSource, spec: Specialization, target: Target, key: str) -> Image:
    """The image of a specialisation, from the cache or compiled. `key` is its `key.digest`."""

    def make() -> Image:
        from .compiled import compile_kernel  # who finds the image need not load the compiler

        return compile_kernel(source, spec, target)

    if knobs.DUMP.get() or knobs.WARN.get():  # whoever asks wants to see a compilation
        return make()
    cache = open_cache()
    if cache is None:
        return make()
    return cache.image(key, lambda image: _fits(image, source, target), make)


def _fits(image: Image, source: KernelSource, target: Target) -> bool:
    return image.name == source.name and image.target_digest == target.digest
