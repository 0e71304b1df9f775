"""Ownership: what a role owns on this node, and the leftovers of removed roles.

Ownership is recorded before a change, with the earlier state: after an interruption at any point the receipt has at
least all touched resources.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from hpcforge.kinds import KINDS
from hpcforge.node import files, kept_on_removal, units
from hpcforge.node.events import Json, NodeError
from hpcforge.node.kinds import Known, handler, made, resources
from hpcforge.node.receipt import Receipt
from hpcforge.node.verbs import of_kind

if TYPE_CHECKING:
    from hpcforge.kinds.resource import Resource
    from hpcforge.node.requests import DesiredRoleRequest, LessRequest, OwnedRequest, WorkRequest

_MANNER = ("on_remove", "leaves", "disrupts")  # the removal of a role, and its effect on jobs
# Directories first: the parent of a file may be a resource of its own.
_IN_TURN = sorted(KINDS, key=lambda kind: kind != "directories")
# The field that names one of each. A role's own code makes trees.
KEYS = {**{kind.name: kind.key for kind in KINDS.values()}, "units": "name", "trees": "path"}


def intend(receipt: Receipt, work: Sequence[WorkRequest], lacking: Collection[str] = ()) -> Receipt:
    """Add the resources that these roles own or will change to the receipt; `lacking` are packages to be installed."""
    roles = {role: _copied(entry) for role, entry in receipt.roles.items()}
    paths = {path for entry in roles.values() for path in made_for(entry)}
    before = _units_before(roles, work)
    for role in work:
        entry = roles.setdefault(role["role"], _empty())
        entry.update({key: value for key, value in _owns(role).items() if key in _MANNER})
        entry["packages"] += [
            name for name in role.get("packages", ()) if name in lacking and name not in entry["packages"]
        ]
        others = [other_entry for name, other_entry in roles.items() if name != role["role"]]
        for kind in _IN_TURN:
            changes = {getattr(item, KEYS[kind]): item for item in resources(role, KINDS[kind])}
            for name in _names(role, kind):
                record, change = (
                    entry[kind].get(name, _first(other_entry[kind].get(name) for other_entry in others)),
                    changes.get(name),
                )
                if record is None:
                    record = handler(kind).own(name, change, paths)
                if change:
                    record = _renewed(record, change)
                if record is not None:
                    entry[kind][name] = record
        for path in _names(role, "trees"):
            entry["trees"][path] = _tree(path, entry["trees"].get(path), paths, coded=role["role"] in receipt.opaque)
        entry["units"].update({name: before[name] for name in _names(role, "units") if name in before})
    return receipt._replace(roles=roles)


def without_packages(receipt: Receipt, names: Collection[str]) -> Receipt:
    """Return the receipt without packages whose installation failed."""
    roles = {
        role: {**entry, "packages": [name for name in entry["packages"] if name not in names]}
        for role, entry in receipt.roles.items()
    }
    return receipt._replace(roles=roles)


def written(receipt: Receipt, work: Sequence[WorkRequest]) -> Receipt:
    """Return the receipt once these roles' resources are as desired: their earlier states are forgotten."""
    desired = {(kind, item[KEYS[kind]]) for role in work for kind in KINDS for item in of_kind(role, kind)}
    return _with_records(
        receipt, lambda kind, name, record: _without_was(record) if (kind, name) in desired else record
    )


def restore(receipt: Receipt, states: Mapping[str, Json | None]) -> Receipt:
    """Return the receipt once these files, by path, are restored to their state before the last change."""

    def back(kind: str, name: str, record: Known) -> Known:
        if kind != "files" or name not in states:
            return record
        return {**_without_was(record), "digest": (states[name] or {}).get("kept")}

    return _with_records(receipt, back)


def regained(receipt: Receipt, owned: Mapping[str, Json]) -> Receipt:
    """Return the receipt once files that it had forgotten, by role and path, exist again."""
    roles = dict(receipt.roles)
    for role, file_entries in owned.items():
        entry = _copied(roles.get(role, _empty()))
        entry["files"].update(file_entries)
        roles[role] = entry
    return receipt._replace(roles=roles)


def record_of(receipt: Receipt, kind: str, name: str) -> Known | None:
    """Return the receipt's entry of a resource, of any role."""
    return _first(entry[kind].get(name) for entry in receipt.roles.values())


def put_last(receipt: Receipt, role: str, kind: str, resource: Resource) -> Json:
    """Return `put`: whether the desired state was put last, so that another program changed it since."""
    record = receipt.roles.get(role, {}).get(kind, {}).get(getattr(resource, KEYS[kind]))
    return (
        {"put": "was" not in record and record.get("digest") == digest_of(resource)} if isinstance(record, dict) else {}
    )


def last_written(receipt: Receipt, role: str, kind: str, name: str, digest: str | None) -> str | None:
    """Return the digest of hpcforge's last write where `digest` is now; None without a write.

    After a run was interrupted while it wrote, both the earlier and the new content count as hpcforge's.
    """
    record = receipt.roles.get(role, {}).get(kind, {}).get(name) or {}
    cut_off = "was" in record and record["was"] == digest
    return digest if cut_off else record.get("digest")


def held_secret(receipt: Receipt, kind: str, name: str) -> bool:
    """Return whether hpcforge ever wrote a secret there: then the old content is never shown."""
    record = record_of(receipt, kind, name)
    return isinstance(record, dict) and bool(record.get("secret"))


def surplus(receipt: Receipt, desired: Sequence[DesiredRoleRequest]) -> Json:
    """Return, by role, the receipt's resources that no desired role has, and those of them that stay; without empty
    entries.

    Earlier directories are not reported. Earlier accounts are: a user who is removed from the blueprint can still log
    in.
    """
    roles = {role["role"] for role in desired}
    desired_names = {
        kind: {item[key] for role in desired for item in of_kind(role, kind)} for kind, key in KEYS.items()
    }
    desired_names["packages"] = {name for role in desired for name in role.get("packages", ())}
    by_role: Json = {}
    for role, entry in reversed(list(receipt.roles.items())):
        leftovers: Json = {}
        removals = {
            kind: [name for name in entry[kind] if name not in desired_names[kind]] for kind in ("packages", "trees")
        }
        for kind, names in _removable(entry).items():
            leftovers[kind] = [name for name in names if name not in desired_names[kind]]
            desired_names[kind] |= set(names)  # two roles may share a resource: it is reported once
        entire, coded = role not in roles, role in receipt.opaque
        if any(leftovers.values()) or (entire and coded):
            stays = kept_on_removal.expected(role, entry, {**leftovers, **removals}, entire, coded)
            does = entry["disrupts"] if leftovers["trees"] else "none"
            answer = {**leftovers, "on_remove": entry["on_remove"], "stays": stays, "disrupts": does}
            by_role[role] = {key: value for key, value in answer.items() if value and value != "none"}
    return by_role


def unowned(receipt: Receipt, desired: Sequence[DesiredRoleRequest]) -> list[str]:
    """Return the desired roles with resources that the receipt lacks."""
    return [role["role"] for role in desired if _is_unowned(role, receipt.roles.get(role["role"]))]


def _is_unowned(role: DesiredRoleRequest, entry: Json | None) -> bool:
    names = [(kind, item[key]) for kind, key in KEYS.items() for item in of_kind(role, kind)]
    if entry is None:
        return bool(names or role.get("packages") or role.get("leaves") or role.get("opaque"))
    return list(role.get("leaves", ())) != entry["leaves"] or any(name not in entry[kind] for kind, name in names)


def forget(receipt: Receipt, work: Sequence[LessRequest]) -> Receipt:
    """Return the receipt without the removed parts of these roles (`{"role", "files": [path], ...}`).

    A role with only packages left is removed, unless its work has `"wanted": true`: the node keeps the role.
    """
    removed = {kind: {name for role in work for name in of_kind(role, kind)} for kind in (*KEYS, "packages")}
    roles, opaque, reboots = {}, dict(receipt.opaque), dict(receipt.reboots)
    for role, old in receipt.roles.items():
        entry = _copied(old)
        for kind in KEYS:
            entry[kind] = {name: value for name, value in entry[kind].items() if name not in removed[kind]}
        entry["packages"] = [name for name in entry["packages"] if name not in removed["packages"]]
        removable = _removable({**entry, "on_remove": "purge"})
        leaves = any(removal["role"] == role and not removal.get("wanted") for removal in work)
        if not leaves or any(removable[kind] for kind in KEYS):
            roles[role] = entry
            continue
        opaque.pop(role, None)
        reboots.pop(role, None)
        if entry["packages"]:
            roles[role] = {**_empty(), "packages": entry["packages"], "on_remove": entry["on_remove"]}
    return receipt._replace(roles=roles, opaque=opaque, reboots=reboots, restarts=receipt.restarts - removed["units"])


def digest_of(resource: Resource) -> str:
    """Return a digest that identifies the desired state of a resource."""
    fields = vars(resource)
    if "digest" in fields:
        return str(fields["digest"])
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def _with_records(receipt: Receipt, change: Callable[[str, str, Known], Known]) -> Receipt:
    roles = {
        role: {
            **entry,
            **{kind: {name: change(kind, name, record) for name, record in entry[kind].items()} for kind in KINDS},
        }
        for role, entry in receipt.roles.items()
    }
    return receipt._replace(roles=roles)


def _renewed(record: Known, change: Resource) -> Known:
    """Return a record with the new digest, and the last one as `was`; `secret`: its content is never shown."""
    digest = digest_of(change)
    if not isinstance(record, dict):
        return record
    if getattr(change, "secret", None) or getattr(change, "fills", ()):
        record = {**record, "secret": True}
    return record if record.get("digest") == digest else {**record, "digest": digest, "was": record.get("digest")}


def _without_was(record: Known) -> Known:
    return {key: value for key, value in record.items() if key != "was"} if isinstance(record, dict) else record


def _empty() -> Json:
    return {"packages": [], **{kind: {} for kind in KEYS}, "leaves": [], "on_remove": "stop", "disrupts": "none"}


def _copied(entry: Json) -> Json:
    return {**entry, "packages": list(entry["packages"]), **{kind: dict(entry[kind]) for kind in KEYS}}


def _names(role: WorkRequest, kind: str) -> Iterator[str]:
    """Return a role's own resources of a kind by name, resources to be changed first."""
    changing = [item[KEYS[kind]] for item in of_kind(role, kind)]
    return iter(dict.fromkeys([*changing, *of_kind(_owns(role), kind)]))


def _owns(role: WorkRequest) -> OwnedRequest:
    return role.get("owns", {})


def _first(values: Iterator[object]) -> object | None:
    return next((value for value in values if value is not None), None)


def made_for(entry: Json) -> Iterator[str]:
    """Yield the directories that were made for a role's resources."""
    kinds = (*KINDS, "trees")
    yield from (path for kind in kinds for record in entry[kind].values() for path in made(record))


def _removable(entry: Json) -> Mapping[str, list[str]]:
    return {
        "packages": list(entry["packages"]) if entry["on_remove"] == "purge" else [],
        **{kind: [name for name, record in entry[kind].items() if record != []] for kind in KEYS},
    }


def _tree(path: str, record: list[str] | None, paths: set[str], coded: bool) -> list[str]:
    """Return the missing paths of a tree; with `coded` also those made under an hpcforge without records."""
    if record is not None:
        return record
    return [path, *files.parents(path, paths)] if coded else list(handler("directories").own(path, None, paths))


def _units_before(roles: Mapping[str, Json], work: Sequence[WorkRequest]) -> Mapping[str, Json]:
    """Return the present states of units that are new in a role, or the recorded ones from before another role."""
    recorded = {name: before for entry in roles.values() for name, before in entry["units"].items()}
    fresh = dict.fromkeys(name for role in work for name in _names(role, "units") if name not in recorded)
    try:
        states = units.query(list(fresh))
    except NodeError:
        return recorded  # systemd does not answer: their states are recorded when they are started
    return {**recorded, **{name: {"enabled": unit.enabled, "active": unit.runs} for name, unit in states.items()}}
