"""How to call this program again, for the lines that say what to type next."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def program() -> str:
    """`hpcforge` where the shell finds this very program under that name, else as it was called."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{sys.executable} -m hpcforge"
    found = shutil.which(called.name)
    return called.name if found and Path(found).resolve() == called.resolve() else sys.argv[0]
