"""Measure the errors of the transcendental functions over all of fp32: `python -m numerics.ulp STRIDE` in tests/."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dsalang._backend import formats
from dsalang._backend.numerics import transcendental

from .oracle import spread_fp32, ulp_errors

F64 = npt.NDArray[np.float64]
FP32 = formats.by_name("fp32")

REFERENCES: dict[str, Callable[[F64], Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "sin": np.sin,
    "cos": np.cos,
}


def worst(name: str, values: npt.NDArray[np.float32]) -> tuple[float, float]:
    """Largest error of a function over `values` in ulp, and where."""
    result, place = 0.0, 0.0
    for start in range(0, len(values), 1 << 20):
        block = values[start : start + (1 << 20)]
        with np.errstate(all="ignore"):
            got = getattr(transcendental, name)(block)
            exact = REFERENCES[name](block.astype(np.float64))
        errors = ulp_errors(got, exact, FP32)
        if errors.max() > result:
            result, place = float(errors.max()), float(block[errors.argmax()])
    return result, place


def main() -> None:
    """Print the worst case per function over every STRIDE-th fp32."""
    values = spread_fp32(int(sys.argv[1]))
    for name in REFERENCES:
        error, place = worst(name, values)
        print(f"{name:5} {error:.3f} ulp at {place.hex()} ({len(values)} operands)", flush=True)


if __name__ == "__main__":
    main()
