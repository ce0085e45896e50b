"""Random numbers from a seed and offsets, bit for bit those of Triton: Philox-4x32-10.

The generator is Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011): a bijection of four words
of counter under two words of key.
"""

from __future__ import annotations

from typing import Any

from . import builtins as tl
from . import dtypes
from .builtin import defined

ROUNDS = 10
FACTORS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
FACTORS64 = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
WEYL64 = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)


@defined()
def philox_impl(
    c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any, n_rounds: Any = ROUNDS
) -> Any:
    """Rounds of Philox on four uint32 (or uint64) words of counter with two words of key."""
    kind = c0.dtype
    if kind.primitive_bitwidth == 32:
        factors, weyl = FACTORS, WEYL
    else:
        factors, weyl = FACTORS64, WEYL64
    a = tl.full((), factors[0], kind)
    b = tl.full((), factors[1], kind)
    for _ in tl.static_range(n_rounds):
        high_a, low_a = tl.umulhi(c0, a), c0 * a
        high_b, low_b = tl.umulhi(c2, b), c2 * b
        c0, c1, c2, c3 = high_b ^ c1 ^ k0, low_b, high_a ^ c3 ^ k1, low_a
        k0 = k0 + tl.full((), weyl[0], kind)
        k1 = k1 + tl.full((), weyl[1], kind)
    return c0, c1, c2, c3


@defined()
def philox(seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: Any = ROUNDS) -> Any:
    """Philox of four words of counter; the 64 bits of the seed are the key."""
    seed = tl.cast(seed, dtypes.uint64)
    if c0.dtype.primitive_bitwidth == 32:
        kind = dtypes.uint32
        low = (seed & 0xFFFFFFFF).to(kind)
        high = ((seed >> 32) & 0xFFFFFFFF).to(kind)
    else:
        kind = dtypes.uint64
        low = seed
        high = tl.full((), 0, kind)
    c0 = tl.cast(c0, kind)
    c1 = tl.cast(c1, kind)
    c2 = tl.cast(c2, kind)
    c3 = tl.cast(c3, kind)
    return philox_impl(c0, c1, c2, c3, low, high, n_rounds)


@defined()
def randint4x(seed: Any, offset: Any, n_rounds: Any = ROUNDS) -> Any:
    """Four tiles of random uint32, one number of each per offset; the cheapest source."""
    low = tl.cast(offset, dtypes.uint32)
    zero = low * 0
    if offset.dtype.primitive_bitwidth > 32:
        high = (offset >> 32).to(dtypes.uint32)
    else:
        high = zero
    return philox(seed, low, high, zero, zero, n_rounds)


@defined()
def randint(seed: Any, offset: Any, n_rounds: Any = ROUNDS) -> Any:
    """Random uint32, one per offset."""
    first, _b, _c, _d = randint4x(seed, offset, n_rounds)
    return first


@defined()
def uint_to_uniform_float(x: Any) -> Any:
    """Random integers of 32 (64) bits as fp32 in [0, 1)."""
    if x.dtype.primitive_bitwidth == 32:
        kind, scale = dtypes.int32, 4.6566127342e-10
    else:
        kind, scale = dtypes.int64, 1.0842020432385337e-19
    x = x.to(kind, bitcast=True)
    x = tl.where(x < 0, -x - 1, x)
    return x.to(dtypes.float32) * scale


@defined()
def rand(seed: Any, offset: Any, n_rounds: Any = ROUNDS) -> Any:
    """fp32 uniform in [0, 1), one per offset."""
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


@defined()
def rand4x(seed: Any, offset: Any, n_rounds: Any = ROUNDS) -> Any:
    """Four tiles of fp32 uniform in [0, 1)."""
    i1, i2, i3, i4 = randint4x(seed, offset, n_rounds)
    return (
        uint_to_uniform_float(i1),
        uint_to_uniform_float(i2),
        uint_to_uniform_float(i3),
        uint_to_uniform_float(i4),
    )


@defined()
def pair_uniform_to_normal(u1: Any, u2: Any) -> Any:
    """Two normal numbers from two uniform ones (Box and Muller)."""
    radius = tl.sqrt(-2.0 * tl.log(tl.maximum(1.0e-7, u1)))
    angle = 6.283185307179586 * u2
    return radius * tl.cos(angle), radius * tl.sin(angle)


@defined()
def randn(seed: Any, offset: Any, n_rounds: Any = ROUNDS) -> Any:
    """fp32 normal with mean 0 and deviation 1, one per offset."""
    i1, i2, _c, _d = randint4x(seed, offset, n_rounds)
    first, _second = pair_uniform_to_normal(uint_to_uniform_float(i1), uint_to_uniform_float(i2))
    return first


@defined()
def randn4x(seed: Any, offset: Any, n_rounds: Any = ROUNDS) -> Any:
    """Four tiles of fp32 normal numbers."""
    u1, u2, u3, u4 = rand4x(seed, offset, n_rounds)
    n1, n2 = pair_uniform_to_normal(u1, u2)
    n3, n4 = pair_uniform_to_normal(u3, u4)
    return n1, n2, n3, n4
