"""The README's picture: a part of the demo's timeline, `python benchmarks/picture.py > docs/timeline.svg`."""

from __future__ import annotations

import sys

import numpy as np

import dsalang as dsa
from dsalang._runtime.profile.timeline import detail
from dsalang.demo import BLOCKS, K, M, N, linear_gelu


def main() -> int:
    x, w = np.zeros((M, K), np.float16), np.zeros((K, N), np.float16)
    bias, y = np.zeros(N, np.float16), np.zeros((M, N), np.float16)
    grid = (dsa.cdiv(M, BLOCKS["BM"]), dsa.cdiv(N, BLOCKS["BN"]))
    profile = linear_gelu.profile(x, w, bias, y, M, N, K, grid=grid, **BLOCKS, show=False)
    font = "system-ui, Segoe UI, Roboto, DejaVu Sans, sans-serif"
    sys.stdout.write(
        detail(profile).replace('font-family="inherit"', f'font-family="{font}"') + "\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
