"""`hpcforge discover`: machines by their management controllers, into the inventory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from hpcforge.cli import completion
from hpcforge.cli.exit_codes import Exit, worst
from hpcforge.cli.options import AsJson, Blueprint, Identity, Inventory
from hpcforge.cli.verb import verb
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.report import printing
from hpcforge.report.text import plural

if TYPE_CHECKING:
    from hpcforge.metal.discover import Search, Silent
    from hpcforge.metal.machine_matching import Machine, MachineDifference, MachineMatches
    from hpcforge.run.site import Site


@dataclass(frozen=True, kw_only=True)
class DiscoverOptions:
    """Options of `hpcforge discover`."""

    blueprint: Blueprint
    addresses: Annotated[
        list[str] | None,
        typer.Argument(
            help="Addresses of management controllers: hostlists; or subnets, which are searched without a password. "
            "Default: those of the nodes.",
            show_default=False,
        ),
    ] = None
    assign: Annotated[
        str | None,
        typer.Option(
            "--assign",
            help="New machines become these nodes, in the order of their addresses.",
            metavar="NODES",
            show_default=False,
            autocompletion=completion.node_sets,
        ),
    ] = None
    trust_new: Annotated[
        bool,
        typer.Option(
            "--trust-new",
            help="Record the certificate of each controller that has none in the inventory, and log in there, "
            "except at addresses that only a subnet names.",
        ),
    ] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False
    inventory: Inventory = None
    identity: Identity = None
    as_json: AsJson = False


@dataclass(frozen=True)
class _Discovered:
    """The machines that answered, the nodes that they are, and the values that the inventory gets."""

    machines: Sequence[Machine]
    silent: Sequence[Silent]
    matches: MachineMatches
    remarks: Sequence[MachineDifference]
    added: Mapping[tuple[str, str], object]
    interrupted: Sequence[str]  # addresses without an answer at the interrupt
    written: bool

    @property
    def lost(self) -> list[str]:
        """The nodes with an assigned machine that was not written."""
        return [node for node, how in self.matches.by.items() if how == "assigned" and (node, "bmc") not in self.added]


@verb(epilog="Example: hpcforge discover site.yaml 10.10.0.0/24, then 10.10.0.[11-42] --trust-new --assign w[01-32]")
def discover(options: DiscoverOptions) -> int:
    """Add missing machines to the inventory, replace none, and list differences from the blueprint."""
    from hpcforge.cli.site import open_site
    from hpcforge.metal.discover import ask, search
    from hpcforge.report.discover_text import machine_lines
    from hpcforge.report.event_stream import beside_document

    site = open_site(options.blueprint, options.inventory, None, options.identity, needs_lab=False)
    if site.loaded.wants_lab and options.inventory is None:
        raise UsageError("the nodes of a rehearsal have no management controllers", "hpcforge rehearse up and down")
    if site.loaded.inventory is None:
        raise UsageError("the blueprint names no inventory to write to", "name one with `inventory:`, or --inventory")
    query = search(site, options.addresses or ())
    with beside_document(as_json=options.as_json) as progress:

        def say(answer: Machine | Silent) -> None:
            for line in machine_lines(answer):
                progress.say(line)

        machines, silent = ask(site, query, options.trust_new, say, progress.tally)
    discovered = _recorded(options, site, machines, silent)
    _print(options, site, discovered)
    _say_next(options, site, query, discovered)
    code = worst(_codes(query, discovered))
    progress.ended(code)
    return code


def _recorded(
    options: DiscoverOptions, site: Site, machines: Sequence[Machine], silent: Sequence[Silent]
) -> _Discovered:
    """Write into the inventory, except after an interrupt or with --dry-run."""
    from hpcforge.cluster.select import select
    from hpcforge.metal.discover import EMPTY, INTERRUPTED, record, remarks_of
    from hpcforge.metal.machine_matching import additions, match

    interrupted = [controller.address for controller in silent if controller.reason == INTERRUPTED]
    dry = options.dry_run or bool(interrupted)
    assigned = select(site.cluster, [options.assign], ()) if options.assign else ()
    matches = match(site.cluster.nodes, machines, assigned)
    remarks = remarks_of(site, matches)
    inventory = site.loaded.inventory or EMPTY
    added = additions(matches, site.cluster.nodes, inventory) if dry else record(site, matches)
    return _Discovered(machines, silent, matches, remarks, added, interrupted, not dry and bool(added))


def _print(options: DiscoverOptions, site: Site, discovered: _Discovered) -> None:
    from hpcforge.blueprint.hostlist import fold
    from hpcforge.metal.machine_matching import without_machine
    from hpcforge.report.discover_text import machines_json, machines_table, remarks_text

    machines, matches, added = discovered.machines, discovered.matches, discovered.added
    if options.as_json:
        document = machines_json(machines, discovered.silent, matches, discovered.remarks, added)
        printing.result(json.dumps({**document, "written": discovered.written}, indent=2) + "\n")
    else:
        absent = without_machine(site.cluster.nodes, matches, {machine.address for machine in machines})
        printing.result(machines_table(machines, matches, printing.columns()))
        printing.note(remarks_text(discovered.remarks, absent))
    if lost := discovered.lost:
        printing.note(
            f"{fold(lost)}: not assigned: the inventory lost the node or changed its controller during discovery\n"
        )
    file = site.loaded.inventory_path
    outcome = "would be added to" if options.dry_run or discovered.interrupted else "added to"
    nodes = fold(list(dict.fromkeys(node for node, _ in added)))
    printing.note(f"{plural(len(added), 'value')} of {nodes} {outcome} {file}\n" if added else f"{file}: unchanged\n")


def _say_next(options: DiscoverOptions, site: Site, query: Search, discovered: _Discovered) -> None:
    from hpcforge.blueprint.hostlist import fold
    from hpcforge.metal.discover import to_ask_again

    if discovered.interrupted:
        printing.note(f"interrupted: nothing is written; not read: {fold(discovered.interrupted)}\n")
        return
    blueprint, inventory, new = options.blueprint, options.inventory, options.trust_new
    answered = to_ask_again(site, query, discovered.machines, discovered.silent, new)
    if options.dry_run and discovered.added:
        addresses = options.addresses or ()
        step = command_line(
            "discover", blueprint, *addresses, inventory=inventory, assign=options.assign, trust_new=new
        )
    elif answered:
        step = command_line(
            "discover", blueprint, *answered, inventory=inventory, assign=options.assign, trust_new=True
        )
    else:
        step = command_line("power", "status", blueprint, inventory=inventory) if discovered.matches.nodes else ""
    printing.note(f"Next: {step}\n" if step else "")


def _codes(query: Search, discovered: _Discovered) -> Iterator[Exit]:
    if discovered.interrupted:
        yield Exit.INTERRUPTED
        return
    for controller in discovered.silent:
        if controller.reason not in ("unreachable", "service"):
            yield Exit.FAILED
        elif controller.address in query.named:  # most addresses of a searched subnet may have no machine
            yield Exit.UNREACHABLE if controller.reason == "unreachable" else Exit.FAILED
    if any(remark.less for remark in discovered.remarks):
        yield Exit.BELOW
    if discovered.lost:
        yield Exit.BUSY
