"""The version of the compiler as far as code depends on it: a hash of its own files."""

from __future__ import annotations

import hashlib
import sys
from functools import lru_cache
from pathlib import Path

from dsalang._runtime.installed import version_of

LIBRARIES = ("llvmlite", "xdsl")
"""Packages whose version changes code."""


@lru_cache(maxsize=1)
def compiler_version() -> str:
    """A hash of the front end's, the compiler's, the runtime's and the targets' files and of the libraries under them.

    By content, not by a version number: editing the compiler must not bring back what the old one made.
    """
    digest = hashlib.sha256(f"python {sys.version_info[:2]}".encode())
    for name in LIBRARIES:
        digest.update(version_of(name).encode())
    for package in ("dsalang._jit", "dsalang._backend", "dsalang._runtime"):
        folder = Path(str(sys.modules[package].__path__[0]))
        for path in sorted(folder.rglob("*.py")):
            digest.update(str(path.relative_to(folder)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
