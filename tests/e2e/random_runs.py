"""Runs a random kernel by the interpreter and on the reference engine, and compares."""

from __future__ import annotations

import linecache
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
from e2e.random_model import PER, SPAN, RandomKernel
from numpy.typing import NDArray

from dsalang._backend.errors import DeviceError, InternalError, SramOverflowError
from dsalang._backend.image.model import Image
from dsalang._backend.passes.check import hazards_of
from dsalang._backend.passes.check_deletion import pairs_of
from dsalang._backend.passes.check_program import build
from dsalang._backend.passes.lower import lower
from dsalang._backend.pipeline import run_passes
from dsalang._backend.target import Hbm, Target
from dsalang._jit.arguments import bind, classify
from dsalang._jit.compiled import compile_kernel, tile_ir
from dsalang._jit.launch import argument_bits, memory_of, run_interpreted
from dsalang._jit.specialize import specialize
from dsalang._runtime.fast.engine import Options as FastOptions
from dsalang._runtime.fast.engine import Program
from dsalang._runtime.fast.outline import UnsuitedError
from dsalang._runtime.reference.engine import run
from dsalang._runtime.reference.options import Options

NUMPY = {
    "float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16,
    "float8e4nv": ml_dtypes.float8_e4m3fn, "float8e5": ml_dtypes.float8_e5m2, "float64": np.float64,
}  # fmt: skip
Arrays = dict[str, NDArray[Any]]


class MismatchError(AssertionError):
    """Two runs of a kernel differ."""


def data_of(kernel: RandomKernel, seed: int) -> Arrays:
    """Arrays by parameter: small numbers, some special ones."""
    rng = np.random.default_rng(seed)
    found: Arrays = {}
    for array in kernel.arrays:
        size = PER * kernel.programs
        kind = np.dtype(NUMPY.get(array.dtype, array.dtype))
        if array.kind == "f":
            values = (rng.integers(-20, 20, size) / 4).astype(kind)
            if rng.random() < 0.2:
                values[rng.integers(0, size, 8)] = np.array(
                    [np.nan, np.inf, -np.inf, 0] * 2
                ).astype(kind)
        else:
            low = 0 if array.dtype[0] == "u" else -12
            values = rng.integers(low, 20, size).astype(kind)
        found[array.name] = values
    for first, second, start in kernel.aliases:
        found[second] = found[first][start:]
    found["apx"] = np.zeros(PER * kernel.programs, np.float32)
    found["perm"] = rng.permutation(SPAN).astype(np.int32)
    found["bins"] = rng.integers(0, 50, 192).astype(np.int32)
    return found


def copy_of(kernel: RandomKernel, arrays: Arrays) -> Arrays:
    """New arrays of the same contents that overlap in the same way."""
    found = {name: array.copy() for name, array in arrays.items()}
    for first, second, start in kernel.aliases:
        found[second] = found[first][start:]
    return found


@contextmanager
def defined(text: str) -> Iterator[Any]:
    """The jitted kernel `k` of a module's text, in a file while the block runs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random_kernel.py"
        path.write_text(text)
        scope: dict[str, Any] = {"__name__": "random_kernel"}
        exec(compile(text, str(path), "exec"), scope)
        yield scope["k"]
        linecache.checkcache(str(path))


@dataclass
class Launch:
    """A kernel with its arguments sorted, ready to compile for a target."""

    source: Any
    spec: Any
    arguments: Any
    grid: tuple[int, int, int]

    def image(self, target: Target) -> Image:
        return compile_kernel(self.source, self.spec, target)

    def run(self, image: Image, target: Target, options: Options) -> int:
        """Run on the reference engine; gives the cycles."""
        values = [argument_bits(self.arguments, argument.name) for argument in image.arguments]
        memory = memory_of(self.arguments)
        return run(image, target, values, self.grid, memory, options).cycles

    def run_fast(self, image: Image, target: Target) -> int | None:
        """Run on the fast engine; gives the cycles, None where it does not take the image."""
        values = [argument_bits(self.arguments, argument.name) for argument in image.arguments]
        try:
            program = Program(image, target, None, "", True)
        except UnsuitedError:
            return None
        memory = memory_of(self.arguments)
        return program.launch(tuple(values), self.grid, memory, FastOptions()).run().cycles


def launch_of(function: Any, kernel: RandomKernel, arrays: Arrays) -> Launch:
    """Bind arrays and the kernel's scalars to its parameters."""
    bound = bind(function.source, (), {**arrays, **kernel.scalars, **kernel.constants})
    arguments = classify(function.source, bound)
    x, y, z = (*kernel.grid, 1, 1)[:3]
    return Launch(function.source, specialize(arguments, bound), arguments, (x, y, z))


def tiny_target(rng: Random) -> Target:
    """A small and slow machine: little SRAM, few semaphores, shallow queues, long latency."""
    return replace(
        Target.by_name("edge"), name="tiny", cores=rng.choice([1, 3]),
        sram_bytes=rng.choice([24, 64, 256]) * 1024, sram_align_bytes=rng.choice([8, 32]),
        queue_depth=rng.choice([1, 2, 5]), semaphores=rng.choice([2, 3, 5, 12]),
        semaphore_max=rng.choice([1, 2, 15]), hbm=Hbm(16_000_000_000, rng.choice([0, 3000]), 32),
    )  # fmt: skip


def check_same(want: Arrays, got: Arrays, what: str) -> None:
    """Exact values, NaN equal to NaN; `apx` within a tolerance."""
    for name, expected in want.items():
        found = got[name]
        if expected.dtype.kind in "iub":
            same = expected == found
        else:
            with np.errstate(all="ignore"):
                a, b = expected.astype(np.float64), found.astype(np.float64)
                same = (a == b) | (np.isnan(a) & np.isnan(b))
                if name == "apx":
                    same |= np.abs(a - b) <= 1e-5 * np.maximum(1, np.abs(a))
        bad = np.flatnonzero(~same)
        if bad.size:
            shown = ", ".join(f"[{i}] {expected[i]} != {found[i]}" for i in bad[:4])
            raise MismatchError(f"{what}: {name} ({expected.dtype}) differs in {bad.size}: {shown}")


def same_bits(want: Arrays, got: Arrays, what: str) -> None:
    """Every byte equal."""
    for name in want:
        if want[name].tobytes() != got[name].tobytes():
            raise MismatchError(f"{what}: the bits of {name} differ")


def check_kernel(kernel: RandomKernel, seed: int, stats: dict[str, int] | None = None) -> None:
    """Interpreter against engine on several machines, with and without random delays.

    Raises AssertionError or whatever goes wrong.
    """
    stats = stats if stats is not None else {}
    rng = Random(seed)
    arrays = data_of(kernel, seed)
    with defined(kernel.text) as function, np.errstate(all="ignore"):
        expected = copy_of(kernel, arrays)
        launch = launch_of(function, kernel, expected)
        run_interpreted(launch.source, launch.spec, launch.arguments, launch.grid)
        other = Target.by_name("center") if kernel.programs > 1 and rng.random() < 0.4 else None
        machines = [Target.by_name("edge"), other or tiny_target(rng)]
        plain: Arrays | None = None
        for target in machines:
            got = copy_of(kernel, arrays)
            launch = launch_of(function, kernel, got)
            try:
                image = launch.image(target)
            except SramOverflowError:
                stats["overflow"] = stats.get("overflow", 0) + 1
                continue
            cycles = launch.run(image, target, Options(timeline=False))
            check_same(expected, got, f"{target.name} against the interpreter")
            if plain is None:
                plain = got
            same_bits(plain, got, f"{target.name} against {machines[0].name}")
            fast = copy_of(kernel, arrays)
            found = launch_of(function, kernel, fast).run_fast(image, target)
            if found is not None:
                same_bits(plain, fast, f"{target.name}, fast engine")
                if found != cycles:
                    raise MismatchError(f"{target.name}: fast engine {found}, not {cycles} cycles")
            again = copy_of(kernel, arrays)
            launch = launch_of(function, kernel, again)
            launch.run(image, target, Options(timeline=False, adversarial_seed=seed & 0xFFFF))
            same_bits(plain, again, f"{target.name} with delays")
            stats["runs"] = stats.get("runs", 0) + 1


def check_deletions(kernel: RandomKernel, seed: int, samples: int = 2) -> list[str]:
    """Delete set/wait pairs: what the engine notices, the static checker has reported.

    Returns a word for each: caught, noticed (also by the engine) or redundant.
    """
    rng = Random(seed)
    target = Target.by_name("edge")
    words = []
    arrays = data_of(kernel, seed)
    with defined(kernel.text) as function, np.errstate(all="ignore"):
        plain = copy_of(kernel, arrays)
        launch = launch_of(function, kernel, plain)
        launch.run(launch.image(target), target, Options(timeline=False))
        for _ in range(samples):
            module = tile_ir(launch.source, launch.spec)
            run_passes(module, target)
            program = build(module, target)
            units = pairs_of(program, target)
            if not units:
                return words
            unit = rng.choice(units)
            caught = bool(hazards_of(program, target, unit))
            for signal in unit:
                signal.op.detach()
            image = lower(module, target)
            word = "caught" if caught else "redundant"
            for delay in (None, seed & 0xFFFF, (seed & 0xFFFF) + 1):
                got = copy_of(kernel, arrays)
                trial = launch_of(function, kernel, got)
                try:
                    trial.run(image, target, Options(timeline=False, adversarial_seed=delay))
                    same_bits(plain, got, "without a pair")
                except (DeviceError, MismatchError, InternalError) as error:
                    if not caught:
                        raise MismatchError(
                            f"the checker missed a deleted pair: {error}"
                        ) from error
                    word = "noticed"
                    break
            words.append(word)
    return words


def signature_of(error: BaseException) -> str:
    """What is the same for failures of one cause, roughly."""
    text = f"{type(error).__name__}: {error}"
    text = re.sub(r"\S*random_kernel\.py:\d+:\d+", "", text)
    return re.sub(r"\d+", "#", text)[:110]
