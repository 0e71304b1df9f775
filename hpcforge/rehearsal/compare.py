"""What a rehearsal has instead of the real thing, file by file, each difference under the stand-in that makes it.

The rules are applied one after the other, and what the roles make of the cluster is compared after each: what a step
changes is that stand-in's. Two things no stand-in explains. One is a difference between the last step and what the
rehearsal's own compile gives. The other is a file that says more of the lab than where it is: the same lab is compiled
with another subnet, other keys and elsewhere on the disk, and its files may differ from the lab's in the subnet alone.
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

Compile = Callable[[Sequence[Role], Cluster], Desired]  # without secrets: no real one is read
Key = tuple[str, str]  # node, and path or role
Texts = Mapping[Key, str]


@dataclass(frozen=True)
class Difference:
    """One text that differs, and all the nodes where it does in the same way: the hunks of a unified diff."""

    what: str  # a path; or `ROLE: packages, units, ...`
    nodes: tuple[str, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Explained:
    """A stand-in, and what it changes."""

    stand_in: StandIn
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class Compared:
    """A site and its rehearsal on these nodes. What is `unexplained` should not be."""

    nodes: tuple[str, ...]
    explained: tuple[Explained, ...]
    unexplained: tuple[Difference, ...]


def compare(
    real: Cluster, lab: LabFacts, rules: Sequence[StandInRule], roles: Sequence[Role], own: Desired, compiled: Compile
) -> Compared:
    """Compare what nodes of the real cluster would get with `own`: what those of the rehearsal do get."""
    nodes = tuple(name for name in real.by_name if name in lab.machines)
    before, cluster = texts(compiled(roles, real), nodes), real
    explained = []
    for step in steps(real, lab, rules):
        after = texts(compiled(roles, step.cluster), nodes)
        explained.append(Explained(step.stand_in, tuple(differences(before, after))))
        before, cluster = after, step.cluster
    found = origins(roles, cluster, compiled)
    away = out_of_reach(found, lab.sources)
    through = passed(found, lab.sources)
    explained += [Explained(through, ())] if through else []
    out = left_out(cluster, roles, boots=lab.boots, away=away)
    there_roles = rehearsed_roles(roles, boots=lab.boots, away=away)
    if out is not None:
        after = texts(compiled(there_roles, cluster), nodes)
        explained.append(Explained(out, tuple(differences(before, after))))
        before = after
    there = texts(own, nodes)
    unexplained = [
        *differences(before, there),
        *_looks_at_the_lab(real, lab, rules, there_roles, there, compiled),
    ]
    return Compared(nodes, tuple(explained), tuple(unexplained))


def _looks_at_the_lab(
    real: Cluster, lab: LabFacts, rules: Sequence[StandInRule], roles: Sequence[Role], there: Texts, compiled: Compile
) -> Iterator[Difference]:
    """Texts that differ between this lab and one that is alike but somewhere else."""
    other, _ = rehearsed(real, elsewhere(lab), rules)
    moved = texts(compiled(roles, other), lab.machines)
    here, moved = ({key: as_elsewhere(lab, text) for key, text in of.items()} for of in (there, moved))
    yield from differences(moved, here)


def texts(desired: Desired, nodes: Collection[str]) -> dict[Key, str]:
    """Every file of these nodes as text, and beside files what a role has there. A secret is named where it belongs."""
    found: dict[Key, str] = {}
    for node in nodes:
        for role in desired.nodes[node]:
            for file in role.of(File):
                found[node, file.path] = _text(desired, file)
            if beside := _beside(role):
                found[node, f"{role.role}: what else it has"] = beside
    return found


def _text(desired: Desired, file: File) -> str:
    if file.secret is not None:
        return f"<secret {file.secret}>\n"
    text = desired.texts[file.unfilled or file.digest or ""]
    for at, name in reversed(file.fills):
        text = f"{text[:at]}<secret {name}>{text[at:]}"
    return text


def _beside(role: DesiredRole) -> str:
    """Return a role's packages, units and resources other than files, a line each."""
    lines = [f"package {name}" for name in role.packages] + [f"unit {unit.name}" for unit in role.units]
    lines += [f"{KINDS[each.kind].singular} {each.named}" for each in role.resources if not isinstance(each, File)]
    return "".join(f"{line}\n" for line in lines)


def differences(before: Texts, after: Texts) -> Iterator[Difference]:
    """Yield the differences, by path; nodes with the same difference are together."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for key in dict.fromkeys((*before, *after)):
        was, now = before.get(key, ""), after.get(key, "")
        if was != now:
            node, what = key
            alike.setdefault((what, was, now), []).append(node)
    for (what, was, now), nodes in alike.items():
        lines = [*difflib.unified_diff(was.splitlines(), now.splitlines(), lineterm="", n=1)]
        yield Difference(what, tuple(nodes), tuple(lines[2:]))  # without the names of files
