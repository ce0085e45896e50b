"""The cache key: it changes with everything that the code depends on, and with nothing else."""

from __future__ import annotations

import linecache

import pytest

import dsalang
from dsalang._backend.target import Target
from dsalang._jit import key as cache_key
from dsalang._jit import version
from dsalang._jit.decorator import jit
from dsalang._jit.specialize import from_signature

EDGE, CENTER = Target.by_name("edge"), Target.by_name("center")
TEXT = """
import dsalang as dsa
SCALE = 2
@dsa.jit
def helper(x):
    return x * SCALE
@dsa.jit
def kernel(x, n, BLOCK: dsa.constexpr):
    '''A docstring.'''
    i = dsa.arange(0, BLOCK)
    dsa.store(x + i, helper(dsa.load(x + i, mask=i < n)), mask=i < n)
"""


def load(text, name="/nowhere/cache_key.py"):
    """The kernel of a source text."""
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {"__name__": "cache_key"}
    exec(compile(text, name, "exec"), scope)
    return scope["kernel"], scope


def key(kernel, signature="*fp32:16, i32", constants=None, target=EDGE, **options):
    spec = from_signature(kernel.source, signature, constants or {"BLOCK": 64}, **options)
    return cache_key.digest(kernel.source, spec, target)


BASE = key(load(TEXT)[0])


@pytest.fixture(autouse=True)
def base(monkeypatch):
    """Tests that ran before may have registered microkernels, which are part of every key."""
    monkeypatch.setitem(globals(), "BASE", key(load(TEXT)[0]))


def test_the_key_is_the_same_in_another_process_and_for_a_copy():
    assert key(load(TEXT)[0]) == BASE
    kernel = load(TEXT)[0]
    assert key(jit(noinline=True)(kernel.fn)) == BASE


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("A docstring.", "Another one."),
        ("mask=i < n)", "mask=i < n )"),
        ("0, BLOCK)", "0, BLOCK)  # a comment"),
        ("@dsa.jit\ndef kernel", "@dsa.jit \ndef kernel"),
    ],
)
def test_layout_and_docstrings_do_not_matter(before, after):
    assert before in TEXT
    if "mask" in before:  # moves the columns of what follows on the line; only the last one may
        head, _, tail = TEXT.rpartition(before)
        changed = head + after + tail
    else:
        changed = TEXT.replace(before, after)
    assert key(load(changed)[0]) == BASE


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("i < n)), mask", "i <= n)), mask"),
        ("return x * SCALE", "return x + SCALE"),
        ("SCALE = 2", "SCALE = 3"),
        ("SCALE = 2", "SCALE = 2.0"),
        ("\n    i = dsa", "\n\n    i = dsa"),
    ],
)
def test_the_source_matters(before, after):
    assert before in TEXT
    assert key(load(TEXT.replace(before, after))[0]) != BASE


def test_globals_are_read_at_the_launch():
    kernel, scope = load(TEXT)
    assert key(kernel) == BASE
    scope["SCALE"] = 5
    changed = key(kernel)
    assert changed != BASE
    scope["SCALE"] = 2
    assert key(kernel) == BASE


def test_the_place_matters_because_messages_show_it():
    assert key(load("\n" + TEXT)[0]) != BASE
    assert key(load(TEXT, "/nowhere/else.py")[0]) != BASE


@pytest.mark.parametrize(
    "options",
    [
        {"signature": "*fp16:16, i32"},
        {"signature": "*fp32, i32"},
        {"signature": "*fp32:16, i64"},
        {"signature": "*fp32:16, i32:16"},
        {"constants": {"BLOCK": 128}},
        {"constants": {"BLOCK": 64.0}},
        {"target": CENTER},
        {"num_stages": 2},
    ],
)
def test_the_specialisation_matters(options):
    assert key(load(TEXT)[0], **options) != BASE


def test_the_compiler_matters(monkeypatch):
    monkeypatch.setattr(cache_key, "compiler_version", lambda: "another")
    assert key(load(TEXT)[0]) != BASE


def test_the_compilers_version_changes_with_its_files(monkeypatch, tmp_path):
    import sys
    from types import SimpleNamespace

    folder = tmp_path / "compiler"
    folder.mkdir()
    (folder / "pass.py").write_text("x = 1\n")
    monkeypatch.setitem(sys.modules, "dsalang._backend", SimpleNamespace(__path__=[str(folder)]))
    first = version.compiler_version.__wrapped__()
    assert version.compiler_version.__wrapped__() == first
    (folder / "pass.py").write_text("x = 2\n")
    assert version.compiler_version.__wrapped__() != first


FACTORY = """
import enum
import types
import dsalang as dsa
class Mode(enum.Enum):
    A = 1
    B = 2
class config:
    WIDTH = 8
    unused = object()
MODE = Mode.A
KIND = dsa.float16
SPACE = types.SimpleNamespace(x=1)
WIDTH = dsa.constexpr(4)
SIZES = [1, 2]
TABLE = {"a": 1}
def make(factor):
    @dsa.jit
    def scale(x):
        return x * factor
    return scale
double, triple = make(2), make(3)
@dsa.jit
def reads(space):
    return space.x
@dsa.jit
def kernel(x, n, BLOCK: dsa.constexpr):
    dsa.store(x, reads(SPACE) + double(triple(n)) + SIZES[0] + TABLE["a"] + config.WIDTH + (1 if MODE == Mode.A else 2) + WIDTH,
              n.to(KIND))
"""


@pytest.mark.parametrize(
    "change",
    [
        "scope.update(double=scope['triple'], triple=scope['double'])",
        "scope['double'].fn.__closure__[0].cell_contents = 7",
        "scope['WIDTH'].value = 5",
        "scope.update(KIND=dsa.float32)",
        "scope['SIZES'].append(3)",
        "scope['SPACE'].x = 2",
        "scope['TABLE'].update(a=2)",
        "scope.update(MODE=scope['Mode'].B)",
        "setattr(scope['config'], 'WIDTH', 16)",
    ],
)
def test_what_a_kernel_refers_to_matters(change):
    kernel, scope = load(FACTORY)
    before = key(kernel)
    assert key(kernel) == before
    exec(change, {"scope": scope, "dsa": dsalang})
    assert key(kernel) != before


def test_what_it_does_not_refer_to_does_not_matter():
    first, _ = load(FACTORY)
    second, scope = load(FACTORY)
    scope["config"].unused = object()
    assert key(first) == key(second)
