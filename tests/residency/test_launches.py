"""Arrays stay in SRAM across launches: when they are loaded, and that what is there is never stale."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dsalang as dsa
from dsalang._backend.image.elf import load, save
from dsalang._backend.image.objdump import objdump

from .kernels import SHAPE, WEIGHT_BYTES, Mlp, gemv, mlp, scale, twice

ENGINES = ["fast", "reference", "adversarial", "riscv"]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_first_launch_loads(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSA_EMULATOR", engine)
    if engine == "riscv":
        pytest.importorskip("unicorn")
        pytest.importorskip("elftools")
    net = Mlp()
    with dsa.resident(net.w1, net.w2):
        assert [net.run(t) for t in (0.0, 1.0, 2.0)] == [True, False, False]
    assert net.run()


@pytest.mark.parametrize("target", ["edge", "center"])
def test_engines_agree_on_cycles(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    w = (rng.standard_normal((256, 500)) / 16).astype(np.float16)
    x = rng.standard_normal(256).astype(np.float16)
    y = np.zeros(500, np.float32)
    cycles: dict[str, list[int]] = {}
    bits: set[bytes] = set()
    for engine in ("fast", "reference", "timing"):
        monkeypatch.setenv("DSA_EMULATOR", engine)
        with dsa.resident(w):
            reports = [gemv[8](x, w, y, 500, 256, 64, 64, target=target) for _ in range(3)]
        cycles[engine] = [report.cycles for report in reports]
        bits.add(y.tobytes())
        assert w.nbytes <= reports[0].hbm_bytes - reports[1].hbm_bytes < 1.1 * w.nbytes
        assert np.abs(y - x.astype(float) @ w.astype(float)).max() < 1e-4
    assert cycles["fast"] == cycles["reference"] == cycles["timing"] and len(bits) == 1
    assert cycles["fast"][1] == cycles["fast"][2] < cycles["fast"][0]


def test_written_weights_are_loaded_again() -> None:
    net = Mlp()
    with dsa.resident(net.w1, net.w2):
        assert net.run() and not net.run()
        net.w1[3, 5] += 1
        assert net.run() and not net.run()
        scale[4](net.w1.copy(), net.w1, net.w1.size, BLOCK=4096)  # a kernel writes them
        assert net.run() and not net.run()
        net.w2[:] = net.w2  # the same bytes
        assert not net.run()


def test_equal_weights_elsewhere_need_no_load() -> None:
    net = Mlp()
    with dsa.resident(net.w1, net.w2, copy := net.w1.copy()):
        assert net.run()
        net.w1 = copy
        assert not net.run()
        copy[0, 0] += 1
        assert net.run()


def test_scalars_that_boxes_depend_on() -> None:
    rng = np.random.default_rng(2)
    w = rng.standard_normal((256, 512)).astype(np.float16)
    x = rng.standard_normal(256).astype(np.float16)
    with dsa.resident(w):
        for n, loads in ((512, True), (512, False), (256, True), (256, False), (512, True)):
            y = np.zeros(512, np.float32)
            report = gemv[8](x, w, y, n, 256, 64, 64)
            assert (report.hbm_bytes > 30_000) is loads
            exact = x.astype(float) @ w.reshape(-1)[: 256 * n].reshape(256, n).astype(float)
            assert np.abs(y[:n] - exact).max() < 1e-2


def test_what_uses_the_memory_ends_it() -> None:
    net, big = Mlp(), np.ones(1 << 21, np.float32)
    out = np.empty_like(big)
    with dsa.resident(net.w1, net.w2):
        assert net.run() and not net.run()
        scale[1](big, out, big.size, BLOCK=1 << 10)  # compiled for what is left
        assert not net.run()
        bound = mlp[1].bind(*net.args(0.5), **SHAPE)
        assert bound().hbm_bytes < WEIGHT_BYTES
    # Outside of the block the memory is anybody's.
    assert bound().hbm_bytes > WEIGHT_BYTES
    assert bound().hbm_bytes < WEIGHT_BYTES
    scale[1](big[: 1 << 19], out, 1 << 19, BLOCK=1 << 19)
    assert bound().hbm_bytes > WEIGHT_BYTES
    net.check(0.5)


def test_kernels_of_a_block_stand_side_by_side() -> None:
    one, other = Mlp(1), Mlp(2)
    x, w = one.x[0], one.w1
    y = np.zeros(256, np.float32)
    with dsa.resident(one.w1, one.w2, other.w1, other.w2):
        assert one.run() and not one.run()
        assert gemv[4](x, w, y, 256, 64, 64, 64).hbm_bytes > w.nbytes
        assert not one.run()
        assert gemv[4](x, w, y, 256, 64, 64, 64).hbm_bytes < w.nbytes
        # The same image with other arrays: its place holds one of them at a time.
        assert other.run() and not other.run() and one.run()


@dsa.jit
def totals(x, y, n, stride, BLOCK: dsa.constexpr):
    offs = dsa.arange(0, BLOCK)
    total = dsa.zeros((BLOCK,), dsa.float32)
    for k in range(0, n, BLOCK):
        total += dsa.load(x + k * stride + offs, mask=k + offs < n, other=0.0)
    dsa.store(y + offs, total)


def test_integers_that_say_which_tiles_there_are_become_constants() -> None:
    x, y = np.arange(8192, dtype=np.float32), np.zeros(256, np.float32)
    target = _target(sram_bytes=24 * 1024)
    with dsa.resident(x):
        for n, stride, cold in (
            (2000, 1, True), (2000, 1, False), (2000, 2, True), (4000, 1, True), (4000, 1, False), (2000, 1, True),
        ):  # fmt: skip
            report = totals[1](x, y, n, stride, 256, target=target)
            assert (report.hbm_bytes > 4 * n) is cold
            rows = [x[k * stride :][: min(256, n - k)] for k in range(0, n, 256)]
            exact = sum(np.pad(row, (0, 256 - row.size)) for row in rows)
            assert np.array_equal(y, exact)
        image = totals[1].warmup(x, y, 2000, 1, 256, target=target).image
        assert [a.name for a in image.arguments] == ["x", "y", "(load)"]


def test_kernels_that_are_called_alike_have_places_of_their_own() -> None:
    net = Mlp()
    part = 64 * 64 * 2
    with dsa.resident(net.w1, net.w2):
        for cold in (True, False):
            assert net.run() is cold
            report = twice[1](*net.args(0.5), **SHAPE)
            assert (report.hbm_bytes > part) is cold
            exact = net.x + net.x.astype(float) @ net.w1[:, :64].astype(float)
            assert np.abs(net.y - exact).max() < 1e-2


def test_kernels_are_compiled_anew_for_the_memory_that_is_left() -> None:
    net, y = Mlp(), np.zeros(256, np.float32)
    target = _target(sram_bytes=WEIGHT_BYTES + net.w1.nbytes + 16384)
    before = mlp[1].warmup(*net.args(0.5), **SHAPE, resident=("w1", "w2"), target=target).image
    assert before.working_bytes > 16384
    with dsa.resident(net.w1, net.w2):
        assert net.run(target=target) and not net.run(target=target)
        for cold in (True, False):
            report = gemv[4](net.x[0], net.w1, y, 256, 64, 64, 64, target=target)
            assert (report.hbm_bytes > net.w1.nbytes) is cold
            assert not net.run(target=target)
        after = mlp[1].warmup(*net.args(0.5), **SHAPE, target=target).image
    assert after.working_bytes <= 16384 and after.residency == before.residency


def test_blocks_in_blocks() -> None:
    net = Mlp()
    with dsa.resident(net.w1, net.w2):
        assert net.run() and not net.run()
        y = np.zeros(256, np.float32)
        with dsa.resident(w := net.w2.copy().reshape(64, 256)):
            assert gemv[4](net.x[0], w, y, 256, 64, 64, 64).hbm_bytes > w.nbytes
            assert not net.run()
            assert gemv[4](net.x[0], w, y, 256, 64, 64, 64).hbm_bytes < w.nbytes
        assert not net.run()
    assert net.run()


annotated = dsa.jit(resident=("w1", "w2"))(mlp.fn)


def test_an_annotation_keeps_them_without_a_block() -> None:
    net = Mlp(3)
    assert net.run(0.0, annotated)
    assert not net.run(1.0, annotated) and not net.run(1.0, annotated)
    net.w2[0, 0] += 1
    assert net.run(1.0, annotated) and not net.run(1.0, annotated)
    assert not net.run(1.0, mlp, resident=["w1", "w2"])  # the same image
    assert net.run(1.0, annotated, resident=False)


def test_annotated_kernels_give_way_when_all_do_not_fit() -> None:
    nets = [Mlp(seed) for seed in range(2)]
    small = dsa.jit(resident=("w1", "w2"))(mlp.fn)
    target = _target(sram_bytes=WEIGHT_BYTES + 24576)
    again = dsa.jit(resident="w")(gemv.fn)
    y = np.zeros(256, np.float32)
    assert nets[0].run(0.0, small, target=target) and not nets[0].run(0.0, small, target=target)
    assert again[4](nets[0].x[0], nets[0].w1, y, 256, 64, 64, 64, target=target).cycles
    assert nets[0].run(0.0, small, target=target)


def _target(**changes: Any) -> dsa.Target:
    import dataclasses

    return dataclasses.replace(dsa.Target.by_name("edge"), name="small edge", **changes)


def test_device_arrays_and_streams() -> None:
    device = dsa.Device()
    net = Mlp()
    x, w1, w2 = (device.to_device(a) for a in (net.x, net.w1, net.w2))
    y = device.empty(net.y.shape, net.y.dtype)
    stream = dsa.Stream(device)
    with dsa.resident(w1, w2):
        launches = [mlp[1](x, w1, w2, y, 0.5, **SHAPE, stream=stream) for _ in range(3)]
        w1.copy_from(net.w1 * np.float16(2), stream)
        launches += [mlp[1](x, w1, w2, y, 0.5, **SHAPE, stream=stream) for _ in range(2)]
        loads = [launch.result().hbm_bytes > WEIGHT_BYTES for launch in launches]
        net.y, net.w1 = y.to_host(), net.w1 * np.float16(2)
    assert loads == [True, False, False, True, False]
    net.check(0.5)
    gc.collect()


def test_streams_with_their_own_cores() -> None:
    device = dsa.Device(target="center")
    net = Mlp()
    with dsa.resident(net.w1, net.w2), device:
        assert net.run() and not net.run()
        stream = dsa.Stream(device, "own", cores=2)  # these cores have held something else
        launches = [mlp[1](*net.args(0.5), **SHAPE, stream=stream) for _ in range(2)]
        assert [launch.result().hbm_bytes > WEIGHT_BYTES for launch in launches] == [True, False]
        assert net.run() and not net.run()
        stream.close()
        assert net.run() and not net.run()


def test_configurations_that_are_tried_take_no_place() -> None:
    tuned = dsa.autotune([dsa.Config({"BN": n}) for n in (16, 32, 64)], key=[])(dsa.jit(mlp.fn))
    net = Mlp()
    target = _target(sram_bytes=WEIGHT_BYTES + 32768)  # there is room for one
    shape = {name: size for name, size in SHAPE.items() if name != "BN"}
    with dsa.resident(net.w1, net.w2):
        reports = [tuned[1](*net.args(t), **shape, target=target) for t in (0.0, 0.5)]
        net.check(0.5)
    assert [report.hbm_bytes > WEIGHT_BYTES for report in reports] == [True, False]
    compiled, _, _ = mlp.prepared(net.args(0.5), {**SHAPE, "resident": ("w1",)}, 1)
    assert compiled.predict(1, warm=True).cycles < compiled.predict(1).cycles


def test_interpreted_kernels_have_no_sram(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSA_INTERPRET", "1")
    net = Mlp()
    with dsa.resident(net.w1, net.w2):
        mlp[1](*net.args(0.5), **SHAPE)
        net.check(0.5)


def test_the_image_says_so() -> None:
    net = Mlp()
    with dsa.resident(net.w1):
        compiled = mlp[1].warmup(*net.args(0.5), **SHAPE)
        profile = mlp.profile(*net.args(0.5), grid=1, show=False, **SHAPE)
    image = compiled.image
    region = image.residency
    assert (
        region is not None
        and region.stop == 4 << 20
        and region.start == region.stop - net.w1.nbytes
    )
    assert compiled.metadata["resident"] == {"w1": net.w1.nbytes}
    assert load(save(image)) == image
    again = mlp.compile(
        "*fp16:16,*fp16:16,*fp16:16,*fp16:16,fp32", SHAPE, grid=1, resident="w1"
    ).image
    assert again.residency == image.residency
    text = objdump(image)
    assert "kept in SRAM between launches:\n  0x3f8000 to 0x400000, 32768 bytes per core" in text
    assert "w1: 32768 bytes at 0x3f8000" in text
    assert compiled.predict(1).cycles == profile.run.cycles


def test_a_block_ends_while_a_later_one_is_open() -> None:
    net = Mlp()

    def block() -> Iterator[None]:
        with dsa.resident(net.w1):
            yield

    first = block()
    next(first)
    with dsa.resident(net.w2):
        first.close()
        reads = [mlp[1](*net.args(0.5), **SHAPE).hbm for _ in range(2)]
    assert reads[1]["w1"].read == net.w1.nbytes and "w2" not in reads[1]
    assert net.run() and net.run()
