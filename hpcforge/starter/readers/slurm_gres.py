"""GPUs: `Gres` of slurm.conf, and the lines of gres.conf. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hpcforge.starter.readers.slurm_words import Ledger, Statement, Word, split

MOST_GPUS = 16  # of a node in a blueprint
_SLICES = 7  # of a GPU with MIG
_MIG = re.compile(r"(?:(.*?)[_.-])?([1-7])g\.\d{1,4}gb(?:\+.*)?")
_COUNT = re.compile(r"\d{1,9}[kmgtp]?")
_OTHERS = {
    "mps": "hpcforge has no MPS: `shards` of the node let jobs share a GPU",
    "shard": "`shards` of the node has a place for it",
}
_NO_PLACE = "a blueprint has no place for this resource"
_INSTANCES = "`mig` of the node has a place for instances of GPUs"
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
    rest: str  # of what Slurm prints or takes beside: (S:0-1), no_consume


def _part(text: str) -> _Part:
    body, _, place = text.partition("(")
    name, *fields = body.lower().split(":")
    kept = [each for each in fields if each and each != "no_consume"]
    count = kept.pop() if kept and _COUNT.fullmatch(kept[-1]) else "1"
    number = int(count) if count.isdecimal() else MOST_GPUS + 1
    return _Part(text, name.strip(), ":".join(kept), number, place or ("no_consume" if "no_consume" in fields else ""))


def gpus(word: Word | None, ledger: Ledger) -> GresGpus | None:
    """Return the GPUs of a `Gres`: those of the type of which there are most; the rest stays out."""
    if word is None:
        return None
    whole: Counter[str] = Counter()
    slices: Counter[str] = Counter()
    texts: dict[str, list[str]] = {}
    for part in map(_part, split(word.value)):
        if part.name != "gpu":
            ledger.leave_part(word, part.text, _OTHERS.get(part.name, _NO_PLACE))
        elif mig := _MIG.fullmatch(part.kind):
            ledger.leave_part(word, part.text, _INSTANCES)
            slices[mig[1] or ""] += part.count * int(mig[2])
        else:
            whole[part.kind] += part.count
            texts.setdefault(part.kind, []).append(part.text)
            if part.rest:
                ledger.leave_part(word, part.text, _NEAR if part.rest[0] in "SI" else _NO_PLACE)
    if slices[""] and len(kinds := {*whole, *slices} - {""}) == 1:
        slices[kinds.pop()] += slices.pop("")
    total = whole + Counter({kind: -(-number // _SLICES) for kind, number in slices.items()})
    if not total:
        return None
    model, count = total.most_common(1)[0]
    for kind, each in texts.items():
        if kind != model or count > MOST_GPUS:
            for text in each:
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
    """Return the lines by the names of their nodes; None has those that name no node."""
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
            if word in ledger.left:
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
