"""Files from the depot: over HTTP without proxies or redirections, hashed before they get their name.

The receipt has `{"digest": SHA-256 of what we last put there, "before": BEFORE, "made": [directories made for it]}`, as
for files. What is there is hashed at every look, however large: that takes about a second for a gigabyte.
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
_LIMIT_BYTES = 256 * 10**9  # of one whose size is not known before
_CHUNK = 1024 * 1024
_NOBODY: Json = {"mode": None, "owner": None, "group": None}


def compare(wanted: Download) -> Json | None:
    """Return the entry at its path, with the digest of the whole file."""
    path = wanted.path
    try:
        entry = files.look(path, whole=True)
    except paths.UnsafeError:
        return {"path": path, "exists": True, "kind": "unsafe", "digest": None, **_NOBODY}
    if entry is None:
        return {"path": path, "exists": False, "kind": None, "digest": None, **_NOBODY}
    if entry.digest == wanted.digest and files.same_rights(entry, _roots(wanted)):
        return None
    digest = entry.digest if entry.links == 1 else None  # one with a second name is replaced, never chowned
    return {"path": path, "exists": True, "kind": entry.kind, "digest": digest, **files.rights(entry)}


def obstacle(wanted: Download, known: Json | None) -> str | None:
    """Return the obstacle: not a file, or too large to be kept before it is replaced for the first time."""
    path = wanted.path
    return files.obstacle(path, "file") or (backups.obstacle(path) if known is None else None)


def put(wanted: Download) -> str | None:
    """Fetch it, unless it is there. Whatever fails, what was at the path stays."""
    path, rights = wanted.path, files.rights_of(_roots(wanted))
    parent, name = paths.split(path)
    folder = paths.open_directory(parent, create=True)
    try:
        entry = files.look_at(folder, name, path, whole=True)
        if entry and entry.digest == wanted.digest and entry.links == 1:
            return files.fix_rights(folder, name, entry, rights)
        files.replace_by(folder, name, lambda fd: _fetch(wanted, fd), rights)
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
        found = files.look(name, whole=True)
    except NodeError:
        return None  # what cannot be ours; putting it will fail and say why
    if found is None or found.kind != "file":
        return None  # wanted, not there, and not to be put now: nothing of ours yet
    return {"digest": found.digest, "before": UNKNOWN, "made": []}


def restore(name: str, known: Json, report: EventReporter) -> str | None:
    """Restore the earlier entry; if it is not known, remove the file if it is still as hpcforge last put it."""
    try:
        if known["before"] != UNKNOWN:
            return backups.restore(name, known["before"])
        found = files.look(name, whole=True)
        if found is None or found.digest in (known["digest"], known.get("was")):
            return backups.restore(name, None)
    except paths.UnsafeError as error:
        report.warning(f"{error}: left alone")
        return None
    report.warning(f"{name} was changed since hpcforge downloaded it, and the earlier content is unknown: not touched")
    return None


def room(wanted: Download) -> list[SpaceNeed]:
    """All of it beside what is there, of which a small one may have to be kept."""
    try:
        old = os.lstat(wanted.path).st_size
    except OSError:
        old = 0
    kept = old if old <= files.SIZE_LIMIT else 0
    return [SpaceNeed(wanted.path, (wanted.size_bytes or 0) + BLOCK, 1), SpaceNeed(str(receipt.FOLDER), kept, 1)]


def _roots(wanted: Download) -> Directory:
    """With the rights that it is to have."""
    return cast("Directory", resource("directories", {"path": wanted.path, "mode": wanted.mode}))


def _fetch(wanted: Download, fd: int) -> None:
    """Write what its address has into a descriptor. Raises NodeError where that is not what is wanted."""
    url = wanted.url
    match = _URL.fullmatch(url)
    if match is None:
        raise NodeError(f"invalid download address {url!r}; expected http://HOST/PATH")
    host, port, target = match.groups()
    connection = http.client.HTTPConnection(host.strip("[]"), int(port or 80), timeout=_SILENCE_S)
    try:
        connection.request("GET", target)
        answer = connection.getresponse()
        if answer.status != http.client.OK:  # a redirection, too: nothing is fetched from elsewhere
            raise NodeError(f"{url}: {answer.status} {readable(answer.reason, 100)}")
        digest = _copy(url, answer, fd, wanted.size_bytes)
    except (OSError, http.client.HTTPException) as error:
        raise NodeError(f"{url}: {error or type(error).__name__}") from None
    finally:
        connection.close()
    if digest != wanted.digest:
        raise NodeError(f"{url} has SHA-256 {digest}, but {wanted.digest} is pinned")


def _copy(url: str, answer: http.client.HTTPResponse, fd: int, size: int | None) -> str:
    """Copy the answer and return its SHA-256."""
    limit = _LIMIT_BYTES if size is None else size
    said = answer.length  # None: the server does not say
    if said is not None and said > limit:
        raise NodeError(f"{url} has {said} bytes, expected {limit}")
    digest, had = hashlib.sha256(), 0
    while True:
        chunk = answer.read(_CHUNK)
        if not chunk:
            break
        had += len(chunk)
        if had > limit:
            raise NodeError(f"{url} has more than {limit} bytes")
        digest.update(chunk)
        files.write_all(fd, chunk)
    if said is not None and had < said:
        raise NodeError(f"{url}: the connection was lost after {had} bytes of {said}; run again")
    return digest.hexdigest()
