"""hpcforge's command line without a process of its own: starting one costs a second of CPU time."""

from __future__ import annotations

import contextlib
import io
import subprocess
from pathlib import Path

from hpcforge.cli import run

ROOT = Path(__file__).parents[2]


def hpcforge(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a verb that reaches no node, in the repository's root."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(list(arguments))
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())
