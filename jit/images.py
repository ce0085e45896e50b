"""The images of one kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsalang._backend.errors import UnknownTripsError

from . import resident as residency
from .arguments import Arguments
from .source import KernelSource
from .specialize import Specialization

if TYPE_CHECKING:
    from dsalang._backend.image.model import Image
    from dsalang._backend.target import Target
    from dsalang._runtime.residency import Sram


class Images:
    """Images by what they are compiled for; those that this process does not have come from the cache or are made."""

    def __init__(self, source: KernelSource) -> None:
        self._source = source
        self._images: dict[str, Image] = {}
        self._settling: dict[str, tuple[str, ...]] = {}

    def clear(self) -> None:
        """Forget all, as a new process has."""
        self._images.clear()

    def key(self, spec: Specialization, target: Target) -> str:
        """The cache key of an image."""
        from . import key  # loaded when something runs on the machine

        return key.digest(self._source, spec, target)

    def of(self, spec: Specialization, target: Target) -> Image:
        """The image of a specialisation."""
        return self.of_key(self.key(spec, target), spec, target)

    def of_key(self, key: str, spec: Specialization, target: Target) -> Image:
        """The same for one whose key is known."""
        image = self._images.get(key)
        if image is None:
            from . import store

            image = self._images[key] = store.image_for(self._source, spec, target, key)
        return image

    def settled(
        self, spec: Specialization, arguments: Arguments, target: Target, sram: Sram
    ) -> Specialization:
        """A specialisation with its place in SRAM; integers that say which tiles there are become constants."""
        name = f"{self._source.file}:{self._source.first_line}"
        key = f"{target.digest}{spec.key}"
        while True:
            whole = spec.with_constants(arguments, self._settling.get(key, ()))
            try:
                return residency.placed(whole, name, target, sram, lambda s: self.of(s, target))
            except UnknownTripsError as error:
                names = [n for n in error.names if n in whole.signature and n in arguments.scalars]
                if not names:
                    raise
                self._settling[key] = (*self._settling.get(key, ()), *names)
