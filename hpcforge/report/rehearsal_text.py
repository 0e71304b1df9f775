"""Rehearsals as text: where they run, what they do not show, and how they compare with the real site."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from hpcforge.blueprint.hostlist import fold
from hpcforge.command_hint import from_here
from hpcforge.lab.lab import LabStatus
from hpcforge.lab.listing import ListedRehearsal
from hpcforge.rehearsal.compare import Compared, Difference
from hpcforge.rehearsal.stand_ins import StandIn
from hpcforge.report.plan_text import diff_line
from hpcforge.report.text import lines_text, moment, plural, table
from hpcforge.styles import state


def not_rehearsed(stand_ins: Sequence[StandIn], compare: str) -> str:
    """Name the parts with only a stand-in, and the command that shows the difference; nothing if all is rehearsed."""
    if not stand_ins:
        return ""
    short = "; ".join(stand_in.short for stand_in in stand_ins if stand_in.short)
    return f"not rehearsed: {short}\nthe difference: {compare}\n"


def compared_text(comparison: Compared, *, up: bool, full: bool) -> str:
    """Return under each stand-in the files that it changes; with `full` their lines, too. `up`: the rehearsal runs."""
    explained = _differences if full else _files
    lines = [f"{'rehearsed on' if up else 'would be rehearsed on'} {fold(comparison.nodes)}", ""]
    for explanation in comparison.explained:
        lines += [
            f"{explanation.stand_in.name}: {explanation.stand_in.sentence}",
            *explained(explanation.differences),
            *([""] if full else []),
        ]
    if not full:
        lines.append("")
    if comparison.unexplained:
        lines += [
            "NOT EXPLAINED by any stand-in: a role depends on where it runs",
            *_differences(comparison.unexplained),
            "",
        ]
    count = sum(len(explanation.differences) for explanation in comparison.explained)
    lines.append(
        f"{plural(len(comparison.explained), 'stand-in')}, {plural(count, 'difference')}; "
        f"not explained: {len(comparison.unexplained)}" + "; --full shows their lines" * bool(count and not full)
    )
    return lines_text(lines)


def _files(several: Sequence[Difference], at_most: int = 4) -> Iterator[str]:
    """Yield one line: the first files that differ, and how many more."""
    names = list(dict.fromkeys(difference.what for difference in several))
    more = f" and {plural(len(names) - at_most, 'other')}" if len(names) > at_most else ""
    if names:
        yield f"  {', '.join(names[:at_most])}{more}"


def _differences(several: Sequence[Difference]) -> Iterator[str]:
    for difference in several:
        yield f"  {difference.what}  {fold(difference.nodes)}"
        yield from map(diff_line, difference.lines)


# The nodes and saves of rehearsals, as text and as JSON.


def rehearsals_text(rehearsals: Sequence[ListedRehearsal]) -> str:
    """Return a row for each rehearsal of this machine."""
    return table(("rehearsal", "nodes up", "since", "saves", "blueprint"), list(map(_row, rehearsals)))


def _row(lab: ListedRehearsal) -> list[str]:
    blueprint = "-" if lab.blueprint is None else str(from_here(Path(lab.blueprint)))
    if lab.problem is not None:
        return [lab.name, "unknown", "-", "-", lab.problem]
    up = f"{len(lab.running)} of {len(lab.running) + len(lab.stopped)}"
    since = "-" if lab.since_s is None else moment(lab.since_s)
    return [lab.name, up, since, ", ".join(lab.saves) or "-", blueprint]


def rehearsal_text(status: LabStatus) -> str:
    """Return its nodes and saves."""
    rows = [[node.name, node.address, state(node.state)] for node in status.nodes]
    text = f"rehearsal {status.lab.name}\n" + table(("node", "address", "state"), rows)
    if status.saves:
        kept = [[save.name, moment(save.saved_s), fold(save.nodes), f"{save.size_mib} MiB"] for save in status.saves]
        text += "\n" + table(("save", "when", "nodes", "on disk"), kept)
    if step := status.lab.under_way:
        verb = "restore" if step.step == "restored" else "save"
        text += f"{verb} {step.save} was interrupted: run it again, or start the nodes with `rehearse up`\n"
    return text


def rehearsal_json(status: LabStatus) -> str:
    """Return the same for programs."""
    document = {
        "schema_version": 1,
        "name": status.lab.name,
        "cidr": status.lab.cidr,
        "nodes": [dataclasses.asdict(node) for node in status.nodes],
        "saves": [dataclasses.asdict(save) for save in status.saves],
    }
    return json.dumps(document) + "\n"
