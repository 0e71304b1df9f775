"""The nodes and saves of rehearsals, as text and as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from hpcforge.blueprint.hostlist import fold
from hpcforge.command_hint import from_here
from hpcforge.lab.lab import LabStatus
from hpcforge.lab.listing import ListedRehearsal
from hpcforge.report.text import moment, table


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
    rows = [[node.name, node.address, node.state] for node in status.nodes]
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
