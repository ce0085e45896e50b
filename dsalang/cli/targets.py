"""`dsa targets`: the machines there are."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from dsalang._backend.target import Target
from dsalang._jit.machine import resolve

from .compile import Commands


def add_to(commands: Commands) -> None:
    """Add the subcommand."""
    p = commands.add_parser("targets", help="list the targets, or the figures of one")
    p.add_argument("target", nargs="?", help="a target's name or file: show all its figures")
    p.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print a table of targets, or the keys of one."""
    if options.target:
        for key, value in _figures(dataclasses.asdict(resolve(options.target)), ""):
            print(f"{key} = {value}")
        return 0
    table = Table(box=None, pad_edge=False)
    for head in ("name", "cores", "clock", "SRAM per core", "HBM", "description"):
        table.add_column(head, justify="left" if head in ("name", "description") else "right")
    for name in Target.shipped():
        t = Target.by_name(name)
        table.add_row(
            name,
            str(t.cores),
            f"{t.clock_mhz} MHz",
            f"{t.sram_bytes / 2**20:.4g} MiB"
            if t.sram_bytes >= 2**20
            else f"{t.sram_bytes / 2**10:g} KiB",
            f"{t.hbm.bytes_per_second / 1e9:g} GB/s",
            t.description,
        )
    Console().print(table)
    return 0


def _figures(data: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _figures(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
