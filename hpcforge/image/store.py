"""The store of images: beside the labs' base systems, one folder each, which is added and removed in one step."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hpcforge.host.paths import Progress, cache, remove_tree
from hpcforge.image.errors import ImageError
from hpcforge.image.manifest import Lock, Manifest, check_name, from_text
from hpcforge.image.request import ImageRequest
from hpcforge.locks import file_lock, held

ARCHIVE, MANIFEST = "root.tar", "manifest.json"
Users = Callable[[Path], Sequence[str]]  # names of the users of images in a folder
_BUILDING = ".building-"  # an image's name never begins with a dot


@dataclass(frozen=True)
class Unreadable:
    """An image whose manifest cannot be read."""

    name: str
    problem: str


def folder() -> Path:
    return cache() / "images"


def directory(name: str) -> Path:
    """Return the folder of an image; `ImageError` for an invalid name."""
    return folder() / check_name(name)


@contextmanager
def lock(progress: Progress) -> Iterator[int]:
    """Hold the lock of builds and removals; yield its handle, for programs that hold it while they run."""
    folder().mkdir(parents=True, exist_ok=True)
    busy = "waiting: another run is building or removing an image"
    with file_lock(folder() / ".lock", lambda: progress(busy)) as file:
        yield file.fileno()


@contextmanager
def in_use(name: str) -> Iterator[None]:
    """Keep an image unchanged while machines are written from it. Enter it under the lock."""
    with held(_users(name), f"image {name} is being replaced", "run it again", shared=True):
        yield


@contextmanager
def unused(name: str) -> Iterator[None]:
    """Keep an image from being served to machines. Raises `HeldError` while it is. Call under the lock."""
    with held(_users(name), f"image {name} is served to machines", "wait for the end of that installation"):
        yield


def _users(name: str) -> Path:
    return folder() / f".in-use-{check_name(name)}.lock"


def names() -> tuple[str, ...]:
    entries = folder().iterdir() if folder().is_dir() else ()
    return tuple(sorted(path.name for path in entries if path.is_dir() and not path.name.startswith(".")))


def read(name: str) -> Manifest:
    """Return an image's manifest; `ImageError` if there is no such image, or it cannot be read."""
    path = directory(name) / MANIFEST
    try:
        manifest = from_text(path.read_text(), str(path))
    except FileNotFoundError:
        available = ", ".join(names()) or "none"
        raise ImageError(
            f"image {name!r} does not exist (available: {available})", "hpcforge image build BLUEPRINT"
        ) from None
    if manifest.name != name:
        raise ImageError(f"{path} is the manifest of {manifest.name!r}", f"hpcforge image remove {name}")
    return manifest


def all_images() -> tuple[Manifest | Unreadable, ...]:
    """Return every image, in order of names."""
    images: list[Manifest | Unreadable] = []
    for name in names():
        try:
            images.append(read(name))
        except ImageError as error:
            images.append(Unreadable(name, str(error)))
    return tuple(images)


def matching(request: ImageRequest, recipe: str, sources: Sequence[str]) -> Manifest | None:
    """Return the newest image of this request with this recipe and these sources."""
    key = (request, recipe, tuple(sources))
    fit = [
        image
        for image in all_images()
        if isinstance(image, Manifest) and (image.lock.request, image.lock.recipe, image.lock.sources) == key
    ]
    return max(fit, key=lambda image: image.built_s, default=None)


def of_lock(desired: Lock) -> Manifest | None:
    """Return an image with exactly these packages."""
    matches = (image for image in all_images() if isinstance(image, Manifest) and image.lock.digest == desired.digest)
    return next(matches, None)


def checked(manifest: Manifest) -> Path:
    """Return the archive of an image after reading it completely; `ImageError` if it was changed."""
    path = directory(manifest.name) / ARCHIVE
    hint = f"hpcforge image remove {manifest.name}, then build it again"
    try:
        size = path.stat().st_size
        if size != manifest.archive_bytes:
            raise ImageError(f"{path} has {size} bytes of {manifest.archive_bytes}: it was cut short or changed", hint)
        if sha256_of(path) != manifest.archive_sha256:
            raise ImageError(f"{path} has another checksum than its manifest: it was changed", hint)
    except FileNotFoundError:
        raise ImageError(f"{path} is not there", hint) from None
    return path


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove(name: str, used_by: Users, progress: Progress) -> None:
    """Remove an image, and leftovers of an interrupted build. Call under the lock.

    `used_by` returns the labs that use files in a folder. Raises ImageError if a lab uses this image, and `HeldError`
    while machines are written from it.
    """
    place = directory(name)
    if labs := used_by(place):
        raise ImageError(
            f"image {name} is used by {', '.join(labs)}", "take that down first: `hpcforge rehearse down --lab NAME`"
        )
    if str(place) in Path("/proc/self/mounts").read_text():  # a lab without a record uses it
        raise ImageError(f"image {name} is mounted", f"find it: `findmnt | grep {place}`")
    if not place.is_dir():
        read(name)  # raises the error
    _discard(place)
    sweep(progress)


def building(name: str) -> Path:
    """Make an empty folder to build an image in. Call under the lock."""
    path = folder() / f"{_BUILDING}{check_name(name)}"
    if path.exists():
        remove_tree(path)
    path.mkdir(mode=0o755)
    return path


def keep(built: Path, name: str) -> None:
    """Move a built and checked image to its name, in place of an old one. Call under the lock."""
    place = directory(name)
    if place.exists():
        _discard(place)
    _sync(built)
    built.rename(place)
    _sync(folder())


def sweep(progress: Progress) -> None:
    """Remove leftovers of interrupted builds and removals. Call under the lock."""
    for path in folder().iterdir() if folder().is_dir() else ():
        if path.name.startswith(_BUILDING):
            progress(f"removing {path}, of a run that was cut off")
            remove_tree(path)


def _discard(place: Path) -> None:
    """Rename a folder in one step, then remove it. Raises `HeldError` while machines are written from it."""
    with unused(place.name):
        trash = folder() / f"{_BUILDING}{place.name}-gone"
        if trash.exists():
            remove_tree(trash)
        place.rename(trash)
        remove_tree(trash)
        _users(place.name).unlink()


def _sync(path: Path) -> None:
    """Sync a folder's entries to disk."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
