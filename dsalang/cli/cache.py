"""`dsa cache`: the folder of compiled kernels."""

from __future__ import annotations

import argparse

from dsalang._jit.folder import cache_folder
from dsalang._jit.knobs import CACHE_MAX_BYTES
from dsalang._runtime.cache import Cache

from .compile import Commands


def add_to(commands: Commands) -> None:
    """Add the subcommand."""
    p = commands.add_parser("cache", help="show or empty the cache of compiled kernels")
    actions = p.add_subparsers(title="actions", metavar="ACTION", required=True)
    info = actions.add_parser("info", help="folder, number and size of entries")
    info.set_defaults(run=show)
    clear = actions.add_parser("clear", help="delete all entries")
    clear.set_defaults(run=empty)


def show(options: argparse.Namespace) -> int:
    """Print what the cache holds."""
    found = Cache(cache_folder()).info()
    limit = CACHE_MAX_BYTES.get()
    print(
        f"folder   {found.folder}\nentries  {found.entries}\nbytes    {found.bytes} of {limit} at most"
    )
    return 0


def empty(options: argparse.Namespace) -> int:
    """Delete the entries."""
    folder = cache_folder()
    print(f"deleted {Cache(folder).clear()} entries in {folder}")
    return 0
