"""Files from the depot: over HTTP without proxies or redirections, hashed before they get their name.

The receipt has `{"digest": SHA-256 of the last download, "before": BEFORE, "made": [directories made for it]}`, as
for files. Each check hashes the whole file: that takes about a second for a gigabyte.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
from typing import TYPE_CHECKING, cast

from hpcforge.node import backups, files, paths, receipt
from hpcforge.node.events import EventReporter, Json, NodeError, readable
from hpcforge.node.kinds import BLOCK, UNKNOWN, SpaceNeed, resource

if TYPE_CHECKING:
    from hpcforge.kinds.directories import Directory
    from hpcforge.kinds.downloads import Download

_URL = re.compile(r"http://([0-9A-Za-z.-]+|\[[0-9a-f:]+\])(?::([0-9]{1,5}))?(/[!-~]*)")
_SILENCE_S = 30
_LIMIT_BYTES = 256 * 10**9  # if the size is not known before
_CHUNK = 1024 * 1024
_NOBODY: Json = {"mode": None, "owner": None, "group": None}


def compare(download: Download) -> Json | None:
    """Return the entry at its path, with the digest of the whole file."""
    path = download.path
    try:
        entry = files.look(path, any_size=True)
    except paths.UnsafeError:
        return {"path": path, "exists": True, "kind": "unsafe", "digest": None, **_NOBODY}
    if entry is None:
        return {"path": path, "exists": False, "kind": None, "digest": None, **_NOBODY}
    if entry.digest == download.digest and files.same_rights(entry, _roots(download)):
        return None
    digest = entry.digest if entry.links == 1 else None  # a file with a second hard link is replaced, never chowned
    return {"path": path, "exists": True, "kind": entry.kind, "digest": digest, **files.rights(entry)}


def obstacle(download: Download, record: Json | None) -> str | None:
    """Return the obstacle: not a file, or too large to be kept before it is replaced for the first time."""
    path = download.path
    return files.obstacle(path, "file") or (backups.obstacle(path) if record is None else None)


def put(download: Download) -> str | None:
    """Fetch it, unless it exists. After a failure the old entry is unchanged."""
    path, rights = download.path, files.rights_of(_roots(download))
    parent, name = paths.split(path)
    folder = paths.open_directory(parent, create=True)
    try:
        entry = files.look_at(folder, name, path, any_size=True)
        if entry and entry.digest == download.digest and entry.links == 1:
            return files.fix_rights(folder, name, entry, rights)
        files.replace_by(folder, name, lambda fd: _fetch(download, fd), rights)
        return "downloaded" if entry is None else "downloaded again"
    finally:
        os.close(folder)


def own(name: str, change: Download | None, made: set[str]) -> Json | None:
    """Return the earlier entry, its content safely kept."""
    parents = files.parents(name, made)
    made |= set(parents)
    try:
        if change:
            before = backups.keep(name)
            return {"digest": (before or {}).get("kept"), "before": before, "made": parents}
        entry = files.look(name, any_size=True)
    except NodeError:
        return None  # not hpcforge's; `put` will fail with the reason
    if entry is None or entry.kind != "file":
        return None  # missing, and not to be put now: nothing to own yet
    return {"digest": entry.digest, "before": UNKNOWN, "made": []}


def restore(name: str, record: Json, report: EventReporter) -> str | None:
    """Restore the earlier entry; if it is not known, remove the file if it is still as hpcforge last put it."""
    try:
        if record["before"] != UNKNOWN:
            return backups.restore(name, record["before"])
        entry = files.look(name, any_size=True)
        if entry is None or entry.digest in (record["digest"], record.get("was")):
            return backups.restore(name, None)
    except paths.UnsafeError as error:
        report.warning(f"{error}: left alone")
        return None
    report.warning(f"{name} was changed since hpcforge downloaded it, and the earlier content is unknown: not touched")
    return None


def room(download: Download) -> list[SpaceNeed]:
    """Return the space for the new file beside the old one, and for a backup of a small old one."""
    try:
        old = os.lstat(download.path).st_size
    except OSError:
        old = 0
    backup_bytes = old if old <= files.SIZE_LIMIT else 0
    return [
        SpaceNeed(download.path, (download.size_bytes or 0) + BLOCK, 1),
        SpaceNeed(str(receipt.FOLDER), backup_bytes, 1),
    ]


def _roots(download: Download) -> Directory:
    """Return a directory resource with the desired rights."""
    return cast("Directory", resource("directories", {"path": download.path, "mode": download.mode}))


def _fetch(download: Download, fd: int) -> None:
    """Download the file into a descriptor. Raises NodeError if it is not the pinned one."""
    url = download.url
    match = _URL.fullmatch(url)
    if match is None:
        raise NodeError(f"invalid download address {url!r}; expected http://HOST/PATH")
    host, port, target = match.groups()
    connection = http.client.HTTPConnection(host.strip("[]"), int(port or 80), timeout=_SILENCE_S)
    try:
        connection.request("GET", target)
        answer = connection.getresponse()
        if answer.status != http.client.OK:  # also a redirection: hpcforge fetches from no other address
            raise NodeError(f"{url}: {answer.status} {readable(answer.reason, 100)}")
        digest = _copy(url, answer, fd, download.size_bytes)
    except (OSError, http.client.HTTPException) as error:
        raise NodeError(f"{url}: {error or type(error).__name__}") from None
    finally:
        connection.close()
    if digest != download.digest:
        raise NodeError(f"{url} has SHA-256 {digest}, but {download.digest} is pinned")


def _copy(url: str, answer: http.client.HTTPResponse, fd: int, size: int | None) -> str:
    """Copy the answer and return its SHA-256."""
    limit = _LIMIT_BYTES if size is None else size
    length = answer.length  # None: the server does not report it
    if length is not None and length > limit:
        raise NodeError(f"{url} has {length} bytes, expected {limit}")
    digest, received = hashlib.sha256(), 0
    while True:
        chunk = answer.read(_CHUNK)
        if not chunk:
            break
        received += len(chunk)
        if received > limit:
            raise NodeError(f"{url} has more than {limit} bytes")
        digest.update(chunk)
        files.write_all(fd, chunk)
    if length is not None and received < length:
        raise NodeError(f"{url}: the connection was lost after {received} bytes of {length}; run again")
    return digest.hexdigest()
