"""The table of knobs, and its page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dsalang as dsa
from dsalang._backend.errors import UserError
from dsalang._jit import knobs

ROOT = Path(__file__).parents[2]


def test_values(monkeypatch):
    monkeypatch.delenv("DSA_INTERPRET", raising=False)
    assert knobs.INTERPRET.get() is False
    for text, value in (("1", True), ("true", True), ("0", False), ("", False)):
        monkeypatch.setenv("DSA_INTERPRET", text)
        assert knobs.INTERPRET.get() is value
    monkeypatch.setenv("DSA_DUMP", "passes, asm")
    assert knobs.DUMP.get() == ("passes", "asm")


@pytest.mark.parametrize(
    ("name", "text"), [("DSA_INTERPRET", "yes!"), ("DSA_DUMP", "all"), ("DSA_EMULATOR", "fpga")]
)
def test_a_bad_value_says_what_is_allowed(monkeypatch, name, text):
    monkeypatch.setenv(name, text)
    knob = next(k for k in knobs.KNOBS if k.name == name)
    with pytest.raises(UserError, match=f"{name}='{text}' is not allowed") as error:
        knob.get()
    assert knob.allowed in error.value.hint


def test_names_are_unique_and_prefixed():
    names = [k.name for k in knobs.KNOBS]
    assert len(set(names)) == len(names)
    assert all(name.startswith("DSA_") for name in names)


def test_all_knobs_are_in_the_table():
    assert set(knobs.KNOBS) == {v for v in vars(knobs).values() if isinstance(v, knobs.Knob)}


def test_the_page_shows_the_table():
    assert (ROOT / "docs" / "knobs.md").read_text() == knobs.page()


def test_no_other_variable_is_read():
    known = {k.name for k in knobs.KNOBS}
    for folder in ("jit", "backend", "runtime", "dsalang/cli"):
        for path in (ROOT / folder).rglob("*.py"):
            for line in path.read_text().splitlines():
                if "environ" in line or "getenv" in line:
                    assert path.name == "knobs.py", f"{path}: {line}"
    assert known


def test_a_misspelt_knob_is_named_once(monkeypatch):
    monkeypatch.setenv("DSA_EMULATR", "fast")
    monkeypatch.setenv("DSA_OTHER_PROGRAM", "1")
    monkeypatch.setattr(knobs, "_unknown", set())
    with pytest.warns(UserWarning, match="DSA_EMULATR is no knob.*DSA_EMULATOR") as caught:
        knobs.warn_of_misspelt()
        knobs.warn_of_misspelt()
    assert len(caught) == 1 and caught[0].filename == __file__


def test_the_warning_of_a_misspelt_knob_shows_the_launch(monkeypatch):
    @dsa.jit
    def kernel(x):
        dsa.store(x, 1.0)

    monkeypatch.setenv("DSA_EMULATR", "fast")
    monkeypatch.setattr(knobs, "_unknown", set())
    with pytest.warns(UserWarning, match="DSA_EMULATR") as caught:
        kernel[1](np.zeros(1, np.float32))
    assert caught[0].filename == __file__


def test_no_warning_where_none_is_wanted(monkeypatch, recwarn):
    monkeypatch.setenv("DSA_EMULATR", "fast")
    monkeypatch.setenv("DSA_WARN", "0")
    monkeypatch.setattr(knobs, "_unknown", set())
    knobs.warn_of_misspelt()
    assert not recwarn.list
