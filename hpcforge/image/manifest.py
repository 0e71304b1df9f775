"""The record of an image: the lock that determines its archive, and the archive's checksum. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from pydantic import TypeAdapter, ValidationError

from hpcforge.image.errors import ImageError
from hpcforge.image.request import ImageRequest, LeftPackage

SCHEMA = 1
_NAME = re.compile(r"[a-z0-9](?:-?[a-z0-9]){0,47}")


@dataclass(frozen=True)
class Package:
    """One exact package: `sha256` is of its file in the package archive."""

    name: str
    version: str
    architecture: str
    sha256: str
    size_bytes: int  # size of that file
    installed_kib: int


@dataclass(frozen=True)
class Lock:
    """The data that determine an image's archive."""

    request: ImageRequest
    recipe: str  # SHA-256 of the recipe: the programs, and the packages of every image
    sources: tuple[str, ...]  # lines of its sources.list
    epoch_s: int  # the date of the package lists (seconds since 1970, UTC): no file in it is newer
    packages: tuple[Package, ...]  # in order of names
    left: tuple[LeftPackage, ...]  # packages that the request leaves out, and those without a source

    @property
    def installed_kib(self) -> int:
        """The installed size of its packages, by their own data."""
        return sum(package.installed_kib for package in self.packages)

    @property
    def to_install(self) -> tuple[str, ...]:
        """The requested packages that are in it."""
        omitted = {left_package.package for left_package in self.left}
        return tuple(name for name in self.request.packages if name not in omitted)

    @property
    def digest(self) -> str:
        """SHA-256 of the image's content; newer lists with the same versions do not change it."""
        versions = [(package.name, package.version, package.architecture) for package in self.packages]
        return _sha256([asdict(self.request), self.recipe, self.sources, versions])


@dataclass(frozen=True)
class MadeFor:
    """A blueprint as it was when an image was built for it."""

    path: str
    sha256: str


@dataclass(frozen=True)
class Disk:
    """The root file system that virtual machines boot: a function of the archive."""

    sha256: str
    bytes: int
    beside: Mapping[str, str] = field(default_factory=dict)  # SHA-256 of kernel and initrd; empty: by an older hpcforge


@dataclass(frozen=True)
class Manifest:
    """An image."""

    name: str
    lock: Lock
    blueprints: tuple[MadeFor, ...]
    archive_sha256: str
    archive_bytes: int
    built_s: float  # seconds since 1970, UTC
    hpcforge: str  # the version that built it
    disk: Disk | None = None  # None: not made


def check_name(name: str) -> str:
    """Return the name itself; `ImageError` if it cannot be a directory's name."""
    if not _NAME.fullmatch(name) or len(name) > 48:
        raise ImageError(
            f"{name!r} is not a valid image name",
            "names are up to 48 of a-z, 0-9 and single hyphens; `hpcforge image list` shows them",
        )
    return name


def name_of(cluster: str, lock: Lock) -> str:
    """Return an image's name, from its cluster and its content."""
    word = re.sub(r"[^a-z0-9]+", "-", cluster.lower()).strip("-")[:39].rstrip("-")
    return check_name(f"{word or 'image'}-{lock.digest[:8]}")


def to_text(manifest: Manifest) -> str:
    """Return the stored form, with its own checksum."""
    data = asdict(manifest)
    return json.dumps({"schema": SCHEMA, "sha256": _sha256(data), "image": data}, indent=2) + "\n"


def from_text(text: str, source: str) -> Manifest:
    """Parse the output of `to_text`; `ImageError` for any other text."""
    try:
        document = json.loads(text)
        if document["schema"] != SCHEMA:
            raise ValueError("it was written by another version of hpcforge")
        if _sha256(document["image"]) != document["sha256"]:
            raise ValueError("its checksum is another one")
        return TypeAdapter(Manifest).validate_python(document["image"])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise ImageError(
            f"{source} cannot be read: {reason}", "remove that image: `hpcforge image remove NAME`"
        ) from None


def _sha256(data: object) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
