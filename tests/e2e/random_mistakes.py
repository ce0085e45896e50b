"""Random mistakes: valid kernels with a few tokens changed must compile and run, or end in a UserError.

`python tests/e2e/random_mistakes.py --seconds 600 --seed 1` runs for long.
"""

from __future__ import annotations

import argparse
import io
import keyword
import signal
import sys
import time
import tokenize
import traceback
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from types import FrameType

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.random_model import RandomKernel
from e2e.random_runs import copy_of, data_of, defined, launch_of, signature_of
from e2e.random_text import write_kernel

from dsalang._backend.errors import CompileError, LaunchError, UserError
from dsalang._backend.target import Target
from dsalang._runtime.reference.options import Options

NUMBERS = (
    "0",
    "1",
    "-1",
    "3",
    "64",
    "1.5",
    "True",
    "None",
    "1 << 40",
    "'text'",
    "10 ** 6",
    "(1, 2)",
    "float('inf')",
)
OPERATORS = (
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "&",
    "|",
    "^",
    "<<",
    ">>",
    "<",
    "==",
    "@",
    "**",
    ",",
    "and",
    "in",
    "is",
)
NAMES = (
    "n",
    "m",
    "scale",
    "p0",
    "p1",
    "bins",
    "tl",
    "dsa",
    "pid",
    "nowhere",
    "tl.int8",
    "tl.float64",
    "k",
    "len",
)
CALLS = ("load", "store", "sum", "max", "argmin", "arange", "full", "dot", "trans", "cumsum", "exp", "clamp",
         "where", "zeros", "permute", "reshape", "broadcast_to", "atomic_add", "atomic_cas", "cdiv", "program_id",
         "static_assert", "softmax", "expand_dims", "sort", "int32", "float8e5", "range", "constexpr")  # fmt: skip
LINES = ("break", "continue", "return", "return n", "x = y = n", "del n", "n.x = 3", "p0[0] = 1", "while n: n -= 1",
         "n = 'a'", "n = p0", "assert n", "tl.static_assert(n > 0)", "tl.device_assert(n < 100)", "import os",
         "[i for i in range(3)]", "lambda: 1", "print(n)", "tl.device_print('n', n)", "n: tl.int64 = 3", "n += 1.5",
         "pid, n = n, p0", "raise ValueError", "yield n", "with n: pass", "n = k(n)", "async def f(): pass",
         "tl.store(p0, tl.load(p0 + tl.arange(0, 4)))", "x = tl.zeros((4096, 4096), tl.float32)",
         "for i in 3: pass", "for n in range(m): pass", "n = (n, n)", "n = n if n else p0", "n = n @ n")  # fmt: skip


def mutate(kernel: RandomKernel, rng: Random) -> RandomKernel:
    """The kernel with one to three changes."""
    for _ in range(8):
        text = kernel.text
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            text = _change(text, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                compile(text, "kernel", "exec")
            except (SyntaxError, ValueError):
                continue
        return replace(kernel, text=text)
    return kernel


def _change(text: str, rng: Random) -> str:
    if rng.random() < 0.2:
        lines = text.splitlines()
        first = next(i for i, line in enumerate(lines) if line.startswith("def k"))
        at = rng.randrange(first + 1, len(lines) + 1)
        after = lines[at - 1]
        indent = after[: len(after) - len(after.lstrip())] or "    "
        if after.endswith(":"):
            indent += "    "
        lines.insert(at, indent + rng.choice(LINES))
        return "\n".join(lines) + "\n"
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return text
    start = text[: text.index("def k")].count("\n") + 1
    kinds = (tokenize.NAME, tokenize.NUMBER, tokenize.OP)
    usable = [t for t in tokens if t.type in kinds and t.start[0] > start]
    token = rng.choice(usable)
    if token.type == tokenize.NUMBER:
        new = rng.choice(NUMBERS)
    elif token.type == tokenize.OP:
        new = (
            rng.choice(OPERATORS)
            if token.string in OPERATORS
            else rng.choice(["", ",", token.string])
        )
    elif keyword.iskeyword(token.string):
        new = rng.choice(["not", "if", "and", "None", ""])
    elif rng.random() < 0.5:
        new = rng.choice(CALLS)
    else:
        new = rng.choice([*NAMES, *(t.string for t in usable if t.type == tokenize.NAME)])
    lines = text.splitlines(True)
    row, column = token.start
    line = lines[row - 1]
    lines[row - 1] = line[:column] + new + line[token.end[1] :]
    return "".join(lines)


def check_mistake(kernel: RandomKernel, seed: int) -> str:
    """Compile and run; a word for how it ended. Raises whatever is neither success nor a UserError with a place."""
    arrays = copy_of(kernel, data_of(kernel, seed))
    target = Target.by_name("edge")
    try:
        with defined(kernel.text) as function, np.errstate(all="ignore"):
            launch = launch_of(function, kernel, arrays)
            image = launch.image(target)
            launch.run(
                image,
                target,
                Options(timeline=False, max_cycles=3_000_000, write=lambda line: None),
            )
    except CompileError as error:
        assert error.loc is not None, f"no place: {error}"
        assert error.loc.excerpt(), f"no excerpt: {error}"
        return "refused"
    except LaunchError:
        return "launch"
    except UserError:
        return "stopped"
    except NameError as error:  # the decorator's line, run by Python itself
        if "__main__" in str(error):
            raise
        frame = traceback.extract_tb(error.__traceback__)[-1]
        assert frame.filename.endswith("random_kernel.py"), error
        return "python"
    return "ran"


class TooSlowError(Exception):
    """A kernel took too long to compile or run."""


def _alarm(number: int, frame: FrameType | None) -> None:
    raise TooSlowError(f"too slow, in {frame.f_code.co_filename if frame else ''}")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, default=None)
    options = parser.parse_args()
    if options.only is not None:
        rng = Random(options.only)
        kernel = mutate(write_kernel(rng), rng)
        print(kernel.text)
        print(check_mistake(kernel, options.only))
        return 0
    signal.signal(signal.SIGALRM, _alarm)
    end, seed = time.monotonic() + options.seconds, options.seed
    words: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    while time.monotonic() < end:
        rng = Random(seed)
        kernel = mutate(write_kernel(rng), rng)
        signal.alarm(90)
        try:
            words[check_mistake(kernel, seed)] += 1
        except Exception as error:
            failures[signature_of(error)] += 1
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:600]}", flush=True)
        signal.alarm(0)
        seed += 1
    print(f"{seed - options.seed} kernels from seed {options.seed}: {dict(words)}")
    for key, count in failures.most_common():
        print(f"{count:5d} {key}")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
