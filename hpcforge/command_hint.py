"""The command line of this program, for hints with the next command."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path


def command_line(*words: object, **options: object) -> str:
    """Return a command line of this program, ready to paste: its words, and options by their names.

    `command_line("apply", path, limit=["w1", "w2"], yes=True)`; options that are None, False or empty are omitted.
    """
    rest = [str(word) for word in words]
    for name, value in options.items():
        rest += _option(f"--{name.replace('_', '-')}", value)
    return f"{_program()} {shlex.join(rest)}"


def from_here(path: Path) -> Path:
    """Return a path as typed in the current folder."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _option(name: str, value: object) -> Iterator[str]:
    for argument in value if isinstance(value, list | tuple) else [value]:
        if argument is True:
            yield name
        elif argument is not None and argument is not False:
            yield name
            yield str(argument)


def _program() -> str:
    """Return `hpcforge` if the shell finds this program under that name, else the path that was called."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m hpcforge"
    path = shutil.which(called.name)
    return shlex.quote(called.name if path and Path(path).resolve() == called.resolve() else sys.argv[0])
