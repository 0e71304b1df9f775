"""`hpcforge discover`: machines by their management controllers, into the inventory."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from hpcforge.blueprint.hostlist import fold
from hpcforge.cli.exit_codes import Exit, worst
from hpcforge.cli.site import open_site
from hpcforge.cluster.select import select
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.metal.discover import INTERRUPTED, Search, Silent, ask, record, search
from hpcforge.metal.machine_matching import (
    Machine,
    MachineDifference,
    MachineMatches,
    additions,
    differences,
    match,
    without_machine,
)
from hpcforge.report import printing
from hpcforge.report.event_stream import Stream, beside_document
from hpcforge.report.text import one_line, plural, table
from hpcforge.run.site import Site

SCHEMA_VERSION = 1


def discover(
    *,
    blueprint: Path,
    addresses: Sequence[str],
    assign: str | None,
    trust_new: bool,
    dry_run: bool,
    inventory: Path | None,
    identity: Path | None,
    as_json: bool,
) -> int:
    """Run `hpcforge discover`. Returns the exit status."""
    site = open_site(blueprint, inventory, None, identity, needs_lab=False)
    if site.loaded.wants_lab and inventory is None:
        raise UsageError("the nodes of a rehearsal have no management controllers", "hpcforge rehearse up and down")
    if site.loaded.inventory is None:
        raise UsageError("the blueprint names no inventory to write to", "name one with `inventory:`, or --inventory")
    asked = search(site, addresses)
    with beside_document(as_json=as_json) as progress:
        machines, silent = ask(site, asked, trust_new, partial(_say, progress), progress.tally)
    interrupted = [other.address for other in silent if other.reason == INTERRUPTED]
    dry_run = dry_run or bool(interrupted)
    matches = match(site.cluster.nodes, machines, select(site.cluster, [assign], ()) if assign else ())
    remarks = _remarks(site, matches)
    added = additions(matches, site.cluster.nodes, site.loaded.inventory) if dry_run else record(site, matches)
    lost = [node for node, how in matches.by.items() if how == "assigned" and (node, "bmc") not in added]
    absent = without_machine(site.cluster.nodes, matches, {machine.address for machine in machines})
    if as_json:
        document = _document(machines, silent, matches, remarks, added)
        written = {"written": not dry_run and bool(added)}
        printing.result(json.dumps({**document, **written}, indent=2) + "\n")
    else:
        printing.result(_table(machines, matches))
        _say_rest(remarks, absent)
    if lost:
        printing.note(f"{fold(lost)}: not assigned: removed, or given another controller, while machines were asked\n")
    where = site.loaded.inventory_path
    done = "would be added to" if dry_run else "added to"
    nodes = fold(list(dict.fromkeys(node for node, _ in added)))
    printing.note(f"{plural(len(added), 'value')} of {nodes} {done} {where}\n" if added else f"{where}: unchanged\n")
    pinned = {node.bmc.address for node in site.cluster.nodes if node.bmc and node.bmc.certificate}
    found = _controllers(asked, machines, [other for other in silent if other.address not in pinned], trust_new)
    if dry_run and added:
        again = command_line("discover", blueprint, *addresses, inventory=inventory, assign=assign, trust_new=trust_new)
    elif found:
        again = command_line("discover", blueprint, *found, inventory=inventory, assign=assign, trust_new=True)
    else:
        again = command_line("power", "status", blueprint, inventory=inventory) if matches.nodes else ""
    printing.note(f"Next: {again}\n" if again and not interrupted else "")
    if interrupted:
        printing.note(f"interrupted: nothing is written; not read: {fold(interrupted)}\n")
    ended = [Exit.INTERRUPTED] if interrupted else [*_codes(asked, silent, remarks), *[Exit.BUSY] * bool(lost)]
    progress.ended(code := worst(ended))
    return code


def _document(
    machines: Sequence[Machine],
    silent: Sequence[Silent],
    matches: MachineMatches,
    remarks: Sequence[MachineDifference],
    added: Mapping[tuple[str, str], object],
) -> dict[str, object]:
    return {
        "schema_version": SCHEMA_VERSION,
        "machines": [_machine(machine, matches) for machine in machines],
        "silent": [dataclasses.asdict(other) for other in silent],
        "differences": [dataclasses.asdict(remark) for remark in remarks],
        "added": [{"node": node, "key": key, "value": value} for (node, key), value in added.items()],
    }


def _remarks(site: Site, matches: MachineMatches) -> list[MachineDifference]:
    found = list(matches.remarks)
    for node in site.cluster.nodes:
        if machine := matches.nodes.get(node.name):
            found += differences(node, machine)
    return found


def _machine(machine: Machine, matches: MachineMatches) -> dict[str, object]:
    node = next((name for name, found in matches.nodes.items() if found is machine), None)
    return {"node": node, "by": matches.by.get(node) if node else None, **dataclasses.asdict(machine)}


def _table(machines: Sequence[Machine], matches: MachineMatches) -> str:
    header = ("controller", "node", "by", "serial", "model", "memory", "GPUs", "MACs")
    return table(header, [_row(machine, matches) for machine in machines], columns=printing.columns())


def _row(machine: Machine, matches: MachineMatches) -> list[str]:
    node = next((name for name, found in matches.nodes.items() if found is machine), None)
    memory = "-" if machine.memory_gib is None else f"{machine.memory_gib:g} GiB"
    gpus = "-" if not machine.gpus else f"{len(machine.gpus)} x {machine.gpus[0]}"
    macs = " ".join(machine.macs[:4]) or "-"
    by = matches.by[node] if node else "-"
    model = " ".join(filter(None, (machine.maker, machine.model))) or "-"
    return [machine.address, node or "-", by, machine.serial or "-", model, memory, gpus, macs]


def _say_rest(remarks: Sequence[MachineDifference], absent: Sequence[str]) -> None:
    for remark in remarks:
        printing.note(f"{remark.node}: {one_line(remark.text)}\n")
        if remark.line:
            printing.note(f"  to settle it: {remark.line}\n")
    if absent:
        printing.note(f"no machine is {fold(absent)}: another one answers at the controller's address\n")


def _say(progress: Stream, found: Machine | Silent) -> None:
    if isinstance(found, Machine):
        progress.say(f"{found.address}: {' '.join(filter(None, ('read:', found.serial, found.model)))}")
    equipment = () if isinstance(found, Silent) or not found.equipment else (_equipment(found),)
    for note in (found.why,) if isinstance(found, Silent) else (*equipment, *found.notes):
        progress.say(f"{found.address}: {note}")


def _equipment(machine: Machine) -> str:
    model = " ".join(filter(None, (machine.maker, machine.model)))
    what = "no server" if machine.equipment == "no server" else f"a {machine.equipment}, no server"
    return f"{what}{f' ({model})' if model else ''}: no node's"


def _controllers(
    asked: Search, machines: Sequence[Machine], silent: Sequence[Silent], trust_new: bool
) -> Sequence[str]:
    """Return the hostlist of all controllers that answered, if some of them wait for --trust-new or to be named."""
    refused = {other.address for other in silent if other.reason == "certificate"}
    new = refused - asked.named if trust_new else refused
    there = new | {machine.address for machine in machines}
    return [fold([address for address in asked.addresses if address in there])] if new else ()


def _codes(asked: Search, silent: Sequence[Silent], remarks: Sequence[MachineDifference]) -> Iterator[Exit]:
    for other in silent:
        if other.reason not in ("unreachable", "service"):
            yield Exit.FAILED
        elif other.address in asked.named:  # of a subnet that was searched, most addresses may have no machine
            yield Exit.UNREACHABLE if other.reason == "unreachable" else Exit.FAILED
    if any(remark.less for remark in remarks):
        yield Exit.BELOW
