"""The command line: which subcommands there are and how errors are shown."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import dsalang
from dsalang._backend.errors import InternalError, UserError

from . import cache, compile, image, targets, tutorials


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="dsa",
        description="Compile, inspect and run tile kernels for domain-specific accelerators.",
    )
    top.add_argument("--version", action="version", version=f"dsalang {dsalang.__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in (compile, image, targets, cache, tutorials):
        module.add_to(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line. Returns 0, 1 for a user's error, 70 for a bug of ours; wrong usage exits with 2."""
    options = parser().parse_args(argv)
    try:
        return int(options.run(options))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except InternalError as error:
        print(f"internal error: {error}", file=sys.stderr)
        return 70
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
