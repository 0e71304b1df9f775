"""QOS, accounts and their users in Slurm's accounting database: sacctmgr reads and changes them.

The receipt has `{"before": whether it existed before hpcforge}`: an earlier one stays. A QOS that a partition names is
added before slurmctld starts, without settings, with hpcforge as its description (see the role `slurm_controller`).
All settings of the table are compared, also settings that are not set: a limit that is no longer desired is removed.
Before slurm.conf names a database there are no associations; if slurmdbd does not answer after that, they are unknown.
"""

from __future__ import annotations

import pwd
import re
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Optional

from hpcforge.node import checks, commands, files
from hpcforge.node.events import EventReporter, Json, NodeError, readable
from hpcforge.node.kinds import KeptItem, SpaceNeed

if TYPE_CHECKING:
    from hpcforge.kinds.associations import Association

_CONFIG = "/etc/slurm/slurm.conf"
_TIMEOUT_S = 30
_SILENT = "the accounting database does not answer"
_REGISTERS_S = 30  # slurmctld registers its cluster with slurmdbd some time after its first answer
_BEFORE = "it existed before hpcforge"
_DESCRIPTION = "hpcforge"  # a QOS that hpcforge added before slurmctld started has it
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,:=/+-]{0,200}")
# The settings that sacctmgr shows, and their values while nothing is set.
_ALL = {"grptres": "", "grpjobs": "", "maxtres": "", "maxwall": ""}
_QOS = {
    **_ALL, "priority": "0", "preempt": "", "preemptmode": "cluster", "maxtresperuser": "", "maxjobsperuser": "",
    "maxsubmitjobsperuser": "",
}  # fmt: skip
_OF_ACCOUNT = {
    **_ALL, "fairshare": "1", "grptresmins": "", "maxjobs": "", "maxsubmitjobs": "", "qos": "", "defaultqos": "",
}  # fmt: skip
_SETTINGS: Mapping[str, Mapping[str, Optional[str]]] = {  # None: unchanged
    "qos": _QOS,
    "account": {**_OF_ACCOUNT, "parent": "root"},
    "user": {**_OF_ACCOUNT, "defaultaccount": None},
}
_TABLES: tuple[tuple[list[str], tuple[str, ...]], ...] = (  # the query, and its columns
    (["qos"], ("name", "description", *_QOS)),
    (["association", "wopl"], ("account", "user", "partition", "parentname", *_OF_ACCOUNT)),
    (["user"], ("user", "defaultaccount")),
)
_TRES = ("grptres", "grptresmins", "maxtres", "maxtresperuser")
_LISTS = ("qos", "preempt")
_MIB = {"M": 1.0, "G": 2.0**10, "T": 2.0**20, "P": 2.0**30}

Settings = dict[str, str]


def compare(association: Association) -> Json | None:
    """Return the differences in the database."""
    state: Json = {"name": association.name, "exists": False, "found": None, "wanted": None, "unknown": None}
    if not _set_up():
        return state
    try:
        present = _database().get(association.name)
    except NodeError:
        return {**state, "unknown": _SILENT}
    if present is None:
        return state
    changes = _changes(association, present)
    if not changes:
        return None
    old = {key: present[key] or "-1" for key in changes}
    return {**state, "exists": True, "found": _words(old), "wanted": _words(changes)}


def obstacle(association: Association, record: Json | None) -> str | None:  # noqa: ARG001
    """Return the reason for which sacctmgr would refuse it."""
    entity = _entity(association.name)
    if entity is None:
        return f"{association.name!r} must be `qos NAME`, `account NAME` or `user NAME account=NAME`"
    for word in association.settings.split():
        key, _, value = word.partition("=")
        if key not in _SETTINGS[entity] or not value or not (_WORD.fullmatch(value) or value == "-1"):
            return f"{association.name}: unknown setting {word!r}; use {', '.join(_SETTINGS[entity])}"
    return None


def put(association: Association) -> str | None:
    """Add it, or change the settings that differ, with one command; the database is read only once for all.

    A user without an account on this node is not added: slurmctld looks up each uid once, and would refuse the user's
    jobs even if the directory has the account later. A check of the role names such users.
    """
    present, words = _awaited().get(association.name), association.name.split()
    if present is None and words[0] == "user" and not _is_known(words[1]):
        return None
    if present is None:
        _sacctmgr("add", *_entity_words(words), *association.settings.split())
        return "added"
    changes = _changes(association, present)
    if not changes:
        return None
    for place, settings in _by_place(words, changes):
        _sacctmgr("modify", *place, "set", *_words(settings).split())
    return _words(changes)


def own(name: str, change: Association | None, made: set[str]) -> Json | None:  # noqa: ARG001
    """Return whether it existed before hpcforge; None if there is nothing to own yet."""
    if change:
        return {"before": _was_there(_awaited().get(name))}
    return {"before": _was_there(_database()[name])} if _set_up() and is_there(name) else None


def restore(name: str, record: Json, report: EventReporter) -> str | None:
    """Delete it. Accounts below an account move to its parent; users that hpcforge did not add prevent it."""
    present = _database().get(name)
    if record["before"] or present is None:
        if present is not None:
            report.warning(f"{name}: {_BEFORE}, so it stays in the accounting database")
        return None
    words = name.split()
    try:
        if words[0] == "account":
            _empty(words[1], present["parent"])
        if words[0] == "user":
            _keep_a_default(words[1], words[2].partition("=")[2])
        _sacctmgr("delete", *_entity_words(words))
    finally:
        _database.cache_clear()
    return "removed; its jobs stay in the database"


def is_there(name: str) -> bool:
    """Return whether it exists; False if the database does not answer."""
    try:
        return name in _database()
    except NodeError:
        return False


def stays(name: str, record: Json) -> KeptItem | None:
    """Return the earlier settings."""
    return ("association", name, _BEFORE) if record["before"] else None


def room(association: Association) -> list[SpaceNeed]:  # noqa: ARG001
    """Return the space for some lines of a database that may be elsewhere."""
    return []


def _was_there(settings: Settings | None) -> bool:
    """Return whether another program or person added it."""
    return settings is not None and settings.get("description") != _DESCRIPTION


def _is_known(user: str) -> bool:
    """Return whether the node or its directory service has a user of this name."""
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def _set_up() -> bool:
    """Return whether slurm.conf names an accounting database."""
    return "\nAccountingStorageHost=" in (files.read_text(_CONFIG) or "")


def _awaited() -> Mapping[str, Settings]:
    """Return the present settings, once the database answers for this cluster."""
    until = time.monotonic() + _REGISTERS_S
    while True:
        try:
            return _database()
        except NodeError:
            if time.monotonic() > until:
                raise
        time.sleep(0.5)


@lru_cache(maxsize=None)
def _database() -> Mapping[str, Settings]:
    """Return all QOS, accounts and users in accounts, by name; without inherited settings."""
    tables = checks.side_by_side([partial(_shown, *table) for table in _TABLES])  # each mostly waits for slurmdbd
    for table in tables:
        if isinstance(table, str):
            raise NodeError(table)
    qos, rows, users = (table for table in tables if not isinstance(table, str))
    entities = {f"qos {row.pop('name')}": row for row in qos}
    if not any(row["account"] == "root" for row in rows):  # root always exists: an answer without it is invalid
        raise NodeError("sacctmgr shows no account root: does slurmdbd reach its database?")
    defaults = {row["user"]: row["defaultaccount"] for row in users}
    for row in rows:
        account, user, partition, parent = (row.pop(key) for key in ("account", "user", "partition", "parentname"))
        if partition:
            continue  # limited to a partition: not hpcforge's
        if user:
            entities[f"user {user} account={account}"] = {**row, "defaultaccount": defaults.get(user, "")}
        else:
            entities[f"account {account}"] = {**row, "parent": parent}
    return entities


def _shown(query: list[str], columns: tuple[str, ...]) -> list[Settings]:
    """Return the output of sacctmgr, a mapping of columns for each line; skip a line with another number of cells."""
    output = _sacctmgr("show", *query, f"format={','.join(columns)}")
    cells = (line.split("|") for line in output.splitlines())
    return [dict(zip(columns, row)) for row in cells if len(row) == len(columns)]


def _sacctmgr(*words: str) -> str:
    """Run it, without questions. Raises NodeError with its own words."""
    outcome = commands.run(["sacctmgr", "--immediate", "--noheader", "--parsable2", *words], _TIMEOUT_S)
    if outcome.rc != 0:
        reason = (
            f"no end within {_TIMEOUT_S} s" if outcome.timed_out else readable(outcome.stderr or outcome.stdout, 500)
        )
        raise NodeError(f"`sacctmgr {' '.join(word for word in words if not word.startswith('format='))}`: {reason}")
    return outcome.whole("sacctmgr")


def _entity(name: str) -> str | None:
    """Return the entity that a name belongs to; None for any other name."""
    entity, *rest = name.split()
    if entity not in _SETTINGS or not rest or not all(map(_WORD.fullmatch, rest)):
        return None
    of_user = len(rest) == 2 and rest[1].startswith("account=")
    return entity if (of_user if entity == "user" else len(rest) == 1) else None


def _changes(association: Association, present: Settings) -> Settings:
    """Return the settings that differ, in sacctmgr's form."""
    settings = dict(word.partition("=")[::2] for word in association.settings.split())
    usual = _SETTINGS[association.name.split()[0]]
    changes = {}
    for key, default in usual.items():
        new = settings.get(key, default)
        if new is None or _plain(key, new) == _plain(key, present[key]):
            continue
        if key in _TRES:  # sacctmgr leaves omitted TRES unchanged
            desired_tres = _tres(new)
            cleared = [f"{tres}=-1" for tres in _tres(present[key]) if tres not in desired_tres]
            new = ",".join([*filter(None, new.split(",")), *cleared])
        changes[key] = new if new or key in _LISTS else "-1"
    return changes


def _plain(key: str, value: str) -> object:
    """Return a value for comparison: order and unit do not count."""
    if key in _TRES:
        return _tres(value)
    if key in _LISTS:
        return frozenset(filter(None, value.lower().split(",")))
    return "" if value == "-1" else value.lower()


def _tres(value: str) -> dict[str, float | str]:
    """Return the amount of each TRES, by name."""
    words = (word.partition("=") for word in value.split(","))
    return {name: _amount(amount) for name, _, amount in words if name}


def _amount(text: str) -> float | str:
    """Return a number, memory in MiB."""
    factor = _MIB.get(text[-1:].upper())
    try:
        return float(text[:-1]) * factor if factor else float(text)
    except ValueError:
        return text


def _words(settings: Settings) -> str:
    return " ".join(f"{key}={value}" for key, value in settings.items())


def _by_place(words: list[str], changes: Settings) -> Iterator[tuple[list[str], Settings]]:
    """Yield entities with their changes: a default account belongs to the user, not to an association."""
    of_user = {key: value for key, value in changes.items() if key == "defaultaccount"}
    rest = {key: value for key, value in changes.items() if key not in of_user}
    entity, *place = _entity_words(words)
    if rest:
        yield [entity, "where", *place], rest
    if of_user:
        yield [entity, "where", place[0]], of_user


def _entity_words(words: list[str]) -> list[str]:
    """Return the words of a name, so that sacctmgr reads none as a keyword."""
    return [words[0], f"name={words[1]}", *words[2:]]


def _empty(account: str, parent: str) -> None:
    """Move the accounts below one to its parent: deleting it would delete them. NodeError where users are in it."""
    inside = f" account={account}"
    users = sorted(name.split()[1] for name in _database() if name.startswith("user ") and name.endswith(inside))
    if users:
        raise NodeError(
            f"account {account} has users that hpcforge did not add: {', '.join(users)}; remove them "
            f"(sacctmgr delete user name=... account={account}), or add them to the blueprint"
        )
    for name, settings in _database().items():
        if settings.get("parent") == account:
            _sacctmgr("modify", "account", "where", f"name={name.split()[1]}", "set", f"parent={parent}")


def _keep_a_default(user: str, account: str) -> None:
    """Give a user another default account before this one is removed; a user without another one is removed, too."""
    accounts = [name.partition("account=")[2] for name in _database() if name.startswith(f"user {user} ")]
    others = [name for name in accounts if name != account]
    if others and _database()[f"user {user} account={account}"]["defaultaccount"] == account:
        _sacctmgr("modify", "user", "where", f"name={user}", "set", f"defaultaccount={others[0]}")
