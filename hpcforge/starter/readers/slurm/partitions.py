"""Partitions, node sets and GPUs of slurm.conf and gres.conf. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from pydantic import TypeAdapter

from hpcforge.blueprint import values as v
from hpcforge.starter.machines import ALL, SiteMachine, SitePartition
from hpcforge.starter.readers.slurm_settings import SHOWN_DEFAULTS, Settings, problem
from hpcforge.starter.readers.slurm_words import Fields, Ledger, Statement, Word, split

# GPUs: `Gres` of slurm.conf, and the lines of gres.conf.

MOST_GPUS = 16  # GPUs of a node in a blueprint
_SLICES = 7  # slices of a GPU with MIG
_MIG = re.compile(r"(?:(.*?)[_.-])?([1-7])g\.\d{1,4}gb(?:\+.*)?")
_COUNT = re.compile(r"\d{1,9}[kmgtp]?")
_OTHERS = {
    "mps": "hpcforge has no MPS: `shards` of the node let jobs share a GPU",
    "shard": "`shards` of the node sets it",
}
_NO_PLACE = "a blueprint has no key for this resource"
_INSTANCES = "`mig` of the node sets instances of GPUs"
_NEAR = "hpcforge reads from the machine which cores are near a GPU"
_ONE_MODEL = f"a node has GPUs of one model in a blueprint, {MOST_GPUS} at most"
_NOT_IN_SLURM_CONF = "slurm.conf gives no node these GPUs"


@dataclass(frozen=True)
class GresGpus:
    """GPUs of a node. `guesses` names what their instances say alone."""

    model: str | None
    count: int
    guesses: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Part:
    text: str
    name: str
    kind: str
    count: int
    rest: str  # further parts in Slurm's output or input: (S:0-1), no_consume


def _part(text: str) -> _Part:
    body, _, place = text.partition("(")
    name, *fields = body.lower().split(":")
    words = [field for field in fields if field and field != "no_consume"]
    count = words.pop() if words and _COUNT.fullmatch(words[-1]) else "1"
    number = int(count) if count.isdecimal() else MOST_GPUS + 1
    return _Part(text, name.strip(), ":".join(words), number, place or ("no_consume" if "no_consume" in fields else ""))


def gpus(word: Word | None, ledger: Ledger) -> GresGpus | None:
    """Return the GPUs of a `Gres`: the most frequent type; the others are omitted."""
    if word is None:
        return None
    full: Counter[str] = Counter()
    slices: Counter[str] = Counter()
    texts: dict[str, list[str]] = {}
    for part in map(_part, split(word.value)):
        if part.name != "gpu":
            ledger.leave_part(word, part.text, _OTHERS.get(part.name, _NO_PLACE))
        elif mig := _MIG.fullmatch(part.kind):
            ledger.leave_part(word, part.text, _INSTANCES)
            slices[mig[1] or ""] += part.count * int(mig[2])
        else:
            full[part.kind] += part.count
            texts.setdefault(part.kind, []).append(part.text)
            if part.rest:
                ledger.leave_part(word, part.text, _NEAR if part.rest[0] in "SI" else _NO_PLACE)
    if slices[""] and len(kinds := {*full, *slices} - {""}) == 1:
        slices[kinds.pop()] += slices.pop("")
    total = full + Counter({kind: -(-number // _SLICES) for kind, number in slices.items()})
    if not total:
        return None
    model, count = total.most_common(1)[0]
    for kind, of_kind in texts.items():
        if kind != model or count > MOST_GPUS:
            for text in of_kind:
                ledger.leave_part(word, text, _ONE_MODEL)
    return GresGpus(model or None, count, ("number of GPUs",) if slices[model] else ()) if count <= MOST_GPUS else None


@dataclass(frozen=True)
class GresLine:
    """A line of gres.conf with GPUs. `nodes`: None for each node that has any."""

    nodes: frozenset[str] | None
    model: str | None
    count: int
    words: Mapping[str, Word]


def gres_lines(records: Iterable[Statement], ledger: Ledger) -> list[GresLine]:
    """Return the lines of gres.conf that have GPUs. Their words stay in the ledger until a node takes them."""
    lines: list[GresLine] = []
    for record in records:
        name = record.words["name"].value.lower() if "name" in record.words else "gpu"
        model = record.words["type"].value.lower() if "type" in record.words else None
        if "name" not in record.words:
            continue
        if name != "gpu" or _MIG.fullmatch(model or "") or "multiplefiles" in record.words:
            reason = _INSTANCES if name == "gpu" else _OTHERS.get(name, _NO_PLACE)
            for word in record.words.values():
                ledger.leave(word, reason)
            continue
        number = record.words["count"].value if "count" in record.words else ""
        count = int(number) if number.isdecimal() and len(number) < 10 else 1
        if "file" in record.words:
            count = len(ledger.names(record.words["file"].value))
            if number and number != str(count):
                ledger.leave(record.words["count"], f"File has {count} files")
        nodes = None
        if "nodename" in record.words:
            listed = ledger.names(record.words["nodename"].value)
            nodes = frozenset(map(ledger.node_name, listed))
        lines.append(GresLine(nodes, model, count, record.words))
    return lines


def by_node(lines: Sequence[GresLine]) -> dict[str | None, list[GresLine]]:
    """Return the lines by the names of their nodes; None has lines without a node's name."""
    index: dict[str | None, list[GresLine]] = {}
    for line in lines:
        for name in line.nodes if line.nodes is not None else (None,):
            index.setdefault(name, []).append(line)
    return index


def with_gres_conf(stated: GresGpus | None, lines: Sequence[GresLine], ledger: Ledger) -> GresGpus | None:
    """Return the GPUs of a node with the type that gres.conf has where slurm.conf has none."""
    if stated is None or not lines:
        return stated
    counts: Counter[str | None] = Counter()
    for line in lines:
        counts[line.model] += line.count
    model = stated.model or counts.most_common(1)[0][0]
    same = [line for line in lines if line.model in (None, model)]
    if not stated.model and len(counts) > 1 and model:
        guesses = tuple(dict.fromkeys((*stated.guesses, "number of GPUs")))
        stated = replace(stated, count=min(stated.count, counts[model]), guesses=guesses)
        for word in (word for line in lines if line not in same for word in line.words.values()):
            if word in ledger.unread:
                ledger.leave(word, _ONE_MODEL)
    for line in same:
        for key in ("nodename", "name", "type", "file", "count"):
            if key in line.words:
                ledger.take(line.words[key])
    if (number := sum(line.count for line in same)) != stated.count:
        for line in same:
            for key in ("file", "count"):
                if key in line.words:
                    ledger.leave(line.words[key], f"that is {number} GPUs, and slurm.conf has {stated.count}")
    return replace(stated, model=model)


def reason(word: Word) -> str:
    """Return why a word of gres.conf is left out."""
    key = word.key.lower()
    if key in ("nodename", "name", "type", "file", "count"):
        return _NOT_IN_SLURM_CONF
    return _NEAR if key in ("cores", "cpus", "links") else "hpcforge writes gres.conf itself"


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
    """Return the partitions of a file, and those that only its nodes name (`shown`)."""
    sets = dict(_node_sets(records, workers, ledger))
    usual: dict[str, Word] = {}
    accepted: dict[str, SitePartition] = {}
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
        reason = "a partition of this name stands before it" if name.value in accepted else problem(NAME, name.value)
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
        accepted[name.value] = partition
    last = next((name for name, partition in reversed(accepted.items()) if partition.default), None)
    result = [replace(partition, default=name == last) for name, partition in accepted.items()]
    others = [SitePartition(name, tuple(nodes)) for name, nodes in shown.items() if name not in accepted]
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
    parameters: dict[str, str] = {}
    for key, word in words.items():
        if key in _HERE or (settings.shown and word.value.upper() in SHOWN_DEFAULTS):
            if key not in _HERE:
                fields.ledger.take(word)
            continue
        if reason := settings.of_partition(word):
            fields.ledger.leave(word, reason)
        else:
            parameters[settings.spelled(word.key)] = fields.ledger.take(word)
    is_default = default is not None and default.value.upper() in ("YES", "UP", "TRUE", "1")
    return SitePartition(name, nodes, is_default, time, parameters)


def max_time(text: str) -> str | None:
    """Return Slurm's time limit in a blueprint's form, rounded up to minutes as Slurm does; None for other text."""
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
    worker_names = {machine.name for machine in workers}
    chosen: dict[str, None] = {}
    for part in split(re.sub(r"\s+", ",", word.value)):
        if part.upper() == "ALL":
            return ALL
        names = sets[part] if part in sets else _short_names(part, ledger)
        _leave_absent(word, part, names, worker_names, ledger)
        chosen.update(dict.fromkeys(name for name in names if name in worker_names))
    return tuple(machine.name for machine in workers if machine.name in chosen)


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
        yield name.value, [node for node in every if node in members]


def _short_names(hostlist: str, ledger: Ledger) -> list[str]:
    return [ledger.node_name(name) for name in ledger.names(hostlist)]


def _leave_absent(word: Word, part: str, names: Sequence[str], present: Set[str], ledger: Ledger) -> None:
    """Name the nodes of a part of a word that are not in the blueprint; with no name, the part itself."""
    absent = [name for name in names if name not in present]
    if absent or not names:
        text = part if len(absent) == len(names) else ",".join(absent)
        ledger.leave_part(word, text, "the blueprint has no such node")
