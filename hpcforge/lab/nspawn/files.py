"""Writing files of trees that are being made."""

from __future__ import annotations

from pathlib import Path


def write_new(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file of an unused tree, in place of the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # never through a symbolic link of the tree into the host
    path.write_text(text)
    path.chmod(mode)
