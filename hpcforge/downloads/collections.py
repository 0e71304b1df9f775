"""Collections of Ansible, unpacked on the operator host beside the archives that they come from.

A folder is named by its archive's SHA-256. Before each use it is compared with that archive, and written again where
it differs. Nothing of an archive counts but regular files below the collection's own folder.

`ansible-galaxy` cannot install from the PyPI package `ansible`, which omits files that each FILES.json lists. It takes
0.4 CPU s a collection, where this takes 0.1, and its `verify` trusts the MANIFEST.json in the folder.
"""

from __future__ import annotations

import json
import os
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO

from hpcforge.downloads.artifacts import FetchError
from hpcforge.locks import folder_lock
from hpcforge.plan.desired import Collection

_LIMIT_BYTES = 256 << 20  # of all files of a collection: the largest of the package `ansible` has 20 MB
_BROKEN = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, ValueError)
Files = dict[str, bytes]  # by path below the collection's own folder


def unpack(collections: Iterable[Collection], folder: Path) -> None:
    """Have each collection in its folder below `folder`, where its archive is under its SHA-256.

    Raises `FetchError` for an archive that is not what role.yaml pins, or that reaches out of its folder.
    """
    wanted = tuple(collections)
    for collection in wanted:
        try:
            files = _read(collection, folder / collection.archive.sha256)
        except OSError as error:
            raise _wrong(collection, str(error.strerror or error)) from error
        except _BROKEN as error:
            raise _wrong(collection, f"it is not a complete archive: {error}") from error
        _check(collection, files, {entry.name for entry in wanted})
        try:
            with folder_lock(folder):
                if _there(_home(folder, collection)) != files:
                    _put(folder, collection, files)
        except OSError as error:
            raise FetchError(
                f"{folder / collection.folder}: {error.strerror or error}",
                "free some space, or set XDG_CACHE_HOME to another folder",
            ) from error


def _home(folder: Path, collection: Collection) -> Path:
    return folder / collection.folder / "ansible_collections" / Path(*collection.name.split("."))


def _wrong(collection: Collection, why: str, hint: str | None = None) -> FetchError:
    return FetchError(
        f"{collection.archive.name}: {why}",
        hint or f"correct the entry {collection.name} under `collections` in role.yaml",
    )


def _read(collection: Collection, archive: Path) -> Files:
    """Return the collection's files. Raises `FetchError`, OSError and what is in `_BROKEN`."""
    files: Files = {}
    left = _LIMIT_BYTES
    for name, size, file in _members(collection, archive):
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
            raise _wrong(collection, f"{name!r} is not a path below the collection's folder")
        content = b"" if size > left else file.read(left + 1)
        left -= max(size, len(content))
        if left < 0:
            raise _wrong(collection, f"{collection.name} has more than {_LIMIT_BYTES} bytes")
        files[str(path)] = content
    return files


def _members(collection: Collection, archive: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    """Yield path, size and content of each file: those of one collection in a wheel, all of a tarball."""
    if collection.archive.source == "pip":
        inside = f"ansible_collections/{collection.name.replace('.', '/')}/"
        with zipfile.ZipFile(archive) as wheel:
            for member in wheel.infolist():
                if member.filename.startswith(inside) and not member.is_dir():
                    with wheel.open(member) as file:
                        yield member.filename.removeprefix(inside), member.file_size, file
        return
    with tarfile.open(archive, "r:gz") as tarball:
        for entry in tarball:
            content = tarball.extractfile(entry) if entry.isreg() else None
            if content is not None:
                yield entry.name, entry.size, content
            elif not entry.isdir():
                raise _wrong(collection, f"{entry.name!r} is a link or a device, not a file")


def _check(collection: Collection, files: Mapping[str, bytes], others: set[str]) -> None:
    """Compare a collection's own statement with its pin. Raises `FetchError`."""
    try:
        info = json.loads(files["MANIFEST.json"])["collection_info"]
        found, version = f"{info['namespace']}.{info['name']}", str(info["version"])
        needed = set(info.get("dependencies") or ())
    except KeyError as error:
        missing = "MANIFEST.json" if error.args == ("MANIFEST.json",) else f"{error} in MANIFEST.json"
        hint = "build the archive with: ansible-galaxy collection build"
        raise _wrong(collection, f"it has no {missing} of {collection.name}", hint) from None
    except (ValueError, TypeError, AttributeError) as error:
        raise _wrong(collection, f"MANIFEST.json of {collection.name} cannot be read: {error}") from error
    if (found, version) != (collection.name, collection.version):
        raise _wrong(
            collection,
            f"it has {found} {version}, but {collection.name} {collection.version} is pinned",
            f"write `version: {version}` in role.yaml" if found == collection.name else None,
        )
    if missing_ones := sorted(needed - others):
        raise _wrong(
            collection,
            f"{collection.name} needs {', '.join(missing_ones)}",
            "add these to `collections` in role.yaml",
        )


def _there(home: Path) -> Files | None:
    """Return a folder's files, without Ansible's bytecode; None where it has anything but files and folders."""
    found: Files = {}
    for parent, folders, names in os.walk(home):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for path in (Path(parent, name) for name in names):
            if path.is_symlink() or not path.is_file():
                return None
            found[path.relative_to(home).as_posix()] = path.read_bytes()
        if any(Path(parent, name).is_symlink() for name in folders):
            return None
    return found


def _put(folder: Path, collection: Collection, files: Files) -> None:
    """Write the files to a folder beside, which then takes the place. Call under the lock. Raises OSError."""
    place = folder / collection.folder
    place.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=folder) as temporary:
        home = _home(Path(temporary), collection)
        for name, content in files.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_bytes(content)
        if place.exists():
            place.rename(Path(temporary) / "before")
        (Path(temporary) / collection.folder).rename(place)
