"""Fast engine against the reference engine: same bits, same cycles, on every kernel of the suite."""

from __future__ import annotations

import pytest
from suite import CASES

from dsalang._backend.target import Target

from .compare import launch


@pytest.mark.parametrize("target", ("edge", "center"))
@pytest.mark.parametrize("name", CASES)
def test_same(name: str, target: str) -> None:
    case = CASES[name]()
    options = {k: v for k, v in case.options.items() if k == "num_stages"}
    launch(case.kernel, case.args, case.grid, Target.by_name(target), **options, **case.meta)
    case.check()


@pytest.mark.parametrize("threads", (1, 2, 5))
@pytest.mark.parametrize("name", ("softmax_odd", "attention_64_causal", "histogram"))
def test_any_number_of_threads(name: str, threads: int) -> None:
    case = CASES[name]()
    run = launch(case.kernel, case.args, case.grid, Target.by_name("center"), threads, **case.meta)
    assert len(run.cores) > 1
