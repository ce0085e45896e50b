"""Times of Triton's own compiler for the kernels of `peer_kernels.py`, for one GPU target; no GPU is needed.

Run as a process of its own, where Triton's interpreter is not on: `python benchmarks/triton_compile.py REPEATS`
prints a JSON object of milliseconds by kernel. Every compilation is a real one, from the Python function down to
the machine code that ptxas makes: nothing is taken from Triton's cache, and each has a fresh `JITFunction`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

POINTERS = {"add": 3, "softmax": 2, "layer_norm": 4, "matmul": 3, "attention": 4}
"""Pointers come first among the parameters of every kernel."""
FP16 = ("matmul", "attention")
CONSTANTS = {
    "add": {"BLOCK": 1024}, "softmax": {"BLOCK": 1024}, "layer_norm": {"BLOCK": 1024},
    "matmul": {"BM": 64, "BN": 64, "BK": 32}, "attention": {"BM": 64, "BN": 64, "D": 64},
}  # fmt: skip
FLOATS = ("eps", "scale")


def source(name: str) -> Any:
    """The kernel and its specialisation, as a launch with aligned arrays and sizes has it."""
    import peers
    import triton
    import triton.language
    from triton.compiler import ASTSource

    kernel = peers.load_kernels(triton.language, triton.jit)[name]
    constants, signature, facts = CONSTANTS[name], {}, {}
    for number, parameter in enumerate(kernel.arg_names):
        if parameter in constants:
            signature[parameter] = "constexpr"
        elif number < POINTERS[name]:
            signature[parameter] = "*fp16" if name in FP16 else "*fp32"
        else:
            signature[parameter] = "fp32" if parameter in FLOATS else "i32"
        if signature[parameter][0] in "*i":
            facts[number,] = [["tt.divisibility", 16]]
    places = {(kernel.arg_names.index(key),): value for key, value in constants.items()}
    return ASTSource(fn=kernel, signature=signature, constexprs=places, attrs=facts)


def milliseconds(name: str, repeats: int) -> float:
    """The best time of a compilation."""
    import triton
    from triton.backends.compiler import GPUTarget

    times = []
    for _ in range(repeats):
        kernel = source(name)
        before = time.perf_counter()
        triton.compile(kernel, target=GPUTarget("cuda", 90, 32))
        times.append((time.perf_counter() - before) * 1e3)
    return min(times)


def main() -> None:
    """Print the times."""
    os.environ.pop("TRITON_INTERPRET", None)
    os.environ["TRITON_ALWAYS_COMPILE"] = "1"
    sys.path.insert(0, str(Path(__file__).parent))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        milliseconds("add", 1)  # what a process pays once
        print(json.dumps({name: milliseconds(name, int(sys.argv[1])) for name in POINTERS}))


if __name__ == "__main__":
    main()
