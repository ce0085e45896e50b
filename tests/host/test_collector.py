"""Work without garbage collection in between."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import dsalang as dsa
import dsalang.language as tl
from dsalang._backend.collector import paused


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    enabled = gc.isenabled()
    yield
    (gc.enable if enabled else gc.disable)()


@pytest.mark.parametrize("enabled", [True, False])
def test_it_is_afterwards_as_it_was(enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    with pytest.raises(ZeroDivisionError), paused():
        with paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise ZeroDivisionError
    assert gc.isenabled() == enabled


def test_the_last_thread_ends_it() -> None:
    gc.enable()
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with paused():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=work)
    with paused():
        thread.start()
        assert inside.wait(10)
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_process_collects() -> None:
    gc.enable()
    with paused():
        child = os.fork()
        if not child:
            with paused():
                inside = not gc.isenabled()
            os._exit(0 if inside and gc.isenabled() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_process_leaves_the_block_that_it_began_in() -> None:
    gc.enable()
    with paused():
        child = os.fork()
    if not child:
        with paused():
            inside = not gc.isenabled()
        os._exit(0 if inside and gc.isenabled() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_first_launch_leaves_it_on() -> None:
    @dsa.jit
    def double(x, N: tl.constexpr):
        at = tl.arange(0, N)
        tl.store(x + at, 2 * tl.load(x + at))

    gc.enable()
    x = np.ones(16, np.float32)
    double[(1,)](x, N=16)
    assert (x == 2).all() and gc.isenabled()
    with pytest.raises(dsa.CompileError):
        double[(1,)](x, N="no size")
    assert gc.isenabled()
