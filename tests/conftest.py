"""What every test runs under: a cache of its own that the workers share, the IR verified after each pass, fixed examples."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

# The same examples in every run, and no test that fails because others need the machine, too.
settings.register_profile("dsalang", deadline=None, derandomize=True, database=None)
settings.load_profile("dsalang")


@pytest.fixture(scope="session", autouse=True)
def _environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    patch = pytest.MonkeyPatch()
    patch.setenv("DSA_CACHE_DIR", str(base / "dsa-cache"))
    patch.setenv("DSA_VERIFY", "1")
    patch.setenv("DSA_TIERED", "0")  # the fast engine is tested from the first launch on
    yield
    patch.undo()
