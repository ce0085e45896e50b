"""Arrays that stay in the SRAM of a device behind a driver."""

from __future__ import annotations

import numpy as np
import pytest
from residency.kernels import SHAPE, Mlp, mlp, scale

import dsalang as dsa


def test_the_device_keeps_what_it_was_told_to(device: dsa.Device) -> None:
    net = Mlp()
    with dsa.resident(net.w1, net.w2), device:
        times = []
        for t in (0.0, 1.0, 2.0):
            times.append(mlp[1](*net.args(t), **SHAPE).cycles)
            net.check(t)
        net.w1[0, 0] += 1
        times.append(mlp[1](*net.args(3.0), **SHAPE).cycles)
        net.check(3.0)
    assert times[0] == times[3] > times[1] == times[2]


def test_arrays_on_the_device_count_their_writes(device: dsa.Device) -> None:
    net = Mlp()
    x, w1, w2 = (device.to_device(a) for a in (net.x, net.w1, net.w2))
    y = device.empty(net.y.shape, net.y.dtype)
    times = []
    with dsa.resident(w1, w2):

        def run() -> None:
            times.append(mlp[1](x, w1, w2, y, 0.5, **SHAPE).cycles)
            net.y = y.to_host()
            net.check(0.5)

        run()
        run()
        net.w1 = net.w1 * np.float16(2)
        w1.copy_from(net.w1)
        run()
        run()
        scale[1](device.to_device(net.w2), w2, 256 * 64, BLOCK=256 * 64)
        net.w2 = net.w2 * np.float16(2)
        run()
        run()
    cold, warm = times[0], times[1]
    assert times == [cold, warm] * 3 and warm < cold


def test_a_device_does_not_believe_everything(device: dsa.Device) -> None:
    net = Mlp()
    with dsa.resident(net.w1):
        image = mlp[1].warmup(*net.args(0.5), **SHAPE).image
    driver = device.driver
    assert driver is not None
    buffer = driver.alloc(1 << 20)
    values = [buffer] * 4 + [0] * (len(image.arguments) - 4)
    number = driver.load(image.file)
    driver.launch(number, values, (1, 1, 1))
    with pytest.raises(dsa.UserError, match="is not there any more"):
        driver.wait(driver.record())
    driver.free(buffer)
