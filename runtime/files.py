"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from dsalang._backend.errors import LaunchError


def write_for_user(path: str | Path, data: bytes, what: str) -> Path:
    """Write a file that the user has named, and the folders to it. Raises LaunchError when that cannot be done."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return write_atomically(path, data)
    except OSError as error:
        reason = "it is a folder" if path.is_dir() else (error.strerror or str(error))
        raise LaunchError(
            f"cannot write {what} to {path}: {reason}",
            hint="pass the path of a file in a folder that can be written",
        ) from None


def write_atomically(path: str | Path, data: bytes) -> Path:
    """Write a file by a rename, so that a killed process or a full disk leaves the old one or none.

    Raises OSError when the place cannot be written.
    """
    # Without pathlib, whose objects take longer to make than the system calls.
    folder, name = os.path.split(path)
    # Processes of several containers may share the folder, and the numbers of processes and threads.
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.{os.urandom(6).hex()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    return Path(path)
