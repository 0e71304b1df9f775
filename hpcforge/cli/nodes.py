"""`hpcforge nodes`: add, remove, replace and import machines by editing the blueprint and its inventory."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcforge.cli import completion
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.options import AsJson, Blueprint, Inventory
from hpcforge.cli.verb import VerbGroup
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.report import printing
from hpcforge.report.text import one_line, plural

if TYPE_CHECKING:
    from hpcforge.blueprint.membership import Edits, Newcomers
    from hpcforge.cluster import Loaded
    from hpcforge.cluster.checks.edits import Proposed
    from hpcforge.metal.machine_list import ListedMachines

SCHEMA_VERSION = 1
_MOST_NAMED = 20  # skipped lines of a list that get a reason
_EACH = "Repeat for each node, in order. Written to the inventory."

nodes = VerbGroup("Keeps comments and shows a diff before it writes.")


@dataclass(frozen=True, kw_only=True)
class NodesMachineOptions:
    """Values that distinguish machines."""

    host_key: Annotated[
        list[str] | None,
        typer.Option(
            "--host-key",
            help="The machine's SSH host key, type and base64. Repeatable. If it is not known: apply --trust-new.",
            metavar="KEY",
            show_default=False,
        ),
    ] = None
    mac: Annotated[
        list[str] | None,
        typer.Option("--mac", help=f"MAC address of the machine. {_EACH}", metavar="MAC", show_default=False),
    ] = None
    bmc: Annotated[
        list[str] | None,
        typer.Option(
            "--bmc",
            help=f"Address or MAC address of its management controller, or both separated by a comma. {_EACH}",
            metavar="A",
            show_default=False,
        ),
    ] = None
    serial: Annotated[
        list[str] | None,
        typer.Option("--serial", help=f"The maker's serial number. {_EACH}", metavar="S", show_default=False),
    ] = None


@dataclass(frozen=True, kw_only=True)
class NodesWriteOptions:
    """The inventory to write, and whether to ask."""

    inventory: Inventory = None
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before writing.")] = False


@dataclass(frozen=True, kw_only=True)
class NodesAddOptions:
    """Options of `hpcforge nodes add`."""

    blueprint: Blueprint
    names: Annotated[str, typer.Argument(help="The nodes, as a hostlist: w[04-06].", show_default=False)]
    like: Annotated[
        str | None,
        typer.Option(
            help="A node of the group that grows. Default: chosen by name.",
            metavar="NODE",
            show_default=False,
            autocompletion=completion.nodes,
        ),
    ] = None
    addresses: Annotated[
        str | None,
        typer.Option(
            help="Their addresses, as a hostlist. Default: the next ones after the group's addresses.",
            metavar="A",
            show_default=False,
        ),
    ] = None
    machines: NodesMachineOptions
    write: NodesWriteOptions


@dataclass(frozen=True, kw_only=True)
class NodesRemoveOptions:
    """Options of `hpcforge nodes remove`."""

    blueprint: Blueprint
    names: Annotated[
        str,
        typer.Argument(help="The nodes, as a hostlist: w[04-06].", show_default=False, autocompletion=completion.nodes),
    ]
    write: NodesWriteOptions


@dataclass(frozen=True, kw_only=True)
class NodesReplaceOptions:
    """Options of `hpcforge nodes replace`."""

    blueprint: Blueprint
    name: Annotated[str, typer.Argument(help="The node.", show_default=False, autocompletion=completion.nodes)]
    address: Annotated[
        str | None, typer.Option(help="Its address, if it changes.", metavar="A", show_default=False)
    ] = None
    machines: NodesMachineOptions
    same: Annotated[
        bool,
        typer.Option(
            "--same-machine",
            help="Keep the machine and remove only its host keys; `apply --install` then installs it again.",
        ),
    ] = False
    write: NodesWriteOptions


@dataclass(frozen=True, kw_only=True)
class NodesImportOptions:
    """Options of `hpcforge nodes import`."""

    blueprint: Blueprint
    file: Annotated[
        Path,
        typer.Argument(
            help="Comma-separated values in UTF-8. The first line names the columns: node, mac, bmc_address, bmc_mac, "
            "serial. Others are not read.",
            metavar="FILE.csv",
            show_default=False,
        ),
    ]
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the diff, and write nothing.")] = False
    write: NodesWriteOptions
    as_json: AsJson = False


@nodes.verb(epilog="Example: hpcforge nodes add blueprints/rehearsal.yaml w04")
def add(options: NodesAddOptions) -> int:
    """Add nodes to a group, and to partitions and tests that name the whole group."""
    from hpcforge.blueprint.membership import Newcomers, added
    from hpcforge.cli.node_selection import expanded
    from hpcforge.cluster import load

    loaded, machines = load(options.blueprint, options.write.inventory), options.machines
    new = Newcomers(
        expanded(options.names),
        options.like,
        expanded(options.addresses) if options.addresses else (),
        tuple(machines.host_key or ()),
        macs=tuple(machines.mac or ()),
        bmcs=tuple(machines.bmc or ()),
        serials=tuple(machines.serial or ()),
    )
    return _write(loaded, added(loaded.blueprint, loaded.inventory, new), new.names, options.write)


@nodes.verb(epilog="Example: hpcforge nodes remove blueprints/rehearsal.yaml w03")
def remove(options: NodesRemoveOptions) -> int:
    """Remove nodes. The next apply drains them, waits for their jobs, and removes hpcforge's changes from them."""
    from hpcforge.blueprint.membership import removed
    from hpcforge.cli.node_selection import expanded
    from hpcforge.cluster import load

    loaded = load(options.blueprint, options.write.inventory)
    names = expanded(options.names)
    places = loaded.placed.positions
    return _write(loaded, removed(loaded.blueprint, loaded.inventory, names, places), names, options.write)


@nodes.verb(epilog="Example: hpcforge nodes replace site.yaml gpu07 --host-key 'ssh-ed25519 AAAA...'")
def replace(options: NodesReplaceOptions) -> int:
    """Give a name to another machine. What the inventory has of the old one goes: host keys, MAC addresses, serial."""
    from hpcforge.blueprint.membership import Newcomers, replaced
    from hpcforge.cluster import load
    from hpcforge.metal.netboot import Records, folder

    name, machines, inventory = options.name, options.machines, options.write.inventory
    if options.same and (machines.mac or machines.bmc or machines.serial):
        raise UsageError(
            "--same-machine keeps the machine's values in the inventory", "remove --mac, --bmc and --serial"
        )
    loaded = load(options.blueprint, inventory)
    new = Newcomers(
        (name,),
        addresses=(options.address,) if options.address else (),
        host_keys=tuple(machines.host_key or ()),
        macs=tuple(machines.mac or ()),
        bmcs=tuple(machines.bmc or ()),
        serials=tuple(machines.serial or ()),
        same=options.same,
    )
    edits = replaced(loaded.blueprint, loaded.inventory, new)
    for note in _of_old_machine(loaded, new):
        printing.note(f"note: {note}\n")
    status = _write(loaded, edits, (name,), options.write)
    with suppress(PermissionError):  # an ordinary user's: a record has a MAC address, so it fits no other machine
        Records(folder(loaded.cluster.name)).remove(name)
    bmc = loaded.cluster.by_name[name].bmc
    if bmc is not None and bmc.address is not None:
        commands = [command_line("apply", loaded.blueprint_path, inventory=inventory, install=name)]
        if not options.same:
            commands.insert(0, command_line("discover", loaded.blueprint_path, inventory=inventory, trust_new=True))
        printing.note(f"If hpcforge is to install it: {'; '.join(commands)}\n")
    return status


def _of_old_machine(loaded: Loaded, new: Newcomers) -> Iterator[str]:
    """Yield notes: values of the old machine that leave the files, and those that stay and may be about it."""
    from hpcforge.blueprint.membership import dropped

    [name] = new.names
    keys = [".".join(map(str, loc)) for loc in dropped(loaded.inventory, new) if loc != ("host_keys",)]
    if keys:
        subject = f"{', '.join(keys)} of the old machine {'go' if len(keys) > 1 else 'goes'}"
        yield f"{subject} from the inventory: give the new one's with --mac, --bmc, --serial or by hand"
    machine = loaded.inventory.nodes.get(name) if loaded.inventory else None
    if machine is not None and machine.note:
        yield f"nodes.{name}.note stays ({machine.note}): remove it if it is about the old machine"
    override = loaded.blueprint.overrides.get(name)
    if override is not None:
        yield f"overrides.{name} stays ({override.reason}): remove it if the new machine has no such fault"


@nodes.verb(epilog="Example: hpcforge nodes import site.yaml machines.csv --dry-run")
def import_(options: NodesImportOptions) -> int:
    """Add MAC addresses, controllers and serial numbers of a list to the inventory. Replaces nothing."""
    from hpcforge.blueprint.hostlist import fold
    from hpcforge.blueprint.inventory import Inventory
    from hpcforge.cluster import load
    from hpcforge.cluster.checks.edits import propose_machines
    from hpcforge.metal.machine_list import listed_machines

    file, dry, inventory = options.file, options.dry_run, options.write.inventory
    loaded = load(options.blueprint, inventory)
    in_inventory = loaded.inventory or Inventory.model_construct()
    machines = listed_machines(_content(file), str(file), loaded.cluster.by_name, in_inventory)
    _say_left_out(file, machines)
    proposed = propose_machines(loaded, machines.added)
    if not options.as_json:
        printing.result("".join(map(proposed.diff, proposed.changed)))
    if not dry:
        _write_all(loaded, proposed, options.write.yes)
    if options.as_json:
        printing.result(_json(machines, written=not dry and bool(proposed.changed)))
    names = fold(list(dict.fromkeys(node for node, _ in machines.added)))
    target, outcome = loaded.inventory_path, "would be added to" if dry else "added to"
    count = plural(len(machines.added), "value")
    result = f"{count} of {names} {outcome} {target}" if machines.added else f"{target}: unchanged"
    follow = command_line("validate", options.blueprint, inventory=inventory)
    if dry and machines.added:
        follow = command_line("nodes", "import", options.blueprint, file, inventory=inventory)
    printing.note(f"{result}\nNext: {follow}\n")
    return Exit.DONE


def _say_left_out(file: Path, machines: ListedMachines) -> None:
    """Print the columns and lines of a list that are not used. Raises `InvalidInput` for errors in it."""
    from hpcforge.blueprint.diagnostics import InvalidInput

    if machines.wrong:
        printing.note("nothing was written\n")
        raise InvalidInput(machines.wrong)
    if machines.ignored:
        printing.note(f"columns that are not read: {one_line(', '.join(machines.ignored))}\n")
    for line, reason in machines.left_out[:_MOST_NAMED]:
        printing.note(f"{file}:{line}: left out: {one_line(reason)}\n")
    if len(machines.left_out) > _MOST_NAMED:
        lines = ", ".join(str(line) for line, _ in machines.left_out[_MOST_NAMED:])
        printing.note(f"{file}: left out as well: lines {lines}\n")


def _json(machines: ListedMachines, *, written: bool) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        "nodes": list(machines.listed),
        "ignored_columns": list(machines.ignored),
        "left_out": [{"line": line, "reason": reason} for line, reason in machines.left_out],
        "added": [{"node": node, "key": key, "value": value} for (node, key), value in machines.added.items()],
        "written": written,
    }
    return json.dumps(document, indent=2) + "\n"


def _content(file: Path) -> bytes:
    from hpcforge.blueprint.untrusted_files import read_named
    from hpcforge.metal.machine_list import MOST_BYTES

    try:
        return read_named(file, MOST_BYTES)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}", "name a file that you can read") from error


def _write(loaded: Loaded, edits: Edits, names: tuple[str, ...], options: NodesWriteOptions) -> int:
    """Show the diff, ask for confirmation, and write the files."""
    from hpcforge.blueprint.diagnostics import InvalidInput
    from hpcforge.blueprint.hostlist import fold
    from hpcforge.cluster.checks.edits import propose

    try:
        proposed = propose(loaded, edits, names)
    except InvalidInput:
        printing.note("nothing was written: this change would make the files invalid (line numbers after the change)\n")
        if loaded.included:
            printing.note("a node of an included file is added, removed or moved there, by hand\n")
        raise
    if not proposed.changed:
        printing.note(
            f"nothing to write: no file has a host key of {fold(names)}, or more of its old machine\n"
            + _next(loaded, names, options.inventory)
        )
        return Exit.DONE
    printing.result("".join(map(proposed.diff, proposed.changed)))
    _write_all(loaded, proposed, options.yes)
    printing.note(_next(loaded, names, options.inventory))
    return Exit.DONE


def _write_all(loaded: Loaded, proposed: Proposed, yes: bool) -> None:
    """Ask for confirmation, and write the files that change. Raises `ChangedFileError`."""
    from hpcforge.run.site import site_lock, write_texts

    printing.flush()
    if proposed.changed and not yes:
        if not sys.stdin.isatty():
            raise UsageError("the question needs a terminal; nothing was written", "read the diff, then add --yes")
        typer.confirm(f"Write {' and '.join(map(str, proposed.changed))}?", abort=True, err=True)
    with site_lock(loaded):
        write_texts(loaded, {path: proposed.new[path] for path in proposed.changed})


def _next(loaded: Loaded, names: tuple[str, ...], inventory: Path | None) -> str:
    from hpcforge.blueprint.hostlist import fold

    new = any(name not in loaded.cluster.by_name for name in names)
    up = f"{command_line('rehearse', 'up', loaded.blueprint_path)}; " if loaded.wants_lab and new else ""
    return f"Next, for {fold(names)}: {up}{command_line('apply', loaded.blueprint_path, inventory=inventory)}\n"
