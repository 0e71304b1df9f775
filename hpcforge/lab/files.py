"""Writing files so that a crash leaves the old or the new one."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, text: str, mode: int = 0o600) -> None:
    """Replace a file; its mode holds from its first byte on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "w") as file:
        os.fchmod(handle, mode)  # whatever the umask
        file.write(text)
        file.flush()
        os.fsync(handle)
    temporary.rename(path)


def write_new(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file of a tree that nobody uses yet, in place of what was there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # never through a symbolic link of the tree into the host
    path.write_text(text)
    path.chmod(mode)
