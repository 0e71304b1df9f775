"""The file of a site from which `hpcforge init` takes machines, and the files beside it that it names."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from hpcforge.blueprint.untrusted_files import read_named
from hpcforge.cluster.separated_values import CellError, decode
from hpcforge.errors import UsageError
from hpcforge.starter.machines import LeftOut, SiteFile, StarterError
from hpcforge.starter.readers import Source, read

_MOST_BYTES = 4 * 1024 * 1024  # size of a file with machines
_MOST_NAMES = 20  # names in a folder beside it


def read_site(file: Path, source: Source | None) -> SiteFile:
    """Read a file of a site. Raises `StarterError` and `UsageError`."""
    try:
        return read(_text(file), source, partial(_read_sibling, file.parent))
    except StarterError as error:
        raise StarterError(f"{file}: {error}", error.hint or "correct the file, or name another") from error


def place_of(file: Path, left_out: LeftOut) -> str:
    """Return the place of an omitted part of a file."""
    place = file.parent / left_out.file if left_out.file else file
    return f"{place}:{left_out.line}" if left_out.line else str(place)


def _read_sibling(folder: Path, name: str) -> str | None:
    """Return the text of a file below a folder, or the names in a folder there; None for any other."""
    path = folder / name
    if name.endswith("/") and Path(name).name == name[:-1]:
        names = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else None
        return None if names is None else " ".join(names[:_MOST_NAMES])
    expected = Path(os.path.realpath(folder)) / name  # links above the folder belong to the user
    try:
        below = (
            ".." not in path.parts[len(folder.parts) :] and path.is_file() and Path(os.path.realpath(path)) == expected
        )
    except (OSError, ValueError):
        return None
    return _text(path) if below else None


def _text(path: Path) -> str:
    try:
        return decode(read_named(path, _MOST_BYTES))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "name a file that you can read") from error
    except CellError as error:
        place = f"{path}:{error.mark.line}:{error.mark.column}"
        raise UsageError(f"{place}: {error}", "save it as UTF-8, with an editor or iconv") from error
