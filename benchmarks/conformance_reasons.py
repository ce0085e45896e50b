"""Why cases of Triton's own tests fail through dsalang: one row per family, by a pattern of the case's id."""

from __future__ import annotations

import re

_FP8 = "the three fp8 formats of some GPUs (e4b15, e4b8, e5b16) are not formats of this machine: a launch error"
_WORDS = "refused, as the test wants; it looks for Triton's words in `__cause__`, ours are in the error itself"
_CUDA = "the test calls `torch.cuda`; it fails in Triton's interpreter, too"

REASONS: tuple[tuple[str, str], ...] = (
    (r"test_abs_fp8\[", _FP8),
    (r"test_(permute|trans_2d)\[.*float8e4b15", _FP8),
    (r"test_dot_max_num_imprecise_acc\[.*float8e4b15", _FP8),
    (r"test_convert_float8.*\[", _FP8),
    (r"test_expand_dims_error_cases", _WORDS),
    (r"test_invalid_pid_axis", _WORDS),
    (
        r"test_atomic_unsupported_type\[",
        "the test wants an error; atomics of one and two bytes work here",
    ),
    (
        r"test_math_member_fn_rejects_fp16\[",
        "the test wants an error; here fp16 is computed in fp32 and rounded once",
    ),
    (
        r"test_tma_(load|store)_block_shape_err",
        "the test wants an error; blocks of less than 16 bytes work here",
    ),
    (r"test_zero_strided_tensors", _CUDA),
    (r"test_tensor_descriptor_batched_gemm_3d_tma", _CUDA),
)
"""(pattern of the id, reason)"""


def reason_of(case: str) -> str:
    """The reason of a failing case, '' when the table has none."""
    return next((reason for pattern, reason in REASONS if re.search(pattern, case)), "")
