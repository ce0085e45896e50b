"""What the host's processor can do, as far as the code generator cares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import llvmlite.binding as llvm


@dataclass(frozen=True)
class Host:
    """A processor.

    Attributes:
        vector_bytes: bytes of a vector register; `registers` is how many there are.
        pair_dot: intrinsic <n x i32> f(<2n x i16>, <2n x i16>) that sums products of neighbours, or ''.
        quad_dot: intrinsic <n x i32> f(<n x i32> sum, unsigned <4n x i8>, signed <4n x i8>), the same with four, or ''.
        permutes: by number of lanes, intrinsic <n x i32> f(<n x i32> table, <n x i32> index).
        scales: by number of fp32 lanes, intrinsic f(x, n, passed through, mask, rounding) that gives x * 2^n.
        limits: by number of fp32 lanes, intrinsics f(x, y, rounding) of the larger and the smaller one; y where one is NaN.
    """

    vector_bytes: int
    registers: int
    pair_dot: str = ""
    quad_dot: str = ""
    permutes: tuple[tuple[int, str], ...] = ()
    scales: tuple[tuple[int, str], ...] = ()
    limits: tuple[tuple[int, tuple[str, str]], ...] = ()

    @property
    def lanes(self) -> int:
        """fp32 lanes of a vector register."""
        return self.vector_bytes // 4


_PERMUTE_8 = (8, "llvm.x86.avx2.permd")
AVX512 = Host(
    64,
    32,
    "llvm.x86.avx512.pmaddw.d.512",
    "",
    (_PERMUTE_8, (16, "llvm.x86.avx512.permvar.si.512")),
    ((16, "llvm.x86.avx512.mask.scalef.ps.512"),),
    ((16, ("llvm.x86.avx512.max.ps.512", "llvm.x86.avx512.min.ps.512")),),
)
AVX512_VNNI = replace(AVX512, quad_dot="llvm.x86.avx512.vpdpbusd.512")
AVX2 = Host(32, 16, "llvm.x86.avx2.pmadd.wd", "", (_PERMUTE_8,))
PLAIN = Host(16, 32)


def from_features(features: Mapping[str, bool]) -> Host:
    """The host with these LLVM processor features."""
    if all(features.get(f"avx512{part}", False) for part in ("f", "bw", "dq", "vl")):
        return AVX512_VNNI if features.get("avx512vnni", False) else AVX512
    if all(features.get(name, False) for name in ("avx2", "fma", "f16c")):
        return AVX2
    return PLAIN


@lru_cache(maxsize=1)
def this_host() -> Host:
    """The processor that we run on."""
    return from_features(llvm.get_host_cpu_features())
