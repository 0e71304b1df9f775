"""The package lists that apt has fetched: whether they are still what their publisher signed.

apt writes them without a sync, and believes what it has for as long as its server says that nothing is new: lists that
a power cut has emptied know of no package, and `apt-get update` leaves them as they are for days.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path("/var/lib/apt/lists")
_CHUNK = 1 << 20
_SIGNED = "-----BEGIN PGP SIGNED MESSAGE-----", "-----END PGP SIGNATURE-----"


def drop_damaged(folder: Path = FOLDER) -> list[str]:
    """Take away what is damaged, so that the next `apt-get update` fetches it; the names of it."""
    found = list(damaged(folder))
    for path in found:
        path.unlink(missing_ok=True)
    return [path.name for path in found]


def damaged(folder: Path = FOLDER) -> Iterator[Path]:
    """Lists whose SHA-256 is not the one in their InRelease or Release file, and such files that are not whole.

    Formats: https://wiki.debian.org/DebianRepository/Format; names as apt makes them of addresses.
    """
    for path in sorted(folder.glob("*Release")):
        text = path.read_text("utf-8", "replace")
        if not _whole(path.name, text):
            yield path
            continue
        prefix = path.name.removesuffix("Release").removesuffix("In")
        for name, told in _sums(text).items():
            there = path.with_name(prefix + name.replace("_", "%5f").replace("/", "_"))
            if there.is_file() and _sum(there) != told:
                yield there


def _whole(name: str, text: str) -> bool:
    if not name.endswith("_InRelease"):
        return bool(text.strip())
    return text.startswith(_SIGNED[0]) and text.rstrip().endswith(_SIGNED[1])


def _sums(text: str) -> dict[str, str]:
    """File name -> SHA-256, of the `SHA256` field of a Release file."""
    sums: dict[str, str] = {}
    inside = False
    for line in text.splitlines():
        words = line.split()
        if not line.startswith(" "):
            inside = line.strip() == "SHA256:"
        elif inside and len(words) == 3:
            sums[words[2]] = words[0]
    return sums


def _sum(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
