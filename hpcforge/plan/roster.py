"""The roster: the nodes after the last apply. The head keeps it; a missing entry breaks nothing.

A node that is in the roster and not in the blueprint leaves the cluster. Only the roster still has its address and host
keys.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field, ValidationError

from hpcforge.adapters import adapter
from hpcforge.blueprint import values as v
from hpcforge.blueprint.public_keys import HostKey
from hpcforge.cluster.model import Cluster

PATH = "/var/lib/hpcforge/roster.json"  # on the head
SCHEMA_VERSION = 1


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("has characters that cannot be printed")
    return text


Word = Annotated[str, Field(max_length=300), AfterValidator(_printable)]


@dataclass(frozen=True)
class LastRun:
    """The run that wrote the roster."""

    number: Annotated[int, Field(strict=True, ge=0, le=10**9)]
    id: Word
    who: Word  # user@host
    ended_s: Annotated[float, Field(ge=0, le=1e11)]  # seconds since 1970, UTC
    hpcforge: Word  # version
    commit: Word | None = None  # of the blueprint's folder


@dataclass(frozen=True)
class Enrolled:
    """A node that a run has reached."""

    # As strict as the blueprint: names are folded, addresses connected to, keys written into a known_hosts file.
    address: v.Ipv4
    host_keys: tuple[HostKey, ...]  # OpenSSH public keys
    group: Word
    functions: tuple[Word, ...]
    since: Annotated[int, Field(strict=True, ge=0, le=10**9)]  # run number of the first contact


@dataclass(frozen=True)
class Roster:
    """The enrolled nodes. `problem`: the reason that a roster is unreadable; `newer`: a newer hpcforge wrote it."""

    cluster: str = ""
    run: LastRun | None = None
    nodes: Mapping[v.NodeName, Enrolled] = field(default_factory=dict)
    problem: str | None = None
    newer: bool = False


class KnownMachine(NamedTuple):
    """A machine from a source other than the head. Without an address, its keys alone identify it."""

    address: str | None
    host_keys: tuple[str, ...]


def parse_roster(text: str | None, cluster: str) -> Roster:
    """Parse the text of a `roster_document`; return an empty roster without one. Raises no exception."""
    if text is None:
        return Roster()
    try:
        document = json.loads(text)
        version = document["schema"]
        if isinstance(version, int) and version > SCHEMA_VERSION:
            return Roster(problem=f"written by a newer hpcforge (schema {version})", newer=True)
        if document["checksum"] != _checksum(document):
            return Roster(problem=f"damaged ({len(text)} characters)")
        roster: Roster = adapter(Roster).validate_python({key: document[key] for key in ("cluster", "run", "nodes")})
    except ValidationError as error:
        first = error.errors()[0]
        return Roster(problem=f"damaged: {'.'.join(str(part) for part in first['loc'])}: {first['msg']}")
    except (ValueError, KeyError, TypeError, RecursionError):
        return Roster(problem=f"damaged ({len(text)} characters)")
    if roster.cluster != cluster:
        return Roster(problem=f"that of another cluster, {roster.cluster}")
    return roster


def roster_document(roster: Roster) -> dict[str, Any]:
    """Return the document that the head keeps."""
    entries = dataclasses.asdict(roster)
    document = {"schema": SCHEMA_VERSION, **{key: entries[key] for key in ("cluster", "run", "nodes")}}
    document = json.loads(json.dumps(document))  # lists in place of tuples, as after reading
    return {**document, "checksum": _checksum(document)}


def next_roster(
    old: Roster, cluster: Cluster, run: LastRun, reached: Collection[str], removed: Collection[str]
) -> Roster:
    """Return the roster after a run that `reached` some nodes and `removed` others.

    The rest does not change: a node that was not selected, or did not answer, still exists.
    """
    nodes = {name: machine for name, machine in old.nodes.items() if name not in removed}
    for node in cluster.nodes:
        if node.name in reached or node.name in nodes:
            since = nodes[node.name].since if node.name in nodes else run.number
            nodes[node.name] = Enrolled(node.address, node.host_keys, node.group, node.functions, since)
    return Roster(cluster.name, run, nodes)


def strangers(roster: Roster, cluster: Cluster, sources: Sequence[Mapping[str, KnownMachine]]) -> frozenset[str]:
    """Return the roster's nodes that neither the blueprint nor `sources` confirm.

    The head keeps the roster: a compromised head could present any machine as a leaving node, for hpcforge to log in.
    """
    return frozenset(
        name
        for name, machine in leaving(roster, cluster).items()
        if not any(_confirms(nodes.get(name), machine) for nodes in sources)
    )


def without(roster: Roster, nodes: Collection[str]) -> Roster:
    """Return the roster without these nodes."""
    return dataclasses.replace(
        roster, nodes={name: machine for name, machine in roster.nodes.items() if name not in nodes}
    )


def _confirms(known_machine: KnownMachine | None, machine: Enrolled) -> bool:
    if known_machine is None or not machine.host_keys:
        return False
    return known_machine.address in (None, machine.address) and set(machine.host_keys) <= set(known_machine.host_keys)


def leaving(roster: Roster, cluster: Cluster) -> dict[str, Enrolled]:
    """Return the nodes that the blueprint no longer names."""
    return {name: machine for name, machine in roster.nodes.items() if name not in cluster.by_name}


def gone_keys(roster: Roster, cluster: Cluster) -> frozenset[str]:
    """Return the host keys of enrolled machines that are no longer in the blueprint: leaving or replaced ones."""
    present = {key for node in cluster.nodes for key in node.host_keys}
    return frozenset(key for machine in roster.nodes.values() for key in machine.host_keys if key not in present)


def renamed(roster: Roster, cluster: Cluster) -> dict[str, str]:
    """Return, by node of the blueprint, the leaving node with the same address or a host key: the same machine."""
    leaves = leaving(roster, cluster)
    by_mark = {mark: name for name, machine in leaves.items() for mark in (machine.address, *machine.host_keys)}
    old_names = {}
    for node in cluster.nodes:
        before = next((by_mark[mark] for mark in (*node.host_keys, node.address) if mark in by_mark), None)
        if before is not None:
            old_names[node.name] = before
    return old_names


def _checksum(document: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in document.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
