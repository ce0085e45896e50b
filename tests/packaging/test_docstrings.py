"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import dsalang

MODULES = [
    found.name
    for found in pkgutil.walk_packages(dsalang.__path__, "dsalang.")
    if not found.name.endswith("__main__")
]


def with_examples(name: str) -> bool:
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.loader is not None
    return ">>> " in (spec.loader.get_source(name) or "")  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [name for name in MODULES if with_examples(name)])
def test_examples(name: str) -> None:
    module = importlib.import_module(name)
    results = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert results.attempted and not results.failed


def test_there_are_examples() -> None:
    assert sum(map(with_examples, MODULES)) > 20
