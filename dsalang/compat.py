"""`install()`: libraries that say `import triton` get this project instead."""

from __future__ import annotations

import sys
from types import ModuleType

from dsalang._backend.errors import LaunchError


def install(force: bool = False) -> ModuleType:
    """Make `import triton` and its submodules mean dsalang in this process, and return that module.

    Args:
        force: also when another Triton has been imported already.

    Raises:
        LaunchError: another Triton has been imported already.
    """
    from .compat_modules import modules

    present = sys.modules.get("triton")
    if present is not None and getattr(present, "__dsalang__", False):
        return present
    if present is not None and not force:
        raise LaunchError(
            "triton has been imported already",
            hint="call dsalang.compat.install() before whatever imports it, or with force=True",
        )
    for name in [n for n in sys.modules if n == "triton" or n.startswith("triton.")]:
        del sys.modules[name]
    made = modules()
    for name, module in made.items():
        sys.modules[name] = module
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(made[parent], last, module)
    return made["triton"]


def uninstall() -> None:
    """Undo `install`: `import triton` finds what is installed."""
    present = sys.modules.get("triton")
    if present is not None and getattr(present, "__dsalang__", False):
        for name in [n for n in sys.modules if n == "triton" or n.startswith("triton.")]:
            del sys.modules[name]
