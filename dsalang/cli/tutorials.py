"""`dsa demo` and `dsa exercise`."""

from __future__ import annotations

import argparse
from pathlib import Path

from .compile import Commands


def add_to(commands: Commands) -> None:
    """Add the subcommands."""
    demo = commands.add_parser("demo", help="compile and run a fused linear layer, with a report")
    demo.add_argument("--target", default="edge", help="a target's name or file (default: edge)")
    demo.add_argument("-o", "--output", type=Path, help="where to write the timeline")
    demo.set_defaults(run=_demo)
    exercise = commands.add_parser("exercise", help="check an answer to a tutorial's exercise")
    exercise.add_argument("number", help="the tutorial's number, e.g. 01")
    exercise.add_argument("answer", type=Path, help="a Python file that defines the answer")
    exercise.set_defaults(run=_exercise)


def _demo(options: argparse.Namespace) -> int:
    from dsalang.demo import main

    return main(options.target, options.output)


def _exercise(options: argparse.Namespace) -> int:
    from dsalang.exercises import run_exercise

    print(run_exercise(options.number, options.answer))
    return 0
