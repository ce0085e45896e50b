"""What a kernel says of itself, under the names that Triton's kernels have."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from .annotations import signature_of
from .asked import Defaults
from .depends import dependencies
from .source import EMPTY, KernelSource


class Described:
    """The base of kernels.

    Attributes:
        fn: the Python function.
    """

    fn: Callable[..., Any]
    _defaults: Defaults

    def __repr__(self) -> str:
        return f"<dsa.jit kernel {self.source.name} of {self.source.file}:{self.source.first_line}>"

    def __reduce__(self) -> str:
        """Kernels are pickled as functions are, by name: for processes that get one as an argument."""
        return self.fn.__qualname__

    @cached_property
    def source(self) -> KernelSource:
        """The function as the compiler sees it."""
        return KernelSource.of(self.fn)

    @cached_property
    def arg_names(self) -> list[str]:
        """The names of the parameters."""
        return [param.name for param in self.source.params]

    @cached_property
    def src(self) -> str:
        """The text of the function from `def` on, without its decorators, as Triton keeps it."""
        text = self.source.text
        found = re.search(r"^(async )?def ", text, re.MULTILINE)
        return text[found.start() :] if found else text

    @cached_property
    def signature(self) -> inspect.Signature:
        """The signature of the Python function."""
        return signature_of(self.fn)

    @property
    def cache_key(self) -> str:
        """A text that changes with the function and with what it refers to."""
        outside = dependencies(self.source)
        parts = [self.source.text, *(f"{way}={outside[way]!r}" for way in sorted(outside))]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    @cached_property
    def params(self) -> list[Any]:
        """The parameters with the attributes that Triton gives them."""
        return [
            SimpleNamespace(
                name=param.name,
                num=number,
                is_constexpr=param.constexpr,
                annotation="" if param.annotation is EMPTY else param.annotation,
                default=param.default,
                has_default=param.default is not EMPTY,
                do_not_specialize=param.name in self._defaults.unspecialized,
                do_not_specialize_on_alignment=param.name in self._defaults.unspecialized,
            )
            for number, param in enumerate(self.source.params)
        ]
