"""Microscaling numbers as torch tensors, with the names of `triton.tools.mxfp`: what host code prepares operands with.

Formats are those of the OCP microscaling specification 1.0. Needs torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dsalang._backend.errors import LaunchError

FP4_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""What the codes 0 to 7 of E2M1 stand for; bit 3 is the sign."""
SCALE_BIAS, SCALE_NAN = 127, 255
"""An E8M0 code e stands for 2 to the power e - 127; the last one is NaN."""


def _torch() -> Any:
    import torch

    return torch


class _Coded:
    """A tensor of codes, uint8, made from numbers or at random."""

    data: Any

    def __init__(self, data: Any = None, size: Any = None, device: Any = None) -> None:
        if data is None and size is None:
            raise LaunchError(f"{type(self).__name__} takes numbers (data) or a shape (size)")
        self.device = device if data is None else data.device
        if data is not None:
            self.data = self._encode(data)
        else:
            self.size = tuple(size) if isinstance(size, Sequence) else (int(size),)

    def _encode(self, numbers: Any) -> Any:
        raise NotImplementedError

    def _random(self, low: int, high: int) -> Any:
        torch = _torch()
        return torch.randint(low, high + 1, self.size, dtype=torch.uint8, device=self.device)


class MXFP4Tensor(_Coded):
    """Numbers of 4 bits (E2M1), one code a byte in `data`.

    Args:
        data: float numbers, rounded to the nearest (ties to even codes), beyond 6 to 6.
        size: the shape of a tensor for `random()`.
        device: where that is made.
    """

    def random(self) -> MXFP4Tensor:
        """Fill with random codes; gives the tensor itself."""
        self.data = self._random(0, 15)
        return self

    def to(self, dtype: Any) -> Any:
        """The numbers as a tensor of a float type."""
        torch = _torch()
        values = torch.tensor(FP4_VALUES + tuple(-v for v in FP4_VALUES), device=self.data.device)
        return values[self.data.long()].to(dtype)

    def _encode(self, numbers: Any) -> Any:
        torch = _torch()
        sizes = numbers.float().abs().nan_to_num(nan=6.0)
        code = torch.zeros_like(sizes, dtype=torch.uint8)
        pairs = ((FP4_VALUES[k], FP4_VALUES[k + 1]) for k in range(len(FP4_VALUES) - 1))
        for k, (low, high) in enumerate(pairs):
            middle = (low + high) / 2
            # Half way, the even one of the codes k and k + 1.
            code += (sizes >= middle) if k % 2 else (sizes > middle)
        return code | (torch.signbit(numbers).to(torch.uint8) << 3)

    def to_packed_tensor(self, dim: int) -> Any:
        """Two codes a byte along a dim, the first one in the low half; an odd length is filled up with 0."""
        torch = _torch()
        first = self.data.movedim(dim, -1)
        if first.shape[-1] % 2:
            first = torch.nn.functional.pad(first, (0, 1))
        return (first[..., 0::2] | (first[..., 1::2] << 4)).movedim(-1, dim).contiguous()

    def unpack_packed_tensor(self, packed_tensor: Any, dim: int, original_shape: Any) -> Any:
        """The codes, one a byte, of a tensor packed along a dim."""
        torch = _torch()
        last = packed_tensor.movedim(dim, -1)
        both = torch.stack((last & 15, last >> 4), dim=-1).flatten(-2)
        return both[..., : original_shape[dim]].movedim(-1, dim).contiguous()


class MXScaleTensor(_Coded):
    """Scales of blocks (E8M0: powers of two), one code a byte in `data`.

    Args:
        data: positive numbers, rounded down to powers of two; others become NaN.
        size: the shape of a tensor for `random()`.
        device: where that is made.
    """

    def random(self, low: float | None = None, high: float | None = None) -> MXScaleTensor:
        """Fill with random powers of two between low and high; gives the tensor itself."""
        least = 0 if low is None else max(0, int(math.log2(low)) + SCALE_BIAS)
        most = 254 if high is None else min(254, max(0, int(math.log2(high)) + SCALE_BIAS))
        if least > most:
            raise LaunchError(f"no power of two is between low={low} and high={high}")
        self.data = self._random(least, most)
        return self

    def to(self, dtype: Any) -> Any:
        """The scales as a tensor of a float type."""
        torch = _torch()
        codes = self.data.to(torch.int32)
        values = torch.exp2((codes - SCALE_BIAS).to(torch.float64)).to(torch.float32)
        return values.masked_fill(codes == SCALE_NAN, math.nan).to(dtype)

    def _encode(self, numbers: Any) -> Any:
        torch = _torch()
        numbers = numbers.float()
        usable = numbers.isfinite() & (numbers > 0)
        _, exponent = torch.frexp(numbers)  # numbers = m * 2**exponent with 0.5 <= m < 1
        codes = (exponent - 1 + SCALE_BIAS).clamp(0, 254).to(torch.uint8)
        return torch.where(usable, codes, torch.full_like(codes, SCALE_NAN))


def fp8e8m0_to_float32(scale: Any) -> Any:
    """Codes of E8M0, a byte each, as an fp32 tensor: powers of two, NaN for 255."""
    found = MXScaleTensor(size=(0,))
    found.data = scale.view(_torch().uint8)
    return found.to(_torch().float32)
