"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> Path:
    """Write a file by a rename, so that a killed process or a full disk leaves the old one or none.

    Raises OSError when the place cannot be written.
    """
    # Processes of several containers may share the folder, and the numbers of processes and threads.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(6).hex()}.tmp")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
