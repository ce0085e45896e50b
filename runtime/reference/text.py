"""Lines that a kernel prints."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dsalang._backend import formats
from dsalang._backend.image.model import PrintInfo

from .state import Array, CoreState


def print_line(state: CoreState, info: PrintInfo, values: Sequence[int], core: int) -> str:
    """`core 0: prefix values`, tiles as numpy prints them."""
    shown = []
    for name, shape, value in zip(info.fmts, info.shapes, values, strict=True):
        fmt = formats.by_name(name)
        if shape is None:
            pattern = (value & (1 << 64) - 1).to_bytes(8, "little")
            shown.append(str(np.frombuffer(pattern, fmt.storage, 1)[0]))
        else:
            shown.append(str(_tile(state, value, shape, fmt)))
    return " ".join([f"core {core}:", info.prefix.rstrip(), *shown])


def _tile(state: CoreState, address: int, shape: tuple[int, ...], fmt: formats.Format) -> Array:
    strides = [fmt.bytes] * len(shape)
    for dim in reversed(range(len(shape) - 1)):
        strides[dim] = strides[dim + 1] * shape[dim + 1]
    return state.sram_read(address, shape, strides, fmt.storage)
