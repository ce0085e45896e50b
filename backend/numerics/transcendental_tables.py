"""The constants behind exp, log, tanh, erf, sin and cos, in hexadecimal: part of the machine's definition.

The coefficients are our own minimax fits, made for relative error of the result. Those of fp32 were rounded one
after the other, the lowest degree first, those of fp64 as they came. `docs/numerics.md` lists them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

TWO_OVER_PI = (
    0xA2F9836E_4E441529_FC2757D1_F534DDC0_DB629599_3C439041_FE5163AB_DEBBC561_B7246E3A_424DD2E0
    << 864
    | 0x06492EEA_09D1921C_FE1DEB1C_B129A73E_E88235F5_2EBB4484_E99C7026_B45F7E41_3991D639_835339F4
    << 544
    | 0x9C845F8B_BDF9283B_1FF897FF_DE05980F_EF2F118B_5A0A6D1F_6D367ECF_27CB09B7_4F463F66_9E5FEA2D
    << 224
    | 0x7527BAC7_EBE5F17B_3D0739F7_8A5292EA_6BFB5FB1_1F8D5D08_56033046
)
"""floor(2/pi * 2^1184)."""


@dataclass(frozen=True)
class Tables:
    """What the functions of one real format (fp32, fp64) are made of; every number is of that format.

    Attributes:
        word: the signed integer of the same width.
        mantissa_bits, bias: the format's layout.
        exp_min, exp_max, exp2_min, exp2_max: beyond these the result is 0 or infinity.
        log2_e, log2_e_low: the logarithm of e and what it leaves.
        ln2_high, ln2_low: ln 2; the product of the high part with any exponent is exact.
        sqrt_half: the bits of sqrt(1/2).
        tanh_max, erf_max: from here on the result is 1.
        tanh_split, erf_split: below these the polynomial of the function itself is used.
        quarter_pi, half_pi, half_pi_low: pi/4, pi/2 and what that leaves.
        exp: (e^r - 1 - r) / r^2 for |r| <= ln(2)/2.
        exp2: (2^r - 1) / r for |r| <= 1/2.
        log: (ln(1 + f) - f + f^2/2) / f^3 for sqrt(1/2) <= 1 + f <= sqrt(2).
        tanh: (tanh(a) / a - 1) / a^2 in z = a^2 for a <= 0.7.
        erf: erf(a) / a - 1 in z = a^2 for a <= 0.93.
        erf_tail: ln(1 - erf(a)) from 0.92 on.
        sin, cos: (sin(r) / r - 1) / r^2 and (cos(r) - 1 + r^2/2) / r^4 in z = r^2 for |r| <= pi/4.
    """

    real: Any
    word: Any
    mantissa_bits: int
    bias: int
    sqrt_half: int
    exp_min: Any
    exp_max: Any
    exp2_min: Any
    exp2_max: Any
    log2_e: Any
    log2_e_low: Any
    ln2_high: Any
    ln2_low: Any
    tanh_max: Any
    tanh_split: Any
    erf_max: Any
    erf_split: Any
    quarter_pi: Any
    half_pi: Any
    half_pi_low: Any
    exp: tuple[Any, ...]
    exp2: tuple[Any, ...]
    log: tuple[Any, ...]
    tanh: tuple[Any, ...]
    erf: tuple[Any, ...]
    erf_tail: tuple[Any, ...]
    sin: tuple[Any, ...]
    cos: tuple[Any, ...]


POLYNOMIALS = ("exp", "exp2", "log", "tanh", "erf", "erf_tail", "sin", "cos")


def _tables(real: Any, **texts: str) -> Tables:
    info = np.finfo(real)
    values: dict[str, Any] = {}
    for name, text in texts.items():
        numbers = tuple(real(float.fromhex(number)) for number in text.split())
        values[name] = numbers if name in POLYNOMIALS else numbers[0]
    word = np.dtype(f"i{info.bits // 8}").type
    return Tables(
        real,
        word,
        mantissa_bits=info.nmant,
        bias=info.maxexp - 1,
        sqrt_half=int(np.sqrt(real(0.5)).view(word)),
        **values,
    )


FP32 = _tables(
    np.float32,
    exp_min="-0x1.ap+6",
    exp_max="0x1.64p+6",
    exp2_min="-0x1.2ep+7",
    exp2_max="0x1.02p+7",
    log2_e="0x1.715476p+0",
    log2_e_low="0x1.4ae0cp-26",
    ln2_high="0x1.62e4p-1",
    ln2_low="0x1.7f7d1cp-20",
    tanh_max="0x1.4p+3",
    tanh_split="0x1.6p-1",
    erf_max="0x1p+2",
    erf_split="0x1.dap-1",
    quarter_pi="0x1.921fb6p-1",
    half_pi="0x1.921fb6p+0",
    half_pi_low="0x0p+0",
    exp="0x1.fffffcp-2 0x1.555492p-3 0x1.5558aep-5 0x1.12397ep-7 0x1.6a4f14p-10",
    exp2=(
        "0x1.62e43p-1 0x1.ebfbep-3 0x1.c6b06ep-5 0x1.3b2a5cp-7 0x1.5da594p-10"
        " 0x1.440e5ap-13 0x1.e087ap-17"
    ),
    log=(
        "0x1.555548p-2 -0x1.000006p-2 0x1.99a476p-3 -0x1.555c46p-3 0x1.233ba8p-3"
        " -0x1.fc2886p-4 0x1.e6bf3ap-4 -0x1.de02bcp-4 0x1.14760cp-4"
    ),
    tanh=("-0x1.55555p-2 0x1.110f52p-3 -0x1.b9bb3cp-5 0x1.617fecp-6 -0x1.02972ap-7 0x1.f2551cp-10"),
    erf=(
        "0x1.06eba8p-3 -0x1.81274p-2 0x1.ce2d64p-4 -0x1.b8011ap-6 0x1.544a1ap-8"
        " -0x1.a60a2ep-11 0x1.4f676p-14"
    ),
    erf_tail=(
        "0x1.6e57b8p-13 -0x1.2127e4p+0 -0x1.44460cp-1 -0x1.bb83ep-4 0x1.9b8e66p-6"
        " -0x1.115a98p-8 0x1.c7903ep-12 -0x1.61e8eap-16"
    ),
    sin="-0x1.555556p-3 0x1.111174p-7 -0x1.a0595cp-13 0x1.7c3274p-19",
    cos="0x1.55554ap-5 -0x1.6c0c2ap-10 0x1.99e91p-16",
)

FP64 = _tables(
    np.float64,
    exp_min="-0x1.7500p+9",
    exp_max="0x1.6300p+9",
    exp2_min="-0x1.0d00p+10",
    exp2_max="0x1.0040p+10",
    log2_e="0x1.71547652b82fep+0",
    log2_e_low="0x1.777d0ffda0d24p-56",
    ln2_high="0x1.62e42fefa3p-1",
    ln2_low="0x1.3de6af278ece6p-42",
    tanh_max="0x1.4p+4",
    tanh_split="0x1.6p-1",
    erf_max="0x1.8p+2",
    erf_split="0x1.dap-1",
    quarter_pi="0x1.921fb54442d18p-1",
    half_pi="0x1.921fb54442d18p+0",
    half_pi_low="0x1.1a62633145c07p-54",
    exp=(
        "0x1p-1 0x1.555555555555bp-3 0x1.5555555555503p-5 0x1.111111110ec49p-7"
        " 0x1.6c16c16c3057bp-10 0x1.a01a01b38639bp-13 0x1.a01a01365fb76p-16"
        " 0x1.71ddf00c6950ap-19 0x1.27e5b481ecda1p-22 0x1.af6c0c11ba661p-26"
        " 0x1.1e3d077a655c2p-29"
    ),
    exp2=(
        "0x1.62e42fefa39efp-1 0x1.ebfbdff82c58fp-3 0x1.c6b08d704a0cfp-5"
        " 0x1.3b2ab6fba4e22p-7 0x1.5d87fe78a26c8p-10 0x1.430912f883cfbp-13"
        " 0x1.ffcbfc74d644ap-17 0x1.62c021e26dd06p-20 0x1.b524dd54e0c7ep-24"
        " 0x1.e4d06c75302ap-28 0x1.ea014f79e5a7dp-32 0x1.c2ce99bdc1358p-36"
    ),
    log=(
        "0x1.5555555555558p-2 -0x1.0000000000042p-2 0x1.9999999999117p-3"
        " -0x1.555555554ae1fp-3 0x1.24924924ddd9ap-3 -0x1.0000000500318p-3"
        " 0x1.c71c71a316da6p-4 -0x1.9999971e620aep-4 0x1.745d1aff0bbfdp-4"
        " -0x1.5555b1243e5d8p-4 0x1.3b13aa293799fp-4 -0x1.248a396c3d275p-4"
        " 0x1.110902882c0dbp-4 -0x1.006cb9f4e1fcap-4 0x1.e3889783c6491p-5"
        " -0x1.c0e0c37e7c8e7p-5 0x1.9be2bfafe85f8p-5 -0x1.a918e9ccea4bfp-5"
        " 0x1.efdb84e90cd24p-5 -0x1.bb2c4d5bafcfp-5 0x1.7063600c7f006p-6"
    ),
    tanh=(
        "-0x1.5555555555554p-2 0x1.1111111110f13p-3 -0x1.ba1ba1b9fe548p-5"
        " 0x1.664f487bf532ap-6 -0x1.226e346fc63f8p-7 0x1.d6d3a6ac6a1e3p-9"
        " -0x1.7da0dc1491541p-10 0x1.353cf47fa26ecp-11 -0x1.f3df2ff0ef529p-13"
        " 0x1.8db8a06d6d4dp-14 -0x1.27fd7d389f7b3p-15 0x1.65daa58743144p-17"
        " -0x1.f0b50f9158795p-20"
    ),
    erf=(
        "0x1.06eba8214db69p-3 -0x1.812746b0379e7p-2 0x1.ce2f21a042bbcp-4"
        " -0x1.b82ce31287c84p-6 0x1.565bcd0e395b9p-8 -0x1.c02db3f42c829p-11"
        " 0x1.f9a3250f2044ep-14 -0x1.f4d227f69f80ep-17 0x1.b9e2f6c2336fcp-20"
        " -0x1.5f42c9e088887p-23 0x1.f961a8a0caf1cp-27 -0x1.3e593a5811d18p-30"
        " 0x1.172c35861dd13p-34"
    ),
    erf_tail=(
        "0x1.5affd4607aa59p-27 -0x1.20dd77c5b5591p+0 -0x1.45f2df2e489b5p-1"
        " -0x1.a4fa44294962cp-4 0x1.39a681c4fdd2p-6 0x1.70e1c1426f082p-13"
        " -0x1.ae0dc896b28ecp-10 0x1.0ef4111ff1398p-11 0x1.b036c5344e2eep-15"
        " -0x1.120b8a623ee34p-13 0x1.3d878371a8bfbp-14 -0x1.e9fe249a8319p-16"
        " 0x1.206b33402aaf5p-17 -0x1.0dfce6f929a7p-19 0x1.96da840068f9ep-22"
        " -0x1.ec7e029d1807ep-25 0x1.d9207df6d0badp-28 -0x1.60bb6854176dp-31"
        " 0x1.897c84cd1e1d1p-35 -0x1.34e287a72a516p-39 0x1.3027f6ba24eep-44"
        " -0x1.1a6cd8d2ac35dp-50"
    ),
    sin=(
        "-0x1.5555555555555p-3 0x1.111111111110bp-7 -0x1.a01a01a018a6ap-13"
        " 0x1.71de3a53304dep-19 -0x1.ae64528d2d0c6p-26 0x1.61208c13545a9p-33"
        " -0x1.aaa22cbdb4036p-41"
    ),
    cos=(
        "0x1.555555555554bp-5 -0x1.6c16c16c14f8ep-10 0x1.a01a019c83f0fp-16"
        " -0x1.27e4f7ea7ec23p-22 0x1.1ee9d784277ebp-29 -0x1.8fa4803546432p-37"
    ),
)

BY_DTYPE: dict[Any, Tables] = {np.dtype(t.real): t for t in (FP32, FP64)}
