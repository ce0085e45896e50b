"""How large a cache folder may become, what goes when it is full, and what is remembered beside images."""

from __future__ import annotations

import hashlib
import os
import time

import pytest

from dsalang._jit import knobs, version
from dsalang._runtime.cache import Cache
from dsalang._runtime.cache_limit import trim


def name(number):
    return hashlib.sha256(str(number).encode()).hexdigest()


def size(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def aged(cache, key, seconds):
    then = time.time() - seconds
    os.utime(cache.path(key, ".o"), (then, then))


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "images", max_bytes=10_000)


def test_a_folder_stays_within_its_limit(cache):
    for number in range(100):
        cache.write_object(name(number), bytes(997))
        assert size(cache.folder) <= 10_000
    assert cache.read_object(name(99)) == bytes(997)
    assert cache.read_object(name(0)) is None


def test_what_was_not_used_for_longest_goes_first(cache):
    for number in range(9):
        cache.write_object(name(number), bytes(1000))
        aged(cache, name(number), 1000 - number)
    assert cache.read_object(name(0)) is not None  # used now
    for number in (20, 21, 22):
        cache.write_object(name(number), bytes(1000))
    left = {n for n in (*range(9), 20, 21, 22) if cache.path(name(n), ".o").exists()}
    assert {0, 8, 20, 21, 22} <= left and not {1, 2} & left


def test_what_killed_processes_left_goes_and_what_is_not_ours_stays(cache):
    cache.write_object(name(1), b"x")
    folder = cache.path(name(1), ".o").parent
    old, new, foreign = folder / ".a.1.tmp", folder / ".b.2.tmp", cache.folder / "notes.o"
    for path in (old, new, foreign):
        path.write_bytes(bytes(20_000))
    os.utime(old, (1, 1))
    os.utime(foreign, (1, 1))
    assert trim(cache.folder, 10) == 1
    assert not old.exists() and new.exists() and foreign.exists()


def test_a_folder_that_is_gone_is_empty(tmp_path):
    assert trim(tmp_path / "nothing", 10) == 0


def test_a_note_is_made_once_and_again_when_it_is_damaged(cache):
    made = []

    def make():
        made.append(1)
        return "a text"

    assert [cache.note(name(1), make), cache.note(name(1), make)] == ["a text"] * 2
    assert len(made) == 1
    path = cache.path(name(1), ".note")
    whole = path.read_bytes()
    cache.note(name(2), lambda: "another")
    for bad in (
        b"",
        whole[:-1],
        whole + b"!",
        b"\xff" * 99,
        cache.path(name(2), ".note").read_bytes(),
    ):
        path.write_bytes(bad)
        assert cache.note(name(1), make) == "a text"
        assert path.read_bytes() == whole


def test_the_compilers_version_is_remembered_until_a_file_changes(monkeypatch, tmp_path):
    monkeypatch.setenv("DSA_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "compiler"
    (folder / "passes").mkdir(parents=True)
    file = folder / "passes" / "one.py"
    read = []
    contents = version._contents
    monkeypatch.setattr(version, "_contents", lambda files: read.append(1) or contents(files))
    monkeypatch.setattr(version, "PACKAGES", ("sample",))
    monkeypatch.setattr(version, "_SETTLED_SECONDS", 0.0)
    monkeypatch.setitem(version.sys.modules, "sample", type(version)("sample"))
    version.sys.modules["sample"].__path__ = [str(folder)]
    found = version.compiler_version.__wrapped__
    file.write_text("x = 1\n")
    time.sleep(0.02)
    first = found()
    assert found() == first and len(read) == 1
    stat = file.stat()
    file.write_text("x = 2\n")  # as long, and given the old time
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    time.sleep(0.02)
    second = found()
    assert second != first and len(read) == 2
    file.write_text("x = 1\n")
    time.sleep(0.02)
    assert found() == first and len(read) == 3  # by content, whatever the times
    monkeypatch.setattr(version, "_SETTLED_SECONDS", 3600.0)
    assert found() == first and found() == first and len(read) == 5  # too fresh to be remembered


@pytest.mark.parametrize("text", ["0", "-1", "1G", "many"])
def test_the_limit_is_a_number_of_bytes(monkeypatch, text):
    from dsalang._backend.errors import UserError

    monkeypatch.setenv("DSA_CACHE_MAX_BYTES", text)
    with pytest.raises(UserError, match="DSA_CACHE_MAX_BYTES"):
        knobs.CACHE_MAX_BYTES.get()
