"""What tiles in SRAM are called in reports."""

from __future__ import annotations

import dsalang as dsa
import dsalang.language as tl


@dsa.jit
def labelled(a, b, c, d, e, out, N: tl.constexpr):
    n = tl.arange(0, N)
    plain = tl.load(a + n)
    turned = tl.load(b + n).to(tl.float32)  # (converted)
    total = tl.load(c + n) + tl.load(d + n)
    total += tl.load(
        e + n,
        mask=n < 5,
    )
    tl.store(out + n, total + plain * turned)


@dsa.jit
def over_lines(a, out, N: tl.constexpr):
    n = tl.arange(0, N)
    tile = tl.load(
        a + n,
    )
    tl.store(out + n, -tile)


def labels(kernel: dsa.JITFunction, signature: str) -> list[str]:
    return [ring.label for ring in kernel.compile(signature, constants={"N": 64}).image.rings]


def test_loads_have_the_name_they_are_assigned_to_or_their_arguments() -> None:
    found = labels(labelled, "*fp32,*fp16,*fp32,*fp32,*fp32,*fp32")
    assert {"plain", "turned", "c", "d", "e"} <= set(found)
    assert "a" not in found and "b" not in found


def test_a_load_over_several_lines() -> None:
    assert "tile" in labels(over_lines, "*fp32,*fp32")
