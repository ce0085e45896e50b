"""Liger-Kernel as it is on PyPI, on torch's CPU tensors: values and gradients equal torch's own.

Skipped where torch or liger_kernel is not installed (`pip install dsalang[peers]`).
"""

from __future__ import annotations

import sys

import pytest

from dsalang import compat

torch = pytest.importorskip("torch", reason="needs torch: pip install dsalang[peers]")
F = torch.nn.functional

ROWS, WIDTH, CLASSES = 6, 72, 150


@pytest.fixture(scope="module")
def ops():
    """`liger_kernel.ops`, whose kernels are compiled by dsalang."""
    kept = {n: m for n, m in sys.modules.items() if n == "triton" or n.startswith("triton.")}
    compat.install(force=True)
    try:
        yield pytest.importorskip(
            "liger_kernel.ops", reason="needs Liger-Kernel: pip install dsalang[peers]"
        )
    finally:
        compat.uninstall()
        for name in [n for n in sys.modules if n.partition(".")[0] == "liger_kernel"]:
            del sys.modules[name]
        sys.modules.update(kept)


def compare(ours, theirs, inputs, atol=1e-5, rtol=1e-4, dtype=None):
    """Both functions on equal inputs: results and gradients of all float inputs agree.

    With a narrow `dtype` only ours computes in it: torch has the same numbers in fp32.
    """
    torch.manual_seed(1)
    dtype = dtype or torch.float32
    narrow = [x.to(dtype) if x.is_floating_point() else x for x in inputs]
    mine = [x.clone().requires_grad_(x.is_floating_point()) for x in narrow]
    wide = [x.float() if x.is_floating_point() else x for x in narrow]
    reference = [x.clone().requires_grad_(x.is_floating_point()) for x in wide]
    got, expected = ours(*mine), theirs(*reference)
    if not isinstance(got, tuple):
        got, expected = (got,), (expected,)
    weights = [torch.randn_like(y) for y in expected]
    for a, b in zip(got, expected):
        torch.testing.assert_close(a.float(), b, atol=atol, rtol=rtol)
    sum((y * w).sum() for y, w in zip(expected, weights)).backward()
    torch.autograd.backward(got, [w.to(y.dtype) for y, w in zip(got, weights)])
    for a, b in zip(mine, reference):
        if b.grad is not None:
            torch.testing.assert_close(a.grad.float(), b.grad, atol=atol, rtol=rtol)


def numbers(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def labels(rows=ROWS, classes=CLASSES):
    found = torch.randint(classes, (rows,), generator=torch.Generator().manual_seed(7))
    found[1] = -100
    return found


NARROW = pytest.mark.parametrize(
    ("dtype", "atol", "rtol"),
    [(torch.float32, 1e-5, 1e-4), (torch.bfloat16, 1e-2, 1e-2)],
    ids=["fp32", "bf16"],
)


@NARROW
@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_rms_norm(ops, dtype, atol, rtol, offset):
    compare(
        lambda x, w: ops.LigerRMSNormFunction.apply(x, w, 1e-6, offset, "gemma", False),
        lambda x, w: F.rms_norm(x, (WIDTH,), eps=1e-6) * (w + offset),
        [numbers(2, 3, WIDTH), numbers(WIDTH)], atol, rtol, dtype,
    )  # fmt: skip


@NARROW
def test_layer_norm(ops, dtype, atol, rtol):
    compare(
        lambda x, w, b: ops.LigerLayerNormFunction.apply(x, w, b, 1e-5),
        lambda x, w, b: F.layer_norm(x, (WIDTH,), w, b, 1e-5),
        [numbers(ROWS, WIDTH), numbers(WIDTH), numbers(1, WIDTH)[0]], atol, rtol, dtype,
    )  # fmt: skip


@NARROW
def test_swiglu(ops, dtype, atol, rtol):
    compare(
        ops.LigerSiLUMulFunction.apply,
        lambda a, b: F.silu(a) * b,
        [numbers(ROWS, WIDTH), numbers(WIDTH, ROWS).T.contiguous()], atol, rtol, dtype,
    )  # fmt: skip


@NARROW
def test_geglu(ops, dtype, atol, rtol):
    compare(
        ops.LigerGELUMulFunction.apply,
        lambda a, b: F.gelu(a, approximate="tanh") * b,
        [numbers(ROWS, WIDTH), numbers(WIDTH, ROWS).T.contiguous()], atol, rtol, dtype,
    )  # fmt: skip


@NARROW
def test_softmax(ops, dtype, atol, rtol):
    compare(
        ops.LigerSoftmaxFunction.apply,
        lambda x: F.softmax(x, -1),
        [numbers(ROWS, 100)], atol, rtol, dtype,
    )  # fmt: skip


def rotated(x, cos, sin):
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * cos[:, None] + turned * sin[:, None]


@NARROW
def test_rope(ops, dtype, atol, rtol):
    batch, heads, kv_heads, length, width = 2, 4, 2, 5, 16
    angle = torch.arange(length)[:, None] / 10.0 ** torch.arange(0, 2, 2 / (width // 2))
    angle = torch.cat((angle, angle), -1)[None]
    cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)

    def ours(q, k):
        # q and k come as models have them: heads in dim 1, rows of heads in memory.
        return ops.LigerRopeFunction.apply(q.transpose(1, 2), k.transpose(1, 2), cos, sin)

    def theirs(q, k):
        turn = cos.float(), sin.float()
        return rotated(q.transpose(1, 2), *turn), rotated(k.transpose(1, 2), *turn)

    inputs = [numbers(batch, length, heads, width), numbers(batch, length, kv_heads, width)]
    compare(ours, theirs, inputs, atol, rtol, dtype)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(ops, reduction, smoothing):
    target = labels()

    def ours(x):
        # The kernel writes the gradient over its input.
        found = ops.LigerCrossEntropyFunction.apply(
            x * 1.0, target, None, -100, 0.0, smoothing, reduction
        )
        return found[0] if isinstance(found, tuple) else found

    compare(
        ours,
        lambda x: F.cross_entropy(x, target, reduction=reduction, label_smoothing=smoothing),
        [numbers(ROWS, CLASSES)],
    )


def test_cross_entropy_without_reduction_with_softcap(ops):
    target, cap = labels(), 5.0

    def ours(x):
        args = (None, -100, 0.0, 0.0, "none", cap)
        return ops.LigerCrossEntropyFunction.apply(x * 1.0, target, *args)[0]

    torch.testing.assert_close(
        ours(numbers(ROWS, CLASSES)),
        F.cross_entropy(
            cap * torch.tanh(numbers(ROWS, CLASSES) / cap), target, reduction="none"
        ),
        atol=1e-5, rtol=1e-4,
    )  # fmt: skip


def test_fused_linear_cross_entropy(ops):
    target = labels()
    compare(
        lambda x, w, b: ops.LigerFusedLinearCrossEntropyFunction.apply(x, w, target, b)[0],
        lambda x, w, b: F.cross_entropy(F.linear(x, w, b), target),
        [numbers(ROWS, 32), numbers(CLASSES, 32) / 6, numbers(CLASSES)],
    )


@pytest.mark.parametrize("reduction", ["batchmean", "sum", "mean", "none"])
@pytest.mark.parametrize("log_target", [False, True])
def test_kl_divergence(ops, reduction, log_target):
    target = F.log_softmax(numbers(CLASSES, ROWS).T.contiguous(), -1)
    target = target if log_target else target.exp()
    compare(
        lambda x: ops.LigerKLDivLossFunction.apply(
            F.log_softmax(x, -1), target, reduction, log_target
        ),
        lambda x: F.kl_div(
            F.log_softmax(x, -1), target, reduction=reduction, log_target=log_target
        ),
        [numbers(ROWS, CLASSES)],
    )


@pytest.mark.parametrize("beta", [0.0, 0.1, 0.5, 1.0])
def test_jsd(ops, beta):
    target = F.log_softmax(numbers(CLASSES, ROWS).T.contiguous(), -1)

    def theirs(x):
        p, q = target, F.log_softmax(x, -1)
        if beta in (0.0, 1.0):
            first, second = (q, p) if beta == 0 else (p, q)
            return F.kl_div(first, second, reduction="batchmean", log_target=True)
        m = (beta * p.exp() + (1 - beta) * q.exp()).log()
        left = F.kl_div(m, p, reduction="batchmean", log_target=True)
        right = F.kl_div(m, q, reduction="batchmean", log_target=True)
        return beta * left + (1 - beta) * right

    compare(
        lambda x: ops.LigerJSDFunction.apply(F.log_softmax(x, -1), target, None, beta),
        theirs,
        [numbers(ROWS, CLASSES)],
    )
