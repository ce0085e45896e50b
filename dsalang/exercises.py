"""Checkers of the tutorials' exercises: `dsa exercise NN my_answer.py`.

Each runs the learner's kernel on shapes that are not multiples of the block, compares with float64, looks
for writes outside the result, and measures what the exercise is about.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsalang._backend.errors import DsaError, UserError
from dsalang.user_file import failure

Array = NDArray[Any]
GUARD = 64


class ExerciseError(UserError):
    """An answer is wrong, with what it did and what was expected."""


@dataclass(frozen=True)
class Exercise:
    """An exercise: what the answer's function is called and takes, and what checks it.

    `params` is empty where the answer is no kernel.
    """

    number: str
    function: str
    params: str
    task: str
    check: Callable[[Any], str]


def run_exercise(number: str, path: str | Path) -> str:
    """Check the answer in a file.

    Args:
        number: "01" to "07".
        path: a Python file that defines the kernel the exercise asks for.

    Returns:
        A line that says what was measured.

    Raises:
        ExerciseError: the number or the file is unknown, or the answer is wrong.
    """
    exercise = EXERCISES.get(number.zfill(2))
    if exercise is None:
        raise ExerciseError(f"no exercise {number!r}", hint=f"there are {', '.join(EXERCISES)}")
    if not Path(path).is_file():
        raise ExerciseError(f"no such file: {path}")
    try:
        kernel = runpy.run_path(str(path)).get(exercise.function)
    except DsaError:
        raise
    except (Exception, SystemExit) as error:
        raise failure(path, error) from None
    if kernel is None:
        raise ExerciseError(
            f"{path} does not define {exercise.function}", hint=f"the task: {exercise.task}"
        )
    if exercise.params:
        _require_kernel(kernel, exercise)
    return exercise.check(kernel)


def _require_kernel(kernel: Any, exercise: Exercise) -> None:
    """Refuse what is no kernel, or one that cannot be called as the exercise's is."""
    from dsalang._jit.decorator import JITFunction
    from dsalang._jit.tuned import Tuned

    if not isinstance(kernel, JITFunction | Tuned):
        raise ExerciseError(
            f"{exercise.function} is not a kernel", hint="decorate it with @dsa.jit"
        )
    if len(kernel.arg_names) != len(exercise.params.split(", ")):
        raise ExerciseError(
            f"{exercise.function} takes ({', '.join(kernel.arg_names)})",
            hint=f"the exercise's takes ({exercise.params})",
        )


def _guarded(shape: tuple[int, ...], dtype: Any) -> tuple[Array, Array]:
    """A zeroed array and the whole buffer around it, whose guard elements hold 77."""
    size = int(np.prod(shape))
    buffer = np.full(size + 2 * GUARD, 77, dtype)
    inner = buffer[GUARD : GUARD + size].reshape(shape)
    inner[...] = 0
    return inner, buffer


def _compare(got: tuple[Array, Array], want: Array, tolerance: float, what: str) -> None:
    inner, buffer = got
    if (buffer[:GUARD] != 77).any() or (buffer[-GUARD:] != 77).any():
        raise ExerciseError(f"{what}: wrote outside the result", hint="mask the store")
    error = np.abs(inner.astype(np.float64) - want) / np.maximum(1.0, np.abs(want))
    worst = np.unravel_index(
        int(np.nanargmax(np.where(np.isnan(error), np.inf, error))), want.shape
    )
    if not error[worst] <= tolerance:
        place = ", ".join(str(i) for i in worst)
        raise ExerciseError(
            f"{what}: element [{place}] is {float(inner[worst]):.6g}, expected {want[worst]:.6g}"
        )


def _require_traffic(actual: int, allowed: int, what: str) -> None:
    if actual > allowed:
        raise ExerciseError(
            f"{what}: {actual:,} bytes went through HBM, a fused kernel needs at most {allowed:,}",
            hint="load each element once, keep intermediates in tiles, store once",
        )


def _normal(seed: int, *shape: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).standard_normal(shape)


def _check_scaled_add(kernel: Any) -> str:
    for n in (1, 1000, 4096, 10_001):
        x, y = _normal(n, n).astype(np.float32), _normal(n + 1, n).astype(np.float32)
        out = _guarded((n,), np.float32)
        kernel[(-(-n // 1024),)](x, y, out[0], 2.5, n, BLOCK=1024)
        _compare(out, 2.5 * x.astype(np.float64) + y, 1e-6, f"n={n}")
    return "right for 1, 1,000, 4,096 and 10,001 elements"


def _check_log_softmax(kernel: Any) -> str:
    moved = 0
    for rows, columns in ((3, 1), (5, 1000), (8, 1024)):
        x = (_normal(columns, rows, columns) * 4).astype(np.float32)
        out = _guarded((rows, columns), np.float32)
        run = kernel[(rows,)](x, out[0], columns, columns, BLOCK=1024)
        shifted = x.astype(np.float64) - x.max(1, keepdims=True)
        want = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
        _compare(out, want, 2e-6, f"{rows}×{columns}")
        moved = run.hbm_bytes
        _require_traffic(moved, 2 * 4 * rows * (columns + 32), f"{rows}×{columns}")
    return f"right for three shapes, {moved:,} bytes of HBM traffic for 8×1024"


def _check_matmul_nt(kernel: Any) -> str:
    shares = []
    for m, n, k in ((64, 64, 64), (100, 70, 90), (128, 256, 192)):
        a, b = _normal(m, m, k).astype(np.float16), _normal(n, n, k).astype(np.float16)
        c = _guarded((m, n), np.float16)
        grid = (-(-m // 64), -(-n // 64))
        run = kernel[grid](a, b, c[0], m, n, k, BM=64, BN=64, BK=32)
        _compare(c, a.astype(np.float64) @ b.astype(np.float64).T, 4e-3, f"{m}×{n}×{k}")
        shares.append(run.utilisation("MM"))
    return f"right for three shapes, tensor engine {shares[-1]:.0%} busy on 128×256×192"


def _check_linear_silu(kernel: Any) -> str:
    moved = 0
    for m, n, k in ((64, 64, 64), (100, 70, 90), (128, 256, 64)):
        x = _normal(m, m, k).astype(np.float16)
        w = (_normal(n, k, n) / np.sqrt(k)).astype(np.float16)
        bias, residual = _normal(k, n).astype(np.float16), _normal(m + n, m, n).astype(np.float16)
        y = _guarded((m, n), np.float16)
        grid = (-(-m // 64), -(-n // 64))
        run = kernel[grid](x, w, bias, residual, y[0], m, n, k, BM=64, BN=64, BK=64)
        z = x.astype(np.float64) @ w.astype(np.float64) + bias
        _compare(y, z / (1 + np.exp(-z)) + residual, 4e-3, f"{m}×{n}×{k}")
        moved = run.hbm_bytes
        rounded = 64 * 64 * 2 * grid[0] * grid[1]
        _require_traffic(moved, (2 * -(-k // 64) + 3) * rounded, f"{m}×{n}×{k}")
    return f"right for three shapes, {moved:,} bytes of HBM traffic, no intermediates"


def _check_mlp_steps(kernel: Any) -> str:
    moved = 0
    for steps, d in ((1, 16), (5, 64), (8, 256)):
        x = _normal(d, d).astype(np.float16)
        w = (_normal(steps, d, d) * np.sqrt(2 / d)).astype(np.float16)
        y = _guarded((d,), np.float16)
        run = kernel[(1,)](x, w, y[0], steps, d)
        want = x.astype(np.float64)
        for _ in range(steps):
            want = np.maximum(want @ w.astype(np.float64), 0)
        _compare(y, want, 2e-2, f"{steps} steps of {d}")
        moved = run.hbm_bytes
        _require_traffic(moved, w.nbytes + 4 * 64 + 4 * d, f"{steps} steps of {d}")
    return f"right for three sizes, {moved:,} bytes of HBM traffic for 8 steps of 256"


def _check_decode_one(kernel: Any) -> str:
    moved = 0
    for length, head, block in ((1, 64, 128), (1000, 64, 128), (777, 32, 256)):
        q = _normal(length, head).astype(np.float16)
        k, v = (_normal(length + n, length, head).astype(np.float16) for n in (1, 2))
        out = _guarded((head,), np.float32)
        run = kernel[(1,)](q, k, v, out[0], length, HEAD=head, BLOCK=block)
        scores = k.astype(np.float64) @ q.astype(np.float64) / np.sqrt(head)
        p = np.exp(scores - scores.max())
        _compare(out, p @ v.astype(np.float64) / p.sum(), 3e-3, f"{length} tokens")
        moved = run.hbm_bytes
        _require_traffic(moved, k.nbytes + v.nbytes + 8 * 64 + 6 * head, f"{length} tokens")
    return f"right for three lengths, {moved:,} bytes of HBM traffic for 777 tokens"


def _check_rms_norm(micro: Any) -> str:
    from dsalang import MicrokernelError, MicrokernelFunction

    if not isinstance(micro, MicrokernelFunction):
        raise ExerciseError(
            "rms_norm is not a microkernel", hint="decorate it with @dsa.microkernel"
        )
    passes = 0
    for m, n in ((1, 64), (24, 100), (64, 256)):
        x, weight = _normal(m, m, n).astype(np.float32), _normal(n, n).astype(np.float32)
        y = _guarded((m, n), np.float32)
        kernel = _calling(micro)
        try:
            kernel[(1,)](x, weight, y[0], M=m, N=n)
        except MicrokernelError as error:
            raise ExerciseError(error.message, error.loc, error.hint) from None
        wide = x.astype(np.float64)
        want = wide * weight / np.sqrt((wide * wide).mean(1, keepdims=True))
        _compare(y, want, 1e-5, f"{m}×{n}")
        image = kernel.warmup(x, weight, y[0], M=m, N=n, grid=(1,)).image
        passes = sum(_points(template) >= m * n for template in image.templates)
        if passes > 3 and m > 1:
            raise ExerciseError(f"{passes} instructions pass over the whole tile, 3 are enough")
    return f"right for three shapes, {passes} passes over the tile"


def _calling(micro: Any) -> Any:
    """A kernel that stores micro(x, weight)."""
    import dsalang as dsa

    def kernel(x, weight, y, M: dsa.constexpr, N: dsa.constexpr):  # type: ignore[no-untyped-def]
        n = dsa.arange(0, N)
        at = dsa.arange(0, M)[:, None] * N + n[None, :]
        dsa.store(y + at, micro(dsa.load(x + at), dsa.load(weight + n)))

    return dsa.jit(kernel)


def _points(template: Any) -> int:
    """Points of a vector instruction, 0 for any other."""
    fields = template.instruction.fields
    if template.instruction.engine.name != "VE" or "size" not in fields:
        return 0
    return int(np.prod(fields["size"][: fields["ndim"]]))


EXERCISES: dict[str, Exercise] = {
    e.number: e
    for e in (
        Exercise(
            "01",
            "scaled_add",
            "x, y, out, alpha, n, BLOCK",
            "out = alpha * x + y",
            _check_scaled_add,
        ),
        Exercise(
            "02",
            "log_softmax",
            "x, out, stride, columns, BLOCK",
            "log softmax per row, one pass",
            _check_log_softmax,
        ),
        Exercise(
            "03",
            "matmul_nt",
            "a, b, c, M, N, K, BM, BN, BK",
            "C = A·Bᵀ with B stored [N, K]",
            _check_matmul_nt,
        ),
        Exercise(
            "04",
            "linear_silu",
            "x, w, bias, residual, y, M, N, K, BM, BN, BK",
            "y = silu(x @ w + bias) + residual",
            _check_linear_silu,
        ),
        Exercise(
            "05", "mlp_steps", "x, w, y, STEPS, D", "x = relu(x @ w), STEPS times", _check_mlp_steps
        ),
        Exercise(
            "06",
            "decode_one",
            "q, k, v, out, length, HEAD, BLOCK",
            "attention of one query over a cache",
            _check_decode_one,
        ),
        Exercise("07", "rms_norm", "", "a microkernel: x * weight / rms(x)", _check_rms_norm),
    )
}
