"""The files of public keys that a blueprint's users name: their lines, and what is wrong with one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic_core import PydanticCustomError

from hpcforge.blueprint.diagnostics import quote
from hpcforge.blueprint.public_keys import is_path, public_key
from hpcforge.blueprint.schema import UserSection

_MAX_BYTES = 64 << 10
_RELATIVE = "a path is relative to the blueprint"


def key_lines(user: UserSection, folder: Path) -> tuple[str, ...]:
    """A user's public key lines, those of files in place of their paths."""
    return tuple(line for key in user.keys for line in (_lines(folder / key) if is_path(key) else (key,)))


def _lines(path: Path) -> list[str]:
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def key_file_problems(path: Path) -> Iterator[tuple[str, str | None]]:
    """Yield what is wrong with a file of public keys; never its content, which may be a private key."""
    name = quote(path.name)
    try:
        if not path.exists():
            yield (
                f"there is no file {name} there",
                f"{_RELATIVE}; looked for as {path}; or write the key here",
            )
            return
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            yield f"{name} does not contain public keys", f"{_RELATIVE}; or write the key here"
            return
        lines = _lines(path)
    except (OSError, UnicodeDecodeError) as error:
        yield f"{name} cannot be read: {error.strerror if isinstance(error, OSError) else 'it is not text'}", None
        return
    if not lines:
        yield f"{name} has no key in it", None
    for line in lines:
        try:
            public_key(line)
        except PydanticCustomError as error:
            yield f"a line of {name} {error.message()}", (error.context or {}).get("hint")
            return
