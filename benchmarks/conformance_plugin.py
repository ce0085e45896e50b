"""A pytest plugin that runs Triton's own test files, unmodified, through dsalang (or, to compare, through Triton).

    pytest -p conformance_plugin --through dsalang --triton CHECKOUT --every 20 --record results.jsonl CHECKOUT/python/test/...

What the tests import beside the language, Triton's helpers for its own tests, is loaded from the same checkout.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
import zlib
from collections.abc import Generator
from pathlib import Path
from types import ModuleType
from typing import IO

import pytest

HELPERS = {
    "triton.tools.mxfp": "python/triton/tools/mxfp.py",
    "triton._internal_testing": "python/triton/_internal_testing.py",
}
"""Triton's helpers for tests by module name; they use only what `compat.install()` offers."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The plugin's options."""
    group = parser.getgroup("conformance")
    group.addoption("--through", choices=("dsalang", "triton"), default="dsalang")
    group.addoption("--triton", type=Path, help="a checkout of Triton's repository")
    group.addoption("--every", type=int, default=1, help="run about one case of so many")
    group.addoption(
        "--record", type=Path, help="write the outcome of every case here, as JSON lines"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Put dsalang in Triton's place before any test is imported."""
    if config.getoption("through") == "dsalang":
        from dsalang import compat

        compat.install()
        for name, path in HELPERS.items():
            _load(name, config.getoption("triton") / path)
    if (target := config.getoption("record")) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(target.open("w")))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of every test function the first case, and of the others about one in `--every`."""
    every = config.getoption("every")
    seen: set[str] = set()
    kept, left = [], []
    for item in items:
        family = item.nodeid.partition("[")[0]
        chosen = family not in seen or zlib.crc32(item.nodeid.encode()) % every == 0
        seen.add(family)
        (kept if chosen else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Note the processor time of a case: the wall clock means little on a machine that others share."""
    start = time.process_time()
    try:
        return (yield)
    finally:
        item.user_properties.append(("cpu", time.process_time() - start))


class Recorder:
    """Writes one line per case: its id, what became of it, its seconds (by the clock, and of the processor) and the error's last lines."""

    def __init__(self, file: IO[str]) -> None:
        self.file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for the set-up, the call and the end of each case."""
        if report.when != "call" and report.passed:
            return
        error = ""
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            error = crash.message if crash is not None else str(report.longrepr)[-2000:]
        line = {
            "case": report.nodeid,
            "outcome": report.outcome,
            "seconds": round(report.duration, 4),
            "cpu": round(dict(report.user_properties).get("cpu", 0.0), 4),
            "error": error[:2000],
        }
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()


def _load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    parent, _, last = name.rpartition(".")
    setattr(sys.modules[parent], last, module)
    return module
