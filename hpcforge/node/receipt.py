"""The node's record of hpcforge's resources: owned resources with their earlier state, due restarts and reboots,
completed opaque work, and the highest run number.

It is a JSON file with a checksum, in a directory that only root can enter. The present state of files, packages and
units is never read from it, but observed each time. The receipt has only facts that cannot be observed: the owner of a
resource, and its state before hpcforge.

`roles` has each role by name, in the order in which they came to this node::

    {"packages": [missing packages that hpcforge installed],
     "units": {name: {"enabled": bool, "active": bool} before hpcforge},
     "trees": {path: record as of a directory, for a tree that the role's own code makes},
     "on_remove": "keep" | "stop" | "purge", "leaves": [{"path", "why"}], "disrupts": as in a plan, for removing trees,
     KIND: {name: record of the kind's module (`hpcforge.node.kinds`), which restores the earlier state}}

`before` in a record is null if nothing existed, "unknown" if a resource was as desired at its first check, or the
earlier state. For a file that is `{"link": target}` for a symbolic link, or `{"mode", "owner", "group", "kept":
SHA-256}` with the content in `originals`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hpcforge.kinds import KINDS
from hpcforge.node import files, paths
from hpcforge.node.events import BusyError, EventReporter, Json, NodeError

if TYPE_CHECKING:
    from hpcforge.node.requests import AnyRequest

FOLDER = Path("/var/lib/hpcforge")
SCHEMA = 3
_KINDS_OF_2 = ("accounts", "directories", "files")  # all kinds of an hpcforge that reads only schema 2
_OF_EVERY_ROLE = ("packages", "units", "on_remove", "trees", "leaves", "disrupts")
NAME = "receipt.json"
_FIRST = "state.json"  # its name under schema 1, which had only restarts and opaque work


class RunRecord(NamedTuple):
    """A run: its number is one higher than the highest on any node that it reached."""

    number: int = 0
    id: str = ""
    who: str = ""
    since_s: float = 0.0

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(self.since_s))
        return f"run {self.number} of {self.who or 'an unknown user'}, here since {since}"


class Receipt(NamedTuple):
    """`trouble`: the reason why the file is unusable; then restarts and opaque work count as due."""

    restarts: frozenset[str] = frozenset()
    opaque: Mapping[str, str] = {}  # role -> digest of the completed work
    roles: Mapping[str, Json] = {}
    cluster: str | None = None
    run: RunRecord = RunRecord()
    hpcforge: str | None = None  # version that wrote it last
    reverted: tuple[Json, ...] = ()  # reverted guarded changes, until their role runs again
    trouble: str | None = None
    newer: bool = False  # written by a newer hpcforge: must not be changed
    reboots: Mapping[str, str] = {}  # role -> id of the boot that must end before its checks count

    def restart_due(self, unit: str) -> bool:
        """Return whether a unit still has to be restarted because of a change."""
        return self.trouble is not None or unit in self.restarts

    def reboot_due(self, role: str) -> bool:
        """Return whether the node still has to be restarted because of a change. Any restart since counts.

        Without a usable receipt no reboot is due: work is repeated then, but a node is not restarted on a suspicion.
        """
        return self.reboots.get(role) == boot_id()

    def with_reboots(self, roles: Iterable[str]) -> Receipt:
        """Return the receipt with a reboot due for these roles, too."""
        this_boot = boot_id()
        due = {role: boot for role, boot in self.reboots.items() if boot == this_boot}
        return self._replace(reboots={**due, **dict.fromkeys(roles, this_boot)})


def boot_id() -> str:
    """Return the identity of this boot of the node."""
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


EMPTY = Receipt()
_SINCE: Json = {"trees": {}, "leaves": [], "disrupts": "none"}  # fields of a role that an older hpcforge did not write


def load(folder: Path = FOLDER) -> Receipt:
    """Load the receipt; a present but unusable file is an error, never an empty receipt."""
    for name in (NAME, _FIRST):
        path = folder / name
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            return EMPTY._replace(trouble=f"{path}: {error.strerror}")
        return _parsed(path, data)
    return EMPTY


def load_for_change(folder: Path = FOLDER) -> Receipt:
    """Load the receipt for a request that writes: a damaged file is put aside, a newer one stays (NodeError)."""
    receipt = load(folder)
    if receipt.newer:
        raise NodeError(str(receipt.trouble))
    if receipt.trouble:
        for name in (NAME, _FIRST):
            with contextlib.suppress(FileNotFoundError):
                (folder / name).replace(folder / (name + ".damaged"))
    return receipt


def begin(request: AnyRequest, report: EventReporter, folder: Path = FOLDER) -> Receipt:
    """Return the receipt for a request that changes the node, with its run recorded; save it before a change.

    Raise NodeError if this node belongs to another cluster, or a later run was here.
    """
    receipt = load_for_change(folder)
    if receipt.trouble:
        report.warning(f"{receipt.trouble}; renamed to end in .damaged")
    run = request.get("run")
    if not run:
        return receipt._replace(trouble=None)
    asks = RunRecord(run["number"], run["id"], run["who"], time.time())
    _refuse(receipt, asks, run.get("cluster"))
    if asks[:3] == receipt.run[:3]:
        asks = receipt.run
    return receipt._replace(
        trouble=None,
        run=asks,
        cluster=run.get("cluster") or receipt.cluster,
        hpcforge=run.get("hpcforge") or receipt.hpcforge,
    )


def save(receipt: Receipt, folder: Path = FOLDER) -> None:
    """Save the receipt, synced to disk. An unchanged one is not written."""
    if receipt == load(folder):
        return
    roles = {role: _without_empty(entry) for role, entry in receipt.roles.items()}
    newer = any(set(entry) - {*_OF_EVERY_ROLE, *_KINDS_OF_2} for entry in roles.values())
    document: Json = {
        "schema": SCHEMA if newer else 2,
        "cluster": receipt.cluster,
        "run": receipt.run._asdict(),
        "hpcforge": receipt.hpcforge,
        "restarts": sorted(receipt.restarts),
        "opaque": dict(receipt.opaque),
        "reboots": dict(receipt.reboots),
        "reverted": list(receipt.reverted),
        "roles": roles,
    }
    document["checksum"] = _checksum(document)
    fd = paths.open_private(folder)
    try:
        data = (json.dumps(document, indent=1) + "\n").encode()
        files.replace(fd, NAME, data, files.Rights(os.geteuid(), os.getegid(), 0o600))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_FIRST, dir_fd=fd)
    finally:
        os.close(fd)


def _refuse(receipt: Receipt, asks: RunRecord, cluster: str | None) -> None:
    if cluster and receipt.cluster and cluster != receipt.cluster:
        raise NodeError(
            f"this node belongs to cluster {receipt.cluster!r}, not to {cluster!r} ({receipt.run}); remove it there "
            f"first, or, if that cluster no longer exists, move {FOLDER / NAME} away"
        )
    if asks.number < receipt.run.number:
        raise BusyError(
            f"run {asks.number} of {asks.who} is older than the last run on this node ({receipt.run}): "
            "nothing was changed; apply again"
        )
    if asks.number == receipt.run.number and asks.number and asks.id != receipt.run.id:
        raise BusyError(
            f"run {asks.number} of {asks.who} has the same number as another run, which reached this node first "
            f"({receipt.run}): nothing was changed; apply again"
        )


def _parsed(path: Path, data: bytes) -> Receipt:
    try:
        document = json.loads(data)
        schema = document["schema"]
        if isinstance(schema, int) and schema > SCHEMA:
            reason = (
                f"{path} was written by a newer hpcforge (schema {schema}, this one has {SCHEMA}): use the newer one"
            )
            return EMPTY._replace(trouble=reason, newer=True)
        if document["checksum"] != _checksum(document):
            raise ValueError("checksum")
        receipt = Receipt(frozenset(document["restarts"]), dict(document["opaque"]))
        strange = {kind for entry in document.get("roles", {}).values() for kind in entry} - {*_OF_EVERY_ROLE, *KINDS}
        if strange:
            reason = f"{path} was written by another hpcforge, which added {', '.join(sorted(strange))}: use that one"
            return EMPTY._replace(trouble=reason, newer=True)
        if schema == 1:
            return receipt
        return receipt._replace(
            roles={role: {**entry, **_lacking(entry)} for role, entry in document["roles"].items()},
            cluster=document["cluster"],
            run=RunRecord(**document["run"]),
            hpcforge=document["hpcforge"],
            reverted=tuple(document["reverted"]),
            reboots=dict(document.get("reboots", {})),
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return EMPTY._replace(trouble=f"{path} is damaged ({len(data)} bytes)")


def _lacking(entry: Json) -> Json:
    """Return the fields that an earlier hpcforge did not write."""
    every = {**{kind: {} for kind in KINDS}, **_SINCE}
    return {key: empty for key, empty in every.items() if key not in entry}


def _without_empty(entry: Json) -> Json:
    """Return a role's entry as written: without empty fields that an earlier hpcforge does not know."""
    lacking = _lacking(dict.fromkeys(("packages", "units", "on_remove", *_KINDS_OF_2)))
    return {key: value for key, value in entry.items() if key not in lacking or value != lacking[key]}


def _checksum(document: Json) -> str:
    rest = {key: value for key, value in document.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
