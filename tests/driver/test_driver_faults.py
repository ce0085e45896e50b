"""Faults of a device end in one clear error within a second and leave the process usable."""

from __future__ import annotations

import ctypes
import ctypes.util
import gc
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from suite.cases import CASES

import dsalang as dsa
from dsalang._runtime.driver.binding import ABI, Driver, Properties, load_library
from dsalang._runtime.driver.mailbox import Status

from .conftest import HEADERS, HERE, WORKER, Build

FAULTY = f"{sys.executable} {HERE / 'faulty_worker.py'}"


def launch_on(device: dsa.Device) -> Any:
    case = CASES["add_odd"]()
    with device:
        case.launch()
    case.check()


def fails(
    kind: type[BaseException], message: str, function: Callable[[], Any], seconds: float = 1.0
) -> str:
    start = time.perf_counter()
    with pytest.raises(kind, match=message) as caught:
        function()
    assert time.perf_counter() - start < seconds
    assert "\n  File" not in str(caught.value)
    return str(caught.value)


def usable(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process goes on: a new device works, and so does the emulator."""
    monkeypatch.setenv("DSA_WORKER", WORKER)
    device = dsa.Device(library)
    launch_on(device)
    device.close()
    case = CASES["add_odd"]()
    case.launch()
    case.check()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("killed", "worker process was killed by signal 9"),
        ("stopped", "worker process ended with status 3"),
        ("corrupt:magic", "corrupt reply: it has no magic number"),
        ("corrupt:sequence", "corrupt reply: it answers another command"),
        ("corrupt:status", "corrupt reply: its status does not exist"),
        ("corrupt:microseconds", "corrupt reply: its time is no time"),
        ("corrupt:message", "corrupt reply: its message does not end"),
    ],
)
def test_device_lost_in_a_launch(
    fault: str, message: str, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSA_WORKER", f"{FAULTY} {fault} --engine reference")
    device = dsa.Device(library)
    array = device.to_device(np.ones(4, np.float32))
    CASES["add_odd"]().kernel[(1,)].warmup(*[np.ones(16, np.float32)] * 3, 16, BLOCK=16)
    fails(dsa.DeviceError, message, lambda: launch_on(device))
    assert device.lost
    fails(dsa.DeviceError, message, lambda: launch_on(device))
    fails(dsa.DeviceError, message, array.to_host)
    del array
    gc.collect()
    device.close()
    usable(library, monkeypatch)


def test_lost_device_of_the_environment_is_opened_again(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSA_DRIVER", str(library))
    monkeypatch.setenv("DSA_WORKER", f"{FAULTY} killed")
    case = CASES["add_odd"]()
    with pytest.raises(dsa.DeviceError, match=r"killed by signal 9.*\n.*open the device again"):
        case.launch()
    monkeypatch.setenv("DSA_WORKER", WORKER)
    again = CASES["add_odd"]()
    again.launch()
    again.check()


def test_device_lost_under_streams(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSA_WORKER", f"{FAULTY} killed --engine reference")
    device = dsa.Device(library)
    streams = [dsa.Stream(device), dsa.Stream(device)]
    case = CASES["add_odd"]()
    case.launch()
    work = [case.launch(stream=stream) for stream in streams]
    for pending in work:
        fails(dsa.DeviceError, "killed by signal 9", pending.result)
    for stream in streams:
        stream.synchronize()
    device.close()


class Interrupted(Exception):
    pass


def test_device_that_hangs_can_be_interrupted(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(number: int, frame: object) -> None:
        raise Interrupted

    monkeypatch.setenv("DSA_WORKER", f"{FAULTY} hung --engine reference")
    device = dsa.Device(library)
    CASES["add_odd"]().launch()
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(Interrupted):
            launch_on(device)
    finally:
        signal.signal(signal.SIGALRM, before)
    start = time.perf_counter()
    device.close()
    assert time.perf_counter() - start < 2
    usable(library, monkeypatch)


def test_worker_that_does_not_start(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSA_WORKER", f"{FAULTY} hello")
    fails(dsa.DeviceError, "ended with status 4", lambda: dsa.Device(library), 20)
    monkeypatch.setenv("DSA_WORKER", "/nonexistent/worker")
    fails(dsa.DeviceError, "ended with status 12[67]", lambda: dsa.Device(library), 20)
    monkeypatch.setenv("DSA_WORKER_MIB", str(1 << 42))
    files = os.listdir("/proc/self/fd")
    fails(dsa.LaunchError, "cannot share .* bytes", lambda: dsa.Device(library))
    assert os.listdir("/proc/self/fd") == files
    monkeypatch.delenv("DSA_WORKER")
    fails(dsa.LaunchError, "DSA_WORKER is not set", lambda: dsa.Device(library))


def test_truncated_image(device: dsa.Device) -> None:
    case = CASES["add_odd"]()
    image = case.kernel.warmup(*case.args, grid=case.grid, **case.meta).image
    driver = device.driver
    assert driver is not None
    for size in (0, 10, 64, len(image.file) // 2, len(image.file) - 1):
        fails(dsa.ImageError, "image", lambda size=size: driver.load(image.file[:size]))
    flipped = bytearray(image.file)
    flipped[len(flipped) // 3] ^= 4
    fails(dsa.ImageError, "image", lambda: driver.load(bytes(flipped)))
    launch_on(device)


def test_image_of_another_target(device: dsa.Device) -> None:
    case = CASES["add_odd"]()
    case.kernel.warmup(*case.args, grid=case.grid, **case.meta, target="center")
    with device:
        fails(
            dsa.ImageError, "for target center, the device is edge",
            lambda: case.launch(target="center"),
        )  # fmt: skip
    launch_on(device)


def test_wrong_abi_version(build: Build, healthy: Path) -> None:
    other = build("-DDRIVER_ABI=2")
    text = fails(
        dsa.DeviceError,
        "has ABI version 2, this dsalang needs version 1",
        lambda: dsa.Device(other),
    )
    assert "dsa_driver.h" in text
    raw = load_library(healthy)
    handle = ctypes.c_void_p()
    assert raw.dsa_open(2, 0, ctypes.byref(handle)) == -1 and not handle
    assert b"ABI version 1, not 2" in raw.dsa_last_error()
    device = dsa.Device(healthy)
    launch_on(device)
    device.close()


@pytest.mark.parametrize("flags", [("-std=c99",), ("-x", "c++", "-std=c++11")])
def test_header_is_plain_c(flags: tuple[str, ...], tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None or (flags[0] == "-x" and shutil.which("c++") is None):
        pytest.skip("there is no such compiler")
    program = tmp_path / "program.c"
    program.write_text(
        '#include "dsa_driver.h"\n'
        f"typedef char size[sizeof(dsa_properties) == {ctypes.sizeof(Properties)} ? 1 : -1];\n"
        f"typedef char version[DSA_ABI == {ABI}u ? 1 : -1];\n"
        f"typedef char codes[DSA_ERROR_CORRUPT == {Status.CORRUPT.value} ? 1 : -1];\n"
    )
    command = [compiler, *flags, "-Wall", "-pedantic-errors", "-fsyntax-only", "-I", str(HEADERS)]
    subprocess.run([*command, str(program)], check=True)


def test_no_driver_at_all(tmp_path: Path) -> None:
    path = tmp_path / "none.so"
    fails(dsa.DeviceError, "cannot load driver", lambda: dsa.Device(path))
    path.write_bytes(b"not a library")
    fails(dsa.DeviceError, "cannot load driver", lambda: dsa.Device(path))
    libc = ctypes.util.find_library("m")
    if libc:
        fails(dsa.DeviceError, "is no dsalang driver: it has no dsa_abi", lambda: dsa.Device(libc))


def test_memory_runs_out(device: dsa.Device) -> None:
    fails(dsa.LaunchError, "device memory is exhausted", lambda: device.empty(1 << 30))
    kept = [device.empty(1 << 20) for _ in range(15)]  # 60 of 64 MiB
    case = CASES["add_odd"]()
    big = np.zeros(2 << 20, np.float32)
    args = big, big[:16], case.outputs[0], 16
    case.kernel.warmup(*args, grid=(1,), BLOCK=16)
    with device:
        fails(
            dsa.LaunchError, "exhausted: .* in use",
            lambda: case.kernel[(1,)](*args, BLOCK=16),
        )  # fmt: skip
    del kept
    gc.collect()
    assert device.empty(60 << 18).nbytes == 60 << 20
    launch_on(device)


def test_kernel_error_leaves_the_device_usable(device: dsa.Device) -> None:
    case = CASES["add_odd"]()
    small = device.empty(16)
    with device, pytest.raises(dsa.DeviceError, match=r"kernels\.py:\d+:\d+: .*outside"):
        case.kernel[(1,)](small, small, small, 100_000, BLOCK=65536)
    launch_on(device)


def test_misuse_of_the_c_abi(device: dsa.Device) -> None:
    driver = device.driver
    assert driver is not None
    address = driver.alloc(100)
    data = np.zeros(200, np.uint8)
    for wrong in (
        lambda: driver.free(address + 1),
        lambda: driver.copy_in(address, data.ctypes.data, 101),
        lambda: driver.copy_in(address + 90, data.ctypes.data, 11),
        lambda: driver.copy_out(data.ctypes.data, address - 1, 1),
        lambda: driver.copy_out(data.ctypes.data, 2**64 - 1, 2),
        lambda: driver.alloc(2**64 - 1),
        lambda: driver.wait(10**9),
        lambda: driver.elapsed(1, 10**9),
    ):
        fails(dsa.LaunchError, ".", wrong)
    driver.launch(10_000, [], (1, 1, 1))
    fails(dsa.LaunchError, "there is no image 10000", lambda: driver.wait(driver.record()))
    driver.free(address)
    launch_on(device)


def test_closed_device(healthy: Path) -> None:
    device = Driver(healthy)
    device.close()
    device.close()
    fails(dsa.DeviceError, "is closed", lambda: device.alloc(1))


def children() -> set[str]:
    return {
        child
        for task in Path("/proc/self/task").iterdir()
        for child in (task / "children").read_text().split()
    }


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="asks Linux about processes")
def test_worker_ends_with_its_driver(healthy: Path) -> None:
    gc.collect()
    files, processes = set(os.listdir("/proc/self/fd")), children()
    for _ in range(2):
        device = dsa.Device(healthy)
        assert len(children()) == len(processes) + 1
        device.close()
    assert set(os.listdir("/proc/self/fd")) == files and children() == processes
