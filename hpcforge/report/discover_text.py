"""The output of `hpcforge discover`: machines, as a table and as JSON, and remarks about them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from hpcforge.blueprint.hostlist import fold
from hpcforge.metal.discover import Silent
from hpcforge.metal.machine_matching import Machine, MachineDifference, MachineMatches
from hpcforge.report.text import one_line, table

SCHEMA_VERSION = 1
_HEADER = ("controller", "node", "by", "serial", "model", "memory", "GPUs", "MACs")


def machines_json(
    machines: Sequence[Machine],
    silent: Sequence[Silent],
    matches: MachineMatches,
    remarks: Sequence[MachineDifference],
    added: Mapping[tuple[str, str], object],
) -> dict[str, object]:
    """Return what `--json` prints, but for whether it was written."""
    return {
        "schema_version": SCHEMA_VERSION,
        "machines": [_machine(machine, matches) for machine in machines],
        "silent": [dataclasses.asdict(other) for other in silent],
        "differences": [dataclasses.asdict(remark) for remark in remarks],
        "added": [{"node": node, "key": key, "value": value} for (node, key), value in added.items()],
    }


def _machine(machine: Machine, matches: MachineMatches) -> dict[str, object]:
    node = next((name for name, found in matches.nodes.items() if found is machine), None)
    return {"node": node, "by": matches.by.get(node) if node else None, **dataclasses.asdict(machine)}


def machines_table(machines: Sequence[Machine], matches: MachineMatches, columns: int | None) -> str:
    """Return a row for each machine."""
    return table(_HEADER, [_row(machine, matches) for machine in machines], columns=columns)


def _row(machine: Machine, matches: MachineMatches) -> list[str]:
    node = next((name for name, found in matches.nodes.items() if found is machine), None)
    memory = "-" if machine.memory_gib is None else f"{machine.memory_gib:g} GiB"
    gpus = "-" if not machine.gpus else f"{len(machine.gpus)} x {machine.gpus[0]}"
    macs = " ".join(machine.macs[:4]) or "-"
    by = matches.by[node] if node else "-"
    model = " ".join(filter(None, (machine.maker, machine.model))) or "-"
    return [machine.address, node or "-", by, machine.serial or "-", model, memory, gpus, macs]


def remarks_text(remarks: Sequence[MachineDifference], absent: Sequence[str]) -> str:
    """Return a line for each difference, and one for the nodes that are `absent`."""
    text = ""
    for remark in remarks:
        text += f"{remark.node}: {one_line(remark.text)}\n"
        text += f"  to settle it: {remark.line}\n" if remark.line else ""
    another = f"no machine is {fold(absent)}: another one answers at the controller's address\n"
    return f"{text}{another if absent else ''}"


def machine_lines(answer: Machine | Silent) -> Iterator[str]:
    """Yield what is printed as soon as a controller has answered, or has not."""
    if isinstance(answer, Silent):
        yield f"{answer.address}: {answer.why}"
        return
    yield f"{answer.address}: {' '.join(filter(None, ('read:', answer.serial, answer.model)))}"
    for note in (*((_equipment(answer),) if answer.equipment else ()), *answer.notes):
        yield f"{answer.address}: {note}"


def _equipment(machine: Machine) -> str:
    model = " ".join(filter(None, (machine.maker, machine.model)))
    what = "no server" if machine.equipment == "no server" else f"a {machine.equipment}, no server"
    return f"{what}{f' ({model})' if model else ''}: no node's"
