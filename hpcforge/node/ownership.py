"""Whose something is: what a role comes to own on this node, what is left over of roles that are wanted no more.

Ownership is taken down before anything is changed, with what was there before, so that a run that is cut off anywhere
leaves a receipt that knows at least of all that it touched.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from hpcforge.node import accounts, files, originals, remains, units
from hpcforge.node.events import Json, NodeError
from hpcforge.node.receipt import Receipt

UNKNOWN = "unknown"
_MANNER = ("on_remove", "leaves", "disrupts")  # how a role goes, and what it does to jobs
# Kinds, and what names one of each. A tree is what a role's own code makes.
KINDS = {"files": "path", "directories": "path", "units": "name", "accounts": "name", "trees": "path"}


def intend(receipt: Receipt, work: Sequence[Json], lacking: Collection[str] = ()) -> Receipt:
    """The receipt with all that these roles own or are about to change; `lacking` are packages to be installed."""
    roles = {role: _copied(entry) for role, entry in receipt.roles.items()}
    made = {path for entry in roles.values() for kind in _made(entry) for path in kind}
    before = _units_before(roles, work)
    for role in work:
        entry = roles.setdefault(role["role"], _empty())
        entry.update({key: value for key, value in _owns(role).items() if key in _MANNER})
        entry["packages"] += [
            name for name in role.get("packages", ()) if name in lacking and name not in entry["packages"]
        ]
        others = [other for name, other in roles.items() if name != role["role"]]
        for kind, look in (("directories", _directory), ("files", _file), ("accounts", _account)):
            changes = {item[KINDS[kind]]: item for item in role.get(kind, ())}
            for name in _names(role, kind):
                known = entry[kind].get(name, _first(other[kind].get(name) for other in others))
                found = look(name, changes.get(name), known, made)
                if found is not None:
                    entry[kind][name] = found
        for path in _names(role, "trees"):
            known = entry["trees"].get(path)
            entry["trees"][path] = _tree(path, known, made, coded=role["role"] in receipt.opaque)
        entry["units"].update({name: before[name] for name in _names(role, "units") if name in before})
    return receipt._replace(roles=roles)


def without_packages(receipt: Receipt, names: Collection[str]) -> Receipt:
    """The receipt without packages that could not be installed after all."""
    roles = {
        role: {**entry, "packages": [name for name in entry["packages"] if name not in names]}
        for role, entry in receipt.roles.items()
    }
    return receipt._replace(roles=roles)


def written(receipt: Receipt, work: Sequence[Json]) -> Receipt:
    """The receipt once these roles' files are what they were to become: what they were until then is forgotten."""
    paths = {file["path"] for role in work for file in role.get("files", ())}
    return _with_files(receipt, lambda path, file: file if path not in paths else _without_was(file))


def put_back(receipt: Receipt, states: Mapping[str, Json | None]) -> Receipt:
    """The receipt once these files, by path, have been put back to what they were before their last change."""
    return _with_files(
        receipt,
        lambda path, file: (
            {**_without_was(file), "digest": (states[path] or {}).get("kept")} if path in states else file
        ),
    )


def regained(receipt: Receipt, owned: Mapping[str, Json]) -> Receipt:
    """The receipt once files that it had forgotten, by role and path, are there again."""
    roles = dict(receipt.roles)
    for role, file_entries in owned.items():
        entry = _copied(roles.get(role, _empty()))
        entry["files"].update(file_entries)
        roles[role] = entry
    return receipt._replace(roles=roles)


def last_written(receipt: Receipt, role: str, path: str, found: str | None) -> str | None:
    """Digest of what we last wrote at a path where `found` is now; null: nothing.

    Where a run was cut off while it wrote, what was there until then is as much what we know as what was to come.
    """
    file = receipt.roles.get(role, {}).get("files", {}).get(path) or {}
    cut_off = "was" in file and file["was"] == found
    return found if cut_off else file.get("digest")


def surplus(receipt: Receipt, wanted: Sequence[Json]) -> Json:
    """By role, what the receipt owns and none of the wanted roles wants, and what of it stays; only what is not empty.

    Directories that were there before us are not spoken of. Accounts that were are: whoever takes a user out is to hear
    that she still gets in.
    """
    roles = {role["role"] for role in wanted}
    kept = {kind: {item[key] for role in wanted for item in role.get(kind, ())} for kind, key in KINDS.items()}
    kept["packages"] = {name for role in wanted for name in role.get("packages", ())}
    found: Json = {}
    for role, entry in reversed(list(receipt.roles.items())):
        left: Json = {}
        going = {kind: [name for name in entry[kind] if name not in kept[kind]] for kind in ("packages", "trees")}
        for kind, names in _removable(entry).items():
            left[kind] = [name for name in names if name not in kept[kind]]
            kept[kind] |= set(names)  # two roles may share one thing: it is told of once
        whole, coded = role not in roles, role in receipt.opaque
        if any(left.values()) or (whole and coded):
            stays = remains.expected(role, entry, {**left, **going}, whole, coded)
            does = entry["disrupts"] if left["trees"] else "none"
            told = {**left, "on_remove": entry["on_remove"], "stays": stays, "disrupts": does}
            found[role] = {key: value for key, value in told.items() if value and value != "none"}
    return found


def unowned(receipt: Receipt, wanted: Sequence[Json]) -> list[str]:
    """Wanted roles of which something is not in the receipt yet."""
    return [
        role["role"]
        for role in wanted
        if role["role"] not in receipt.roles
        or list(role.get("leaves", ())) != receipt.roles[role["role"]]["leaves"]
        or any(
            item[key] not in receipt.roles[role["role"]][kind]
            for kind, key in KINDS.items()
            for item in role.get(kind, ())
        )
    ]


def forget(receipt: Receipt, work: Sequence[Json]) -> Receipt:
    """The receipt without what was removed of these roles (`{"role", "files": [path], ...}`).

    A role of which nothing but packages is left goes, unless its work says `"wanted": true`: it is still to be here.
    """
    gone = {kind: {name for role in work for name in role.get(kind, ())} for kind in (*KINDS, "packages")}
    roles, opaque, reboots = {}, dict(receipt.opaque), dict(receipt.reboots)
    for role, old in receipt.roles.items():
        entry = _copied(old)
        for kind in KINDS:
            entry[kind] = {name: value for name, value in entry[kind].items() if name not in gone[kind]}
        entry["packages"] = [name for name in entry["packages"] if name not in gone["packages"]]
        removable = _removable({**entry, "on_remove": "purge"})
        leaves = any(one["role"] == role and not one.get("wanted") for one in work)
        if not leaves or any(removable[kind] for kind in KINDS):
            roles[role] = entry
            continue
        opaque.pop(role, None)
        reboots.pop(role, None)
        if entry["packages"]:
            roles[role] = {**_empty(), "packages": entry["packages"], "on_remove": entry["on_remove"]}
    return receipt._replace(roles=roles, opaque=opaque, reboots=reboots, restarts=receipt.restarts - gone["units"])


def _with_files(receipt: Receipt, change: Callable[[str, Json], Json]) -> Receipt:
    roles = {
        role: {**entry, "files": {path: change(path, file) for path, file in entry["files"].items()}}
        for role, entry in receipt.roles.items()
    }
    return receipt._replace(roles=roles)


def _without_was(file: Json) -> Json:
    return {key: value for key, value in file.items() if key != "was"}


def _empty() -> Json:
    return {"packages": [], **{kind: {} for kind in KINDS}, "leaves": [], "on_remove": "stop", "disrupts": "none"}


def _copied(entry: Json) -> Json:
    return {**entry, "packages": list(entry["packages"]), **{kind: dict(entry[kind]) for kind in KINDS}}


def _names(role: Json, kind: str) -> Iterator[str]:
    """Names of one kind of resource that a role owns, those that are to be changed first."""
    changing = [item[KINDS[kind]] for item in role.get(kind, ())]
    return iter(dict.fromkeys([*changing, *_owns(role).get(kind, ())]))


def _owns(role: Json) -> Json:
    found: Json = role.get("owns") or {}
    return found


def _first(values: Iterator[object]) -> object | None:
    return next((value for value in values if value is not None), None)


def _made(entry: Json) -> Iterator[Sequence[str]]:
    yield from (file["made"] for file in entry["files"].values())
    yield from entry["directories"].values()
    yield from entry["trees"].values()


def _removable(entry: Json) -> Mapping[str, list[str]]:
    return {
        "packages": list(entry["packages"]) if entry["on_remove"] == "purge" else [],
        "files": list(entry["files"]),
        "directories": [path for path, made in entry["directories"].items() if made],
        "units": list(entry["units"]),
        "accounts": list(entry["accounts"]),
        "trees": [path for path, made in entry["trees"].items() if made],
    }


def _parents(path: str, made: Collection[str]) -> list[str]:
    """Directories above a path that are missing, or that we made, the deepest first."""
    above = []
    while path.count("/") > 1:
        path = path.rpartition("/")[0]
        if path in made or not os.path.lexists(path):
            above.append(path)
    return above


def _file(path: str, change: Json | None, known: Json | None, made: set[str]) -> Json | None:
    if known:
        if not change or change["digest"] == known["digest"]:
            return known
        return {**known, "digest": change["digest"], "was": known["digest"]}
    parents = _parents(path, made)
    made |= set(parents)
    try:
        if change:
            before = originals.keep(path)
            return {"digest": change["digest"], "was": (before or {}).get("kept"), "before": before, "made": parents}
        found = files.look(path)
    except NodeError:
        return None  # what cannot be ours; putting it will fail and say why
    if found is None or found.kind != "file":
        return None  # wanted, not there, and not to be put now: nothing of ours yet
    return {"digest": found.digest, "before": UNKNOWN, "made": []}


def _directory(path: str, _change: Json | None, known: list[str] | None, made: set[str]) -> list[str] | None:
    if known is not None:
        return known
    if os.path.lexists(path):
        return [path, *_parents(path, made)] if path in made else []
    found = [path, *_parents(path, made)]
    made |= set(found)
    return found


def _tree(path: str, known: list[str] | None, made: set[str], coded: bool) -> list[str]:
    """What its role's code has yet to make, or made (`coded`) under a hpcforge that did not write that down."""
    if known is None and coded:
        return [path, *_parents(path, made)]
    return _directory(path, None, known, made) or []


def _account(name: str, _change: Json | None, known: bool | None, _made: set[str]) -> bool | None:
    return known if known is not None else not accounts.is_there(name)


def _units_before(roles: Mapping[str, Json], work: Sequence[Json]) -> Mapping[str, Json]:
    """What units that come to a role are like, or were before another role of ours had them."""
    known = {name: before for entry in roles.values() for name, before in entry["units"].items()}
    fresh = dict.fromkeys(name for role in work for name in _names(role, "units") if name not in known)
    try:
        found = units.query(list(fresh))
    except NodeError:
        return known  # systemd does not answer: they are taken down when they are brought up
    return {**known, **{name: {"enabled": one.enabled, "active": one.runs} for name, one in found.items()}}
