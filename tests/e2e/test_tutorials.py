"""The tutorials run as a reader runs them, and the exercises' checkers tell right answers from wrong ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dsalang.exercises import EXERCISES, ExerciseError, run_exercise

TUTORIALS = Path(__file__).resolve().parents[2] / "tutorials"

ANSWERS = {
    "01": """
        import dsalang as dsa
        @dsa.jit
        def scaled_add(x, y, out, alpha, n, BLOCK: dsa.constexpr):
            offs = dsa.program_id(0) * BLOCK + dsa.arange(0, BLOCK)
            keep = offs < n
            z = alpha * dsa.load(x + offs, mask=keep) + dsa.load(y + offs, mask=keep)
            dsa.store(out + offs, z, mask=keep)
        """,
    "02": """
        import dsalang as dsa
        @dsa.jit
        def log_softmax(x, out, stride, columns, BLOCK: dsa.constexpr):
            row = dsa.program_id(0)
            cols = dsa.arange(0, BLOCK)
            keep = cols < columns
            z = dsa.load(x + row * stride + cols, mask=keep, other=-float("inf"))
            z = z - dsa.max(z, axis=0)
            dsa.store(out + row * stride + cols, z - dsa.log(dsa.sum(dsa.exp(z), axis=0)), mask=keep)
        """,
    "03": """
        import dsalang as dsa
        @dsa.jit
        def matmul_nt(a, b, c, M, N, K, BM: dsa.constexpr, BN: dsa.constexpr, BK: dsa.constexpr):
            m = dsa.program_id(0) * BM + dsa.arange(0, BM)
            n = dsa.program_id(1) * BN + dsa.arange(0, BN)
            acc = dsa.zeros((BM, BN), dsa.float32)
            for k0 in range(0, K, BK):
                k = k0 + dsa.arange(0, BK)
                x = dsa.load(a + m[:, None] * K + k[None, :],
                             mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
                y = dsa.load(b + n[:, None] * K + k[None, :],
                             mask=(n[:, None] < N) & (k[None, :] < K), other=0.0)
                acc = dsa.dot(x, dsa.trans(y), acc)
            dsa.store(c + m[:, None] * N + n[None, :], acc.to(dsa.float16),
                      mask=(m[:, None] < M) & (n[None, :] < N))
        """,
    "04": """
        import dsalang as dsa
        @dsa.jit
        def linear_silu(x, w, bias, residual, y, M, N, K,
                        BM: dsa.constexpr, BN: dsa.constexpr, BK: dsa.constexpr):
            m = dsa.program_id(0) * BM + dsa.arange(0, BM)
            n = dsa.program_id(1) * BN + dsa.arange(0, BN)
            acc = dsa.zeros((BM, BN), dsa.float32)
            for k0 in range(0, K, BK):
                k = k0 + dsa.arange(0, BK)
                a = dsa.load(x + m[:, None] * K + k[None, :],
                             mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
                b = dsa.load(w + k[:, None] * N + n[None, :],
                             mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
                acc = dsa.dot(a, b, acc)
            z = acc + dsa.load(bias + n, mask=n < N, other=0.0).to(dsa.float32)[None, :]
            keep = (m[:, None] < M) & (n[None, :] < N)
            at = m[:, None] * N + n[None, :]
            r = dsa.load(residual + at, mask=keep, other=0.0).to(dsa.float32)
            dsa.store(y + at, (z * dsa.sigmoid(z) + r).to(dsa.float16), mask=keep)
        """,
    "05": """
        import dsalang as dsa
        @dsa.jit
        def mlp_steps(x, w, y, STEPS: dsa.constexpr, D: dsa.constexpr):
            d = dsa.arange(0, D)
            row = dsa.load(x + d)[None, :]
            for _ in range(STEPS):
                tile = dsa.load(w + d[:, None] * D + d[None, :])
                row = dsa.maximum(dsa.dot(row, tile), 0.0).to(dsa.float16)
            dsa.store(y + d[None, :], row)
        """,
    "06": """
        import dsalang as dsa
        @dsa.jit
        def decode_one(q, k, v, out, length, HEAD: dsa.constexpr, BLOCK: dsa.constexpr):
            d, n = dsa.arange(0, HEAD), dsa.arange(0, BLOCK)
            query = dsa.load(q + d)[None, :]
            top = dsa.full((1,), -float("inf"), dsa.float32)
            total = dsa.zeros((1,), dsa.float32)
            acc = dsa.zeros((1, HEAD), dsa.float32)
            for start in range(0, length, BLOCK):
                rows = start + n
                keep = rows < length
                at = rows[:, None] * HEAD + d[None, :]
                scores = dsa.dot(query, dsa.trans(dsa.load(k + at, mask=keep[:, None], other=0.0)))
                scores = dsa.where(keep[None, :], scores * HEAD ** -0.5, -1e30)
                new_top = dsa.maximum(top, dsa.max(scores, 1))
                p = dsa.exp(scores - new_top[:, None])
                shrink = dsa.exp(top - new_top)
                total = total * shrink + dsa.sum(p, 1)
                values = dsa.load(v + at, mask=keep[:, None], other=0.0)
                acc = dsa.dot(p.to(dsa.float16), values, acc * shrink[:, None])
                top = new_top
            dsa.store(out + d[None, :], acc / total[:, None])
        """,
    "07": """
        import numpy as np
        import dsalang as dsa
        def reference(x, weight):
            return x * weight / np.sqrt((x * x).mean(1, keepdims=True))
        @dsa.microkernel(reference=reference, results=lambda x, weight: x)
        def rms_norm(k, x, weight):
            rows, n = x.shape
            squares = k.scratch((rows, n), "fp32")
            sums = k.scratch((rows,), "fp32")
            k.vector(squares, lambda v, a: a * a, x)
            k.reduce(sums, squares, "fsum", 1)
            k.vector(sums, lambda v, s: v.frsqrt(s * (1 / n)), sums)
            k.vector(k.result, lambda v, a, s, w: a * s * w, x, sums[:, None], weight)
        """,
}

WRONG = {
    "01": ("alpha * dsa.load", "dsa.load", "element"),
    "02": ("dsa.log(dsa.sum", "(dsa.sum", "element"),
    "03": ("dsa.trans(y), acc)", "dsa.trans(y))", "element"),
    "04": ("acc + dsa.load(bias", "acc - dsa.load(bias", "element"),
    "05": ("dsa.dot(row, tile), 0.0)", "dsa.dot(row, tile), -9.0)", "element"),
    "06": ("scores * HEAD ** -0.5", "scores", "element"),
    "07": ("s * (1 / n)", "s * (2 / n)", "does not compute its reference"),
}


@pytest.mark.parametrize("path", sorted(TUTORIALS.glob("[0-9]*.py")), ids=lambda p: p.stem)
def test_tutorial_runs(path: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "DSA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, path], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def answer(folder: Path, text: str) -> Path:
    path = folder / "answer.py"
    lines = text.strip("\n").split("\n")
    path.write_text("\n".join(line.removeprefix("        ") for line in lines))
    return path


@pytest.mark.parametrize("number", EXERCISES)
def test_right_answers_pass(number: str, tmp_path: Path) -> None:
    assert run_exercise(number, answer(tmp_path, ANSWERS[number])).startswith("right for")


@pytest.mark.parametrize("number", EXERCISES)
def test_wrong_answers_are_told(number: str, tmp_path: Path) -> None:
    right, wrong, message = WRONG[number]
    assert right in ANSWERS[number]
    path = answer(tmp_path, ANSWERS[number].replace(right, wrong))
    with pytest.raises(ExerciseError, match=message):
        run_exercise(number, path)


def test_unmasked_stores_and_extra_traffic_are_told(tmp_path: Path) -> None:
    unmasked = ANSWERS["01"].replace("z, mask=keep)", "z)")
    with pytest.raises(Exception, match=r"out of bounds|outside"):
        run_exercise("01", answer(tmp_path, unmasked))
    twice = ANSWERS["02"].replace(
        "z = z - dsa.max(z, axis=0)",
        "dsa.store(out + row * stride + cols, z, mask=keep)\n"
        "            z = z - dsa.max(z, axis=0)",
    )
    with pytest.raises(ExerciseError, match="bytes went through HBM"):
        run_exercise("02", answer(tmp_path, twice))


def test_answers_that_cannot_be_called_are_told(tmp_path: Path) -> None:
    with pytest.raises(ExerciseError, match="scaled_add is not a kernel"):
        run_exercise("01", answer(tmp_path, ANSWERS["01"].replace("@dsa.jit", "")))
    fewer = ANSWERS["01"].replace("alpha, ", "").replace("alpha * ", "")
    with pytest.raises(ExerciseError, match=r"takes \(x, y, out, n, BLOCK\)"):
        run_exercise("01", answer(tmp_path, fewer))


def test_unknown_exercise_and_missing_answer(tmp_path: Path) -> None:
    with pytest.raises(ExerciseError, match="no exercise '99'"):
        run_exercise("99", tmp_path / "x.py")
    with pytest.raises(ExerciseError, match="no such file"):
        run_exercise("01", tmp_path / "x.py")
    (tmp_path / "x.py").write_text("scaled = 1\n")
    with pytest.raises(ExerciseError, match="does not define scaled_add"):
        run_exercise("01", tmp_path / "x.py")
