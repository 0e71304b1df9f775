"""Pages and lists that a command writes for people."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from hpcforge.atomic import rewrite
from hpcforge.report import printing


def write_page(path: Path, text: str) -> None:
    """Replace a file as a whole, and name it. Raises `OSError`, also where its folder is missing."""
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    rewrite(path, text)
    printing.note(f"written: {path}\n")
