"""Torch tensors, autograd and host code of Triton's users. Skipped where torch is not installed."""

from __future__ import annotations

import pytest

import dsalang as dsa
import dsalang.language as tl
from dsalang import mxfp
from dsalang.runtime import MockTensor, driver, reinterpret

torch = pytest.importorskip("torch", reason="needs torch: pip install dsalang[peers]")


@dsa.jit
def scale(x, out, factor, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = at < n
    tl.store(out + at, tl.load(x + at, mask=keep) * factor, mask=keep)


@dsa.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)


@dsa.jit
def flip_mask(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, not tl.load(x + at, mask=at < n), mask=at < n)


class Scale(torch.autograd.Function):
    """factor * x by a kernel, forward and backward."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        out = torch.empty_like(x)
        scale[lambda meta: (dsa.cdiv(x.numel(), meta["BLOCK"]),)](
            x, out, factor, x.numel(), BLOCK=64
        )
        return out

    @staticmethod
    def backward(ctx, grad):
        out = torch.empty_like(grad)
        scale[(dsa.cdiv(grad.numel(), 64),)](grad, out, ctx.factor, grad.numel(), BLOCK=64)
        return out, None


def test_autograd():
    x = torch.randn(100, requires_grad=True)
    y = Scale.apply(x, 3.0)
    (y * y).sum().backward()
    torch.testing.assert_close(y, 3 * x)
    torch.testing.assert_close(x.grad, 18 * x)


def test_gradcheck_against_torch():
    x = torch.randn(5, 7, requires_grad=True)
    w = torch.randn(5, 7)
    (Scale.apply(x, -0.5) * w).sum().backward()
    torch.testing.assert_close(x.grad, -0.5 * w)


TYPES = ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "uint8", "int16", "int32", "int64", "bool")  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_tensors_of_a_type_are_read_and_written_in_place(name):
    kind = getattr(torch, name)
    x = (torch.arange(40) % 7 - 3).to(torch.float32)
    x = (x > 0 if kind is torch.bool else x.abs()).to(kind)
    out = (
        torch.zeros(40, dtype=torch.uint8).to(kind)
        if kind.itemsize == 1
        else torch.zeros(40, dtype=kind)
    )
    address = out.data_ptr()
    copy[1](x, out, 40, BLOCK=64)
    assert out.data_ptr() == address
    assert torch.equal(out.view(torch.uint8), x.view(torch.uint8))


def test_bool_arithmetic():
    x = torch.tensor([True, False, True])
    out = torch.zeros(3, dtype=torch.bool)
    flip_mask[1](x, out, 3, BLOCK=4)
    assert out.tolist() == [False, True, False]


def test_views_with_strides():
    base = torch.zeros(8, 10)
    part = base[2:4, 3:7]
    source = torch.arange(4, dtype=torch.float32)
    copy[1](source, part[1], 4, BLOCK=4)
    assert base.sum() == 6 and base[3, 3:7].tolist() == [0, 1, 2, 3]


def test_a_repeated_view_reaches_its_storage():
    """Libraries pass x.expand or as_strided with a stride of 0, and walk it with strides of their own."""
    x, out = torch.arange(6.0), torch.zeros(6)
    copy[1](x.as_strided((6,), (0,)), out, 6, BLOCK=8)
    assert torch.equal(out, x)
    with pytest.raises(dsa.DeviceError, match="outside of array"):
        copy[1](x.as_strided((6,), (0,)), torch.zeros(9), 9, BLOCK=16)


class Backwards:
    """What libraries wrap tensors in: here the elements from the last one on, which torch has no view for."""

    def __init__(self, base):
        self.base, self.dtype, self.shape = base, base.dtype, tuple(base.shape)

    def data_ptr(self):
        return self.base.data_ptr() + (self.base.numel() - 1) * self.base.itemsize

    def stride(self):
        return (-1,)


@dsa.jit
def copy_strided(x, step, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at * step))


def test_objects_with_an_address_and_a_dtype():
    x, out = torch.arange(8.0), torch.zeros(8)
    copy_strided[1](Backwards(x), -1, out, BLOCK=8)
    assert torch.equal(out, x.flip(0))
    with pytest.raises(dsa.DeviceError, match="outside of array"):
        copy_strided[1](Backwards(x), 1, out, BLOCK=8)

    class Bare:
        dtype = torch.float32

        def data_ptr(self):
            return x.data_ptr()

    with pytest.raises(dsa.LaunchError, match="how far an array reaches"):
        copy_strided[1](Bare(), 1, out, BLOCK=8)


def test_wrong_devices_are_refused():
    with pytest.raises(dsa.LaunchError, match="device meta"):
        copy[1](torch.empty(4, device="meta"), torch.zeros(4), 4, BLOCK=4)


def test_the_device_is_torchs_cpu():
    assert driver.active.get_active_torch_device() == torch.device("cpu")
    target = driver.active.get_current_target()
    assert torch.device(target.backend).type == "cpu"


def test_warmup_with_types_and_launch_of_what_it_gives():
    n = 100
    kernel = scale.warmup(torch.float32, torch.float32, 2.0, n, BLOCK=128, grid=(1,))
    kernel._init_handles()
    assert kernel.n_regs > 0 and kernel.n_spills == 0
    assert kernel.metadata.shared == kernel.metadata["sram_bytes"] > 0
    x, out = torch.randn(n), torch.zeros(n)
    kernel[(1, 1, 1)](x, out, 2.0, n, 128)
    torch.testing.assert_close(out, 2 * x)
    kernel[1](x, out, 4.0, n)
    torch.testing.assert_close(out, 4 * x)


def test_reinterpret():
    bits = torch.tensor([0x3C, 0xC0, 0x00], dtype=torch.uint8)
    out = torch.zeros(3)
    copy[1](reinterpret(bits, tl.float8e5), out, 3, BLOCK=4)
    assert out.tolist() == bits.view(torch.float8_e5m2).float().tolist()
    with pytest.raises(dsa.LaunchError, match="elements of 1 bytes"):
        copy[1](reinterpret(bits, tl.float32), out, 3, BLOCK=4)
    assert MockTensor(tl.float16, [2, 3]).stride() == [3, 1]


def test_fp4_codes():
    numbers = torch.tensor(
        [0.0, 0.25, 0.26, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 5.1, 100.0, -6.0, -0.5]
    )
    coded = mxfp.MXFP4Tensor(numbers)
    expected = [0, 0, 0.5, 1, 1, 2, 2, 4, 4, 6, 6, -6, -0.5]
    assert coded.to(torch.float32).tolist() == expected
    for dim in (0, 1):
        square = mxfp.MXFP4Tensor(size=(5, 7)).random()
        packed = square.to_packed_tensor(dim)
        assert packed.shape == ((3, 7) if dim == 0 else (5, 4))
        assert torch.equal(square.unpack_packed_tensor(packed, dim, (5, 7)), square.data)
    with pytest.raises(dsa.LaunchError, match="takes numbers"):
        mxfp.MXFP4Tensor()


def test_scale_codes():
    numbers = torch.tensor([1.0, 1.99, 0.5, 3.0, 0.0, -1.0, float("nan"), float("inf"), 2.0**-127])
    coded = mxfp.MXScaleTensor(numbers)
    assert coded.data.tolist() == [127, 127, 126, 128, 255, 255, 255, 255, 0]
    back = coded.to(torch.float32)
    assert back[:4].tolist() == [1, 1, 0.5, 2] and back[4].isnan() and back[8] == 2.0**-127
    drawn = mxfp.MXScaleTensor(size=(50,)).random(low=1 / 4, high=4).to(torch.float32)
    assert drawn.min() >= 0.25 and drawn.max() <= 4


def test_codes_of_scales_are_powers_of_two():
    codes = torch.tensor([0, 126, 127, 130, 254, 255], dtype=torch.uint8)
    found = mxfp.fp8e8m0_to_float32(codes)
    want = torch.tensor([2.0**-127, 0.5, 1.0, 8.0, 2.0**127, float("nan")])
    assert torch.equal(found[:5], want[:5]) and torch.isnan(found[5])
