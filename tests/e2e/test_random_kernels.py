"""Random kernels end to end; `random_kernels.py` and `random_mistakes.py` beside this run for as long as wanted."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from e2e.random_mistakes import check_mistake, mutate
from e2e.random_model import RandomKernel
from e2e.random_runs import MismatchError, check_deletions, check_kernel, check_same, same_bits
from e2e.random_text import write_kernel
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

SEEDS = st.integers(0, 2**32 - 1)


def quick(examples: int) -> settings:
    """Settings of a test that draws the same seeds each time and does not try to make them smaller."""
    return settings(
        max_examples=examples, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSA_VERIFY", "1")


def _shown(kernel: RandomKernel, seed: int) -> None:
    note(f"seed {seed}: python tests/e2e/random_kernels.py --only {seed}\n{kernel.text}")


@quick(16)
@given(SEEDS)
def test_machines_agree_with_the_interpreter(seed: int) -> None:
    kernel = write_kernel(Random(seed))
    _shown(kernel, seed)
    check_kernel(kernel, seed)


@quick(8)
@given(SEEDS)
def test_pairs_that_matter_are_reported_by_the_checker(seed: int) -> None:
    kernel = write_kernel(Random(seed))
    _shown(kernel, seed)
    check_deletions(kernel, seed)


@quick(30)
@given(SEEDS)
def test_mistakes_end_in_a_users_error(seed: int) -> None:
    rng = Random(seed)
    kernel = mutate(write_kernel(rng), rng)
    note(f"seed {seed}: python tests/e2e/random_mistakes.py --only {seed}\n{kernel.text}")
    check_mistake(kernel, seed)


def test_differences_are_noticed() -> None:
    nothing = np.zeros(3, np.float32)
    with pytest.raises(MismatchError, match="test: p \\(float32\\) differs in 1"):
        check_same({"p": nothing}, {"p": np.array([0, 1e-6, 0], np.float32)}, "test")
    with pytest.raises(MismatchError, match="the bits of p differ"):
        same_bits({"p": nothing}, {"p": -nothing}, "test")
    check_same({"apx": nothing}, {"apx": nothing + 1e-6}, "test")
