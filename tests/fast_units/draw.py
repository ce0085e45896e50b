"""Many hypothesis examples at once, so that one module can hold the code of all of them."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from .harness import Case


def drawn(build: Callable[[st.DrawFn], Case], count: int) -> list[Case]:
    """`count` derandomized examples of `build`."""
    cases: list[Case] = []

    @settings(
        derandomize=True,
        deadline=None,
        max_examples=count,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.composite(lambda draw: build(draw))())
    def collect(case: Case) -> None:
        cases.append(case)

    collect()
    return cases
