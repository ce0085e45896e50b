"""The cache folder: what it returns, and what happens to it."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import filelock
import pytest
from cache_images import make_image
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsalang._backend.image.elf import load
from dsalang._runtime.cache import Cache, CacheWarning

KEY = hashlib.sha256(b"kernel").hexdigest()


@pytest.fixture(scope="module")
def image():
    return make_image()


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "images")


def anything(image):
    return True


def never():
    raise AssertionError("compiled although the image is in the cache")


def test_an_image_is_made_once(cache, image):
    assert cache.image(KEY, anything, lambda: image) == image
    assert cache.image(KEY, anything, never) == image
    assert Cache(cache.folder).image(KEY, anything, never) == image


def test_keys_have_entries_of_their_own(cache, image):
    other = make_image("other")
    cache.image(KEY, anything, lambda: image)
    assert cache.image(KEY[::-1], anything, lambda: other).name == "other"
    assert cache.read(KEY).name == "kernel"


def test_an_image_that_does_not_fit_is_made_again(cache, image):
    cache.image(KEY, anything, lambda: make_image("foreign"))
    assert cache.image(KEY, lambda i: i.name == "kernel", lambda: image) == image
    assert cache.read(KEY).name == "kernel"


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_entry_is_made_again(cache, image, data):
    cache.image(KEY, anything, lambda: image)
    path = cache.path(KEY)
    raw = bytearray(path.read_bytes())
    kind = data.draw(st.sampled_from(["flip", "cut", "text"]))
    at = data.draw(st.integers(0, len(raw) - 1))
    if kind == "flip":
        raw[at] ^= data.draw(st.integers(1, 255))
    elif kind == "cut":
        del raw[at:]
    else:
        raw = bytearray(b"not an image")
    path.write_bytes(raw)
    assert cache.image(KEY, anything, lambda: image) == image
    assert load(path.read_bytes()) == image


def test_nothing_is_left_when_compiling_fails(cache):
    with pytest.raises(RuntimeError, match="boom"):
        cache.image(KEY, anything, lambda: (_ for _ in ()).throw(RuntimeError("boom")))
    assert cache.info().entries == 0
    assert not list(cache.folder.rglob("*.tmp"))


def test_info_and_clear(cache, image):
    assert (cache.info().entries, cache.info().bytes, cache.clear()) == (0, 0, 0)
    for key in (KEY, KEY[::-1]):
        cache.write(key, image)
    assert (cache.info().entries, cache.info().bytes) == (2, 2 * len(image.file))
    stray = cache.path(KEY).parent / ".left-by-a-killed-process.tmp"
    stray.write_bytes(b"half")
    mine = cache.folder / "my-file.elf"
    mine.write_bytes(b"not yours")
    assert cache.clear() == 2
    assert cache.info().entries == 0
    assert not stray.exists() and mine.exists()


@pytest.mark.parametrize("obstacle", ["file in the way", "unwritable"])
def test_an_unusable_folder_costs_one_warning(tmp_path, image, obstacle):
    if obstacle == "unwritable":
        if os.geteuid() == 0:
            folder = Path("/proc/dsalang-cache")  # not writable, even for root
        else:
            folder = tmp_path / "images"
            folder.mkdir(mode=0o500)
    else:
        folder = tmp_path / "images"
        folder.write_text("a file")
    cache = Cache(folder)
    with pytest.warns(CacheWarning, match="DSA_CACHE_DIR") as caught:
        for _ in range(3):
            assert cache.image(KEY, anything, lambda: image) == image
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Cache(folder, warn=False).image(KEY, anything, lambda: image)


def test_an_unwritable_folder_is_still_read(cache, image, monkeypatch):
    cache.write(KEY, image)
    monkeypatch.setattr(Cache, "write", never)
    assert cache.image(KEY, anything, never) == image


def test_threads_compile_once(cache, image):
    made = []

    def make():
        made.append(1)
        time.sleep(0.05)
        return image

    threads = [threading.Thread(target=lambda: cache.image(KEY, anything, make)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]


def test_a_lock_that_is_never_released_is_not_waited_for_for_ever(tmp_path, image):
    cache = Cache(tmp_path / "images", lock_seconds=0.05)
    (cache.folder / "locks").mkdir(parents=True)
    with filelock.FileLock(cache.folder / "locks" / f"{KEY[:2]}.lock"):
        started = time.monotonic()
        assert cache.image(KEY, anything, lambda: image) == image
        assert time.monotonic() - started < 5
    assert cache.read(KEY) == image


def test_nothing_is_unpickled():
    root = Path(__file__).parents[2]
    for folder in ("jit", "backend", "runtime", "dsalang"):
        for path in (root / folder).rglob("*.py"):
            text = path.read_text()
            for word in ("import pickle", "import marshal", "import shelve", "import dill"):
                assert word not in text, path


def test_processes_killed_at_random_points(tmp_path, image):
    """Workers share six keys and are killed; whoever comes after them finds whole images or makes them."""
    (tmp_path / "template.elf").write_bytes(image.file)
    worker = [sys.executable, str(Path(__file__).with_name("cache_worker.py")), str(tmp_path)]
    rng = random.Random(20)
    deadline = time.monotonic() + 60
    running: list[subprocess.Popen] = []
    killed = 0
    while killed < 10 and time.monotonic() < deadline:
        while len(running) < 3:
            command = [*worker, str(rng.randrange(1000)), "100000"]
            running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        time.sleep(rng.uniform(0.1, 0.5))
        victim = running.pop(rng.randrange(len(running)))
        victim.send_signal(signal.SIGKILL)
        output = victim.communicate()[0]
        assert "WRONG" not in output
        assert victim.returncode in (-signal.SIGKILL, 0), victim.returncode
        killed += 1
    for process in running:
        process.kill()
        assert "WRONG" not in process.communicate()[0]
    assert killed == 10

    last = subprocess.run([*worker, "7", "60"], capture_output=True, text=True, timeout=60)
    assert last.stdout == "done\n", last.stderr
    for path in (tmp_path / "cache").glob("??/*.elf"):
        assert load(path.read_bytes()) == image
    Cache(tmp_path / "cache").clear()
    assert not list((tmp_path / "cache").rglob("*.tmp"))
