"""Partitions of slurm.conf, and the node sets that they name. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace

from pydantic import TypeAdapter

from hpcforge.blueprint import values as v
from hpcforge.starter.machines import ALL, SiteMachine, SitePartition
from hpcforge.starter.readers.slurm_settings import SHOWN_DEFAULTS, Settings, problem
from hpcforge.starter.readers.slurm_words import Fields, Ledger, Statement, Word, split

NAME: TypeAdapter[str] = TypeAdapter(v.PartitionName)
_HERE = ("partitionname", "nodes", "default", "maxtime", "state")
_TIME = re.compile(r"(?:(\d{1,4})-)?(\d{1,7})(?::(\d{1,5}))?(?::(\d{1,5}))?")
_LATER = "Slurm takes the last partition with Default=YES"
_NO_NODES = "it has no node that is in the blueprint"


def partitions(
    records: Sequence[Statement],
    workers: Sequence[SiteMachine],
    shown: Mapping[str, Sequence[str]],
    ledger: Ledger,
    settings: Settings,
) -> tuple[SitePartition, ...]:
    """Return the partitions of a file, and those that its nodes name themselves (`shown`)."""
    sets = dict(_node_sets(records, workers, ledger))
    usual: dict[str, Word] = {}
    taken: dict[str, SitePartition] = {}
    default: Word | None = None
    for record in records:
        if record.kind != "partitionname":
            continue
        name = record.words["partitionname"]
        if name.value.upper() == "DEFAULT":
            ledger.take(name)
            usual |= {key: word for key, word in record.words.items() if key != "partitionname"}
            continue
        fields = Fields(record.words, usual, ledger)
        reason = "a partition of this name stands before it" if name.value in taken else problem(NAME, name.value)
        nodes = () if reason else _nodes(fields, sets, workers, ledger)
        if reason or not nodes:
            for word in record.words.values():
                ledger.leave(word, reason or _NO_NODES)
            continue
        ledger.take(name)
        partition = _partition(name.value, nodes, fields, settings)
        if partition.default and default:
            ledger.leave(default, _LATER)
        default = fields.get("default") if partition.default else default
        taken[name.value] = partition
    last = next((name for name, partition in reversed(taken.items()) if partition.default), None)
    result = [replace(partition, default=name == last) for name, partition in taken.items()]
    others = [SitePartition(name, tuple(nodes)) for name, nodes in shown.items() if name not in taken]
    if others and not last:
        others[0] = replace(others[0], default=True)
    return (*result, *others)


def _partition(name: str, nodes: tuple[str, ...], fields: Fields, settings: Settings) -> SitePartition:
    words = {**fields.usual, **fields.words}
    default = fields.get("default")
    limit = fields.get("maxtime")
    state = fields.get("state")
    time = max_time(limit.value) if limit else "infinite"
    if limit and time is None:
        fields.ledger.leave(limit, "it is not a time limit")
    if state and state.value.upper() != "UP":
        fields.ledger.leave(state, "hpcforge makes each partition UP")
    taken: dict[str, str] = {}
    for key, word in words.items():
        if key in _HERE or (settings.shown and word.value.upper() in SHOWN_DEFAULTS):
            if key not in _HERE:
                fields.ledger.take(word)
            continue
        if reason := settings.of_partition(word):
            fields.ledger.leave(word, reason)
        else:
            taken[settings.spelled(word.key)] = fields.ledger.take(word)
    is_default = default is not None and default.value.upper() in ("YES", "UP", "TRUE", "1")
    return SitePartition(name, nodes, is_default, time, taken)


def max_time(text: str) -> str | None:
    """Return a time limit of Slurm as a blueprint has it, rounded up to minutes as Slurm does; None: it is none."""
    if text.upper() in ("INFINITE", "UNLIMITED", "-1"):
        return "infinite"
    if not (parts := _TIME.fullmatch(text)):
        return None
    days, first, second, third = (None if part is None else int(part) for part in parts.groups())
    if days is not None or third is not None:
        seconds = (days or 0) * 86_400 + (first or 0) * 3600 + (second or 0) * 60 + (third or 0)
    else:
        seconds = (first or 0) * 60 + (second or 0)
    minutes = -(-seconds // 60)
    if not 0 < minutes < 10_000 * 1440:
        return None
    return f"{minutes // 1440}-{minutes // 60 % 24:02}:{minutes % 60:02}:00"


def _nodes(
    fields: Fields, sets: Mapping[str, Sequence[str]], workers: Sequence[SiteMachine], ledger: Ledger
) -> tuple[str, ...]:
    word = fields.get("nodes")
    if word is None:
        return ()
    known = {machine.name for machine in workers}
    named: dict[str, None] = {}
    for part in split(re.sub(r"\s+", ",", word.value)):
        if part.upper() == "ALL":
            return ALL
        names = sets[part] if part in sets else _short_names(part, ledger)
        _leave_absent(word, part, names, known, ledger)
        named.update(dict.fromkeys(name for name in names if name in known))
    return tuple(machine.name for machine in workers if machine.name in named)


def _node_sets(
    records: Sequence[Statement], workers: Sequence[SiteMachine], ledger: Ledger
) -> Iterator[tuple[str, list[str]]]:
    used = {
        part
        for record in records
        if record.kind == "partitionname" and "nodes" in record.words
        for part in split(re.sub(r"\s+", ",", record.words["nodes"].value))
    }
    every = [machine.name for machine in workers]
    for record in records:
        if record.kind != "nodeset":
            continue
        name, nodes, feature = (record.words.get(key) for key in ("nodeset", "nodes", "feature"))
        if name is None or name.value not in used:
            for word in record.words.values():
                ledger.leave(word, "no partition uses this set of nodes")
            continue
        ledger.take(name)
        having = [machine.name for machine in workers if feature and feature.value in machine.features]
        if feature and having:
            ledger.take(feature)
        elif feature:
            ledger.leave(feature, "no node has this feature")
        listed = _short_names(nodes.value, ledger) if nodes else []
        if nodes and nodes.value.upper() == "ALL":
            listed = every
        if nodes:
            ledger.take(nodes)
            _leave_absent(nodes, nodes.value, listed, set(every), ledger)
        members = {*listed, *having}
        yield name.value, [each for each in every if each in members]


def _short_names(hostlist: str, ledger: Ledger) -> list[str]:
    return [ledger.node_name(name) for name in ledger.names(hostlist)]


def _leave_absent(word: Word, part: str, names: Sequence[str], known: Set[str], ledger: Ledger) -> None:
    """Name the nodes of a part of a word that are not in the blueprint; with no name, the part itself."""
    absent = [name for name in names if name not in known]
    if absent or not names:
        text = part if len(absent) == len(names) else ",".join(absent)
        ledger.leave_part(word, text, "there is no such node in the blueprint")
