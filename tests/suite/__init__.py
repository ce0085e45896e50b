"""The kernel suite: every kernel that tests and benchmarks run, with its data and its float64 answer."""

from . import block_cases, micro_cases  # noqa: F401 (they register their cases)
from .cases import CASES, Case, case

__all__ = ["CASES", "Case", "case"]
