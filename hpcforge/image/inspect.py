"""Looking through a root archive for what no image may hold: identities, secrets, traces of how it was made."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

_NEVER = re.compile(
    r"etc/ssh/ssh_host_.*|etc/hostname|etc/munge/munge\.key|etc/(?:passwd|shadow|group|gshadow)-|var/lib/dbus/machine-id"
    r"|var/lib/systemd/(?:random-seed|credential\.secret)|etc/ssl/private/.+|(?:root|home/[^/]+)/\.ssh/.+"
    r"|var/(?:tmp|backups)/.+|tmp/.+|var/lib/apt/lists/.+|var/cache/apt/archives/.+|var/lib/mysql/.+"
)
_EMPTY = re.compile(r"etc/machine-id|etc/resolv\.conf|var/log/.*")
# At the beginning of a line and with a key behind it: programs that read keys have the words alone.
_PRIVATE_KEY = re.compile(rb"^-----BEGIN [A-Z ]*PRIVATE KEY-----\r?\n[A-Za-z0-9+/=:, \r\n-]{64}", re.MULTILINE)
_EXAMPLES = re.compile(r"usr/share/doc/.*")
_PASSWORD = re.compile(rb"^([^:\n]+):(\$[^:\n]+):", re.MULTILINE)


def faults(archive: Path, epoch_s: int) -> tuple[str, ...]:
    """What is wrong with an archive, a line each; none: it may be an image.

    Raises OSError or tarfile.TarError where it cannot be read to its end.
    """
    found: list[str] = []
    names: list[str] = []
    with tarfile.open(archive, "r:") as tar:
        for member in tar:
            name = member.name.removeprefix("./").removeprefix("/")
            names.append(name)
            found += _of_member(tar, member, name, epoch_s)
    if "etc/machine-id" not in names:
        found.append("etc/machine-id is not there: systemd would make no new one in a read-only root")
    return tuple(found)


def _of_member(tar: tarfile.TarFile, member: tarfile.TarInfo, name: str, epoch_s: int) -> Iterator[str]:
    if member.mtime > epoch_s:
        yield f"{name} is younger than the lock"
    if member.uname or member.gname:
        yield f"{name} has the name of its owner"
    if not member.isdir() and _NEVER.fullmatch(name):
        yield f"{name} must not be there"
    file = tar.extractfile(member) if member.isreg() and member.size else None
    if file is None:
        return
    content = file.read()
    if _EMPTY.fullmatch(name):
        yield f"{name} is not empty"
    if _PRIVATE_KEY.search(content) and not _EXAMPLES.fullmatch(name):
        yield f"{name} holds a private key"
    if name == "etc/shadow":
        for account in _PASSWORD.findall(content):
            yield f"{name}: {account[0].decode(errors='replace')} has a password"
