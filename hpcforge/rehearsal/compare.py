"""Differences of a rehearsal from the real cluster, file by file, each under the stand-in that causes it.

The rules are applied one after the other. After each the roles are compiled again: a change belongs to the stand-in of
that step. Two kinds of differences have no stand-in. One is between the last step and the rehearsal's own compile. The
other is a file that depends on more of the lab than its subnet: the same lab is compiled with another subnet, other
keys and another path on the disk, and its files may differ from the lab's in the subnet alone.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hpcforge.cluster.model import Cluster
from hpcforge.kinds import KINDS
from hpcforge.kinds.files import File
from hpcforge.plan.desired import Desired, DesiredRole
from hpcforge.plan.roles.role import Role
from hpcforge.rehearsal.lab_facts import LabFacts, as_elsewhere, elsewhere
from hpcforge.rehearsal.package_sources import origins, out_of_reach, passed
from hpcforge.rehearsal.stand_ins import StandIn, StandInRule, left_out, rehearsed, rehearsed_roles, steps

Compile = Callable[[Sequence[Role], Cluster], Desired]  # without reading real secrets
Key = tuple[str, str]  # node, and path or role
Texts = Mapping[Key, str]


@dataclass(frozen=True)
class Difference:
    """The same difference of one text on several nodes: the hunks of a unified diff."""

    what: str  # a path; or `ROLE: packages, units, ...`
    nodes: tuple[str, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Explained:
    """A stand-in, and its changes."""

    stand_in: StandIn
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class Compared:
    """A site compared with its rehearsal on these nodes. An `unexplained` difference is a defect."""

    nodes: tuple[str, ...]
    explained: tuple[Explained, ...]
    unexplained: tuple[Difference, ...]


def compare(
    real: Cluster, lab: LabFacts, rules: Sequence[StandInRule], roles: Sequence[Role], own: Desired, compiled: Compile
) -> Compared:
    """Compare the texts for nodes of the real cluster with `own`, those of the rehearsal."""
    nodes = tuple(name for name in real.by_name if name in lab.machines)
    before, cluster = texts(compiled(roles, real), nodes), real
    explained = []
    for step in steps(real, lab, rules):
        after = texts(compiled(roles, step.cluster), nodes)
        explained.append(Explained(step.stand_in, tuple(differences(before, after))))
        before, cluster = after, step.cluster
    package_origins = origins(roles, cluster, compiled)
    away = out_of_reach(package_origins, lab.sources)
    through = passed(package_origins, lab.sources)
    explained += [Explained(through, ())] if through else []
    out = left_out(cluster, roles, boots=lab.boots, away=away)
    there_roles = rehearsed_roles(roles, boots=lab.boots, away=away)
    if out is not None:
        after = texts(compiled(there_roles, cluster), nodes)
        explained.append(Explained(out, tuple(differences(before, after))))
        before = after
    own_texts = texts(own, nodes)
    unexplained = [
        *differences(before, own_texts),
        *_find_lab_details(real, lab, rules, there_roles, own_texts, compiled),
    ]
    return Compared(nodes, tuple(explained), tuple(unexplained))


def _find_lab_details(
    real: Cluster,
    lab: LabFacts,
    rules: Sequence[StandInRule],
    roles: Sequence[Role],
    own_texts: Texts,
    compiled: Compile,
) -> Iterator[Difference]:
    """Yield texts that differ between this lab and the same lab elsewhere."""
    moved_cluster, _ = rehearsed(real, elsewhere(lab), rules)
    moved = texts(compiled(roles, moved_cluster), lab.machines)
    expected, moved = ({key: as_elsewhere(lab, text) for key, text in by_key.items()} for by_key in (own_texts, moved))
    yield from differences(moved, expected)


def texts(desired: Desired, nodes: Collection[str]) -> dict[Key, str]:
    """Return every file of these nodes as text, with names for secrets, and a role's other resources."""
    by_key: dict[Key, str] = {}
    for node in nodes:
        for role in desired.nodes[node]:
            for file in role.of(File):
                by_key[node, file.path] = _text(desired, file)
            if resources := _list_resources(role):
                by_key[node, f"{role.role}: what else it has"] = resources
    return by_key


def _text(desired: Desired, file: File) -> str:
    if file.secret is not None:
        return f"<secret {file.secret}>\n"
    text = desired.texts[file.unfilled or file.digest or ""]
    for at, name in reversed(file.fills):
        text = f"{text[:at]}<secret {name}>{text[at:]}"
    return text


def _list_resources(role: DesiredRole) -> str:
    """Return a role's packages, units and resources other than files, a line each."""
    lines = [f"package {name}" for name in role.packages] + [f"unit {unit.name}" for unit in role.units]
    lines += [
        f"{KINDS[resource.kind].singular} {resource.named}"
        for resource in role.resources
        if not isinstance(resource, File)
    ]
    return "".join(f"{line}\n" for line in lines)


def differences(before: Texts, after: Texts) -> Iterator[Difference]:
    """Yield the differences, by path; nodes with the same difference are together."""
    nodes_by_change: dict[tuple[str, str, str], list[str]] = {}
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key, ""), after.get(key, "")
        if old != new:
            node, subject = key
            nodes_by_change.setdefault((subject, old, new), []).append(node)
    for (subject, old, new), nodes in nodes_by_change.items():
        lines = [*difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=1)]
        yield Difference(subject, tuple(nodes), tuple(lines[2:]))  # without the names of files
