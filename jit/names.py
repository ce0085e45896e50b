"""Every name of the language in one place: the builtins of all modules, and which of them are methods."""

from __future__ import annotations

from . import (
    builtins,
    libdevice,
    libdevice_bits,
    libdevice_convert,
    libdevice_special,
    library,
    library_descriptors,
    random_numbers,
)
from .builtin import Builtin

BUILTINS: dict[str, Builtin] = {
    value.name: value
    for module in (
        builtins,
        library,
        library_descriptors,
        random_numbers,
        libdevice,
        libdevice_bits,
        libdevice_convert,
        libdevice_special,
    )
    for value in vars(module).values()
    if isinstance(value, Builtin) and not value.name.startswith("_")
}
"""Every builtin by name."""

METHODS: dict[str, Builtin] = {n: b for n, b in BUILTINS.items() if b.method} | {
    "to": builtins.cast
}
"""What scalars and tiles have as methods."""
