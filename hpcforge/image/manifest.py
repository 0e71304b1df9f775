"""The record of an image: the lock that its archive follows from, and the archive's checksum. Pure."""

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
    """One package, exactly: `sha256` is that of the file that the archive of packages has."""

    name: str
    version: str
    architecture: str
    sha256: str
    size_bytes: int  # of that file
    installed_kib: int


@dataclass(frozen=True)
class Lock:
    """All that an image's archive follows from."""

    request: ImageRequest
    recipe: str  # SHA-256 of how it is made: programs that are run, packages that every image has
    sources: tuple[str, ...]  # lines of its sources.list
    epoch_s: int  # no file in it is younger: when the package lists were made (seconds since 1970, UTC)
    packages: tuple[Package, ...]  # in order of names
    left: tuple[LeftPackage, ...]  # what the request leaves, and what no source has

    @property
    def installed_kib(self) -> int:
        """What its packages say that they take."""
        return sum(package.installed_kib for package in self.packages)

    @property
    def to_install(self) -> tuple[str, ...]:
        """What is asked for and is in it."""
        omitted = {left_package.package for left_package in self.left}
        return tuple(name for name in self.request.packages if name not in omitted)

    @property
    def digest(self) -> str:
        """SHA-256 of what is in the image; lists that are newer and say the same change nothing."""
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
    beside: Mapping[str, str] = field(default_factory=dict)  # SHA-256 of kernel and initrd; empty: of an older hpcforge


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
    disk: Disk | None = None  # None: none was made


def check_name(name: str) -> str:
    """Return the name itself; `ImageError` if it could not be used as it is for a directory."""
    if not _NAME.fullmatch(name) or len(name) > 48:
        raise ImageError(
            f"{name!r} is not a valid image name",
            "names are up to 48 of a-z, 0-9 and single hyphens; `hpcforge image list` shows those that there are",
        )
    return name


def name_of(cluster: str, lock: Lock) -> str:
    """Return an image's name, made of the cluster that it was made for and of its contents."""
    word = re.sub(r"[^a-z0-9]+", "-", cluster.lower()).strip("-")[:39].rstrip("-")
    return check_name(f"{word or 'image'}-{lock.digest[:8]}")


def to_text(manifest: Manifest) -> str:
    """As it is kept, with a checksum of its own."""
    data = asdict(manifest)
    return json.dumps({"schema": SCHEMA, "sha256": _sha256(data), "image": data}, indent=2) + "\n"


def from_text(text: str, source: str) -> Manifest:
    """Parse the output of `to_text`; `ImageError` where it is not that, word for word."""
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
