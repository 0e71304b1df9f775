"""`hpcforge nodes`: add, remove, replace and import machines by editing the blueprint and its inventory."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import typer

from hpcforge.blueprint.diagnostics import InvalidInput
from hpcforge.blueprint.hostlist import HostlistError, expand, fold
from hpcforge.blueprint.inventory import Inventory
from hpcforge.blueprint.membership import Edits, Newcomers, added, dropped, removed, replaced
from hpcforge.blueprint.untrusted_files import read_named
from hpcforge.cli.exit_codes import Exit
from hpcforge.cluster import Loaded, load
from hpcforge.cluster.checks.edits import Proposed, propose, propose_machines
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.metal.machine_list import MOST_BYTES, listed_machines
from hpcforge.metal.netboot import Records, folder
from hpcforge.report import printing
from hpcforge.report.text import one_line, plural
from hpcforge.run.site import site_lock, write_texts

SCHEMA_VERSION = 1
_MOST_NAMED = 20  # lines of a list that are left out, each with its reason
_EMPTY = Inventory.model_construct()


def add(
    *,
    blueprint: Path,
    names: str,
    like: str | None,
    addresses: str | None,
    host_key: Sequence[str],
    mac: Sequence[str],
    bmc: Sequence[str],
    serial: Sequence[str],
    inventory: Path | None,
    yes: bool,
) -> int:
    """Run `hpcforge nodes add`. Returns the exit status."""
    loaded = load(blueprint, inventory)
    new = Newcomers(
        _expand(names),
        like,
        _expand(addresses) if addresses else (),
        tuple(host_key),
        macs=tuple(mac),
        bmcs=tuple(bmc),
        serials=tuple(serial),
    )
    return _write(loaded, added(loaded.blueprint, loaded.inventory, new), new.names, yes, inventory)


def remove(blueprint: Path, names: str, inventory: Path | None, yes: bool) -> int:
    """Run `hpcforge nodes remove`. Returns the exit status."""
    loaded = load(blueprint, inventory)
    gone = _expand(names)
    places = loaded.placed.positions
    return _write(loaded, removed(loaded.blueprint, loaded.inventory, gone, places), gone, yes, inventory)


def replace(
    *,
    blueprint: Path,
    name: str,
    address: str | None,
    host_key: Sequence[str],
    mac: Sequence[str],
    bmc: Sequence[str],
    serial: Sequence[str],
    same: bool,
    inventory: Path | None,
    yes: bool,
) -> int:
    """Run `hpcforge nodes replace`. Returns the exit status."""
    if same and (mac or bmc or serial):
        raise UsageError("--same-machine: it keeps what the inventory has of it", "remove --mac, --bmc and --serial")
    loaded = load(blueprint, inventory)
    new = Newcomers(
        (name,),
        addresses=(address,) if address else (),
        host_keys=tuple(host_key),
        macs=tuple(mac),
        bmcs=tuple(bmc),
        serials=tuple(serial),
        same=same,
    )
    edits = replaced(loaded.blueprint, loaded.inventory, new)
    gone = [".".join(map(str, loc)) for loc in dropped(loaded.inventory, new) if loc != ("host_keys",)]
    if gone:
        what = f"{', '.join(gone)} of the old machine {'go' if len(gone) > 1 else 'goes'}"
        printing.note(f"note: {what} from the inventory: give the new one's with --mac, --bmc, --serial or by hand\n")
    machine = loaded.inventory.nodes.get(name) if loaded.inventory else None
    if machine is not None and machine.note:
        printing.note(f"note: nodes.{name}.note stays ({machine.note}): take it out if it is about the old machine\n")
    override = loaded.blueprint.overrides.get(name)
    if override is not None:
        printing.note(
            f"note: overrides.{name} stays ({override.reason}): remove it if the new machine has no such fault\n"
        )
    done = _write(loaded, edits, (name,), yes, inventory)
    with suppress(PermissionError):  # of an ordinary user: a record is of a MAC address, so that it is of no other
        Records(folder(loaded.cluster.name)).remove(name)
    bmc_there = loaded.cluster.by_name[name].bmc
    if bmc_there is not None and bmc_there.address is not None:
        again = [command_line("apply", loaded.blueprint_path, inventory=inventory, install=name)]
        if not same:
            again.insert(0, command_line("discover", loaded.blueprint_path, inventory=inventory, trust_new=True))
        printing.note(f"If hpcforge is to install it: {'; '.join(again)}\n")
    return done


def import_(*, blueprint: Path, file: Path, inventory: Path | None, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Run `hpcforge nodes import`. Returns the exit status."""
    loaded = load(blueprint, inventory)
    found = listed_machines(_content(file), str(file), loaded.cluster.by_name, loaded.inventory or _EMPTY)
    if found.wrong:
        printing.note("nothing was written\n")
        raise InvalidInput(found.wrong)
    if found.ignored:
        printing.note(f"columns that are not read: {one_line(', '.join(found.ignored))}\n")
    for line, why in found.left_out[:_MOST_NAMED]:
        printing.note(f"{file}:{line}: left out: {one_line(why)}\n")
    if len(found.left_out) > _MOST_NAMED:
        lines = ", ".join(str(line) for line, _ in found.left_out[_MOST_NAMED:])
        printing.note(f"{file}: left out as well: lines {lines}\n")
    proposed = propose_machines(loaded, found.added)
    if not as_json:
        printing.result("".join(map(proposed.diff, proposed.changed)))
    if not dry_run:
        _write_all(loaded, proposed, yes)
    if as_json:
        document = {
            "schema_version": SCHEMA_VERSION,
            "nodes": list(found.listed),
            "ignored_columns": list(found.ignored),
            "left_out": [{"line": line, "reason": why} for line, why in found.left_out],
            "added": [{"node": node, "key": key, "value": value} for (node, key), value in found.added.items()],
            "written": not dry_run and bool(proposed.changed),
        }
        printing.result(json.dumps(document, indent=2) + "\n")
    done = "would be added to" if dry_run else "added to"
    nodes = fold(list(dict.fromkeys(node for node, _ in found.added)))
    where = loaded.inventory_path
    said = f"{plural(len(found.added), 'value')} of {nodes} {done} {where}" if found.added else f"{where}: unchanged"
    again = dry_run and bool(found.added)
    follow = command_line("nodes", "import", blueprint, file, inventory=inventory) if again else (
        command_line("validate", blueprint, inventory=inventory))  # fmt: skip
    printing.note(f"{said}\nNext: {follow}\n")
    return Exit.DONE


def _content(file: Path) -> bytes:
    try:
        return read_named(file, MOST_BYTES)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}", "name a file that you can read") from error


def _expand(text: str) -> tuple[str, ...]:
    try:
        return expand(text)
    except HostlistError as error:
        raise UsageError(f"{text!r} {error}", error.hint or "write it like w[01-03]") from error


def _write(loaded: Loaded, edits: Edits, names: tuple[str, ...], yes: bool, inventory: Path | None) -> int:
    """Show the diff, ask for confirmation, and write the files."""
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
            + _next(loaded, names, inventory)
        )
        return Exit.DONE
    printing.result("".join(map(proposed.diff, proposed.changed)))
    _write_all(loaded, proposed, yes)
    printing.note(_next(loaded, names, inventory))
    return Exit.DONE


def _write_all(loaded: Loaded, proposed: Proposed, yes: bool) -> None:
    """Ask for confirmation, and write the files that change. Raises `ChangedFileError`."""
    printing.flush()
    if proposed.changed and not yes:
        if not sys.stdin.isatty():
            raise UsageError(
                "there is no terminal for the question; nothing was written", "look at the diff, then add --yes"
            )
        typer.confirm(f"Write {' and '.join(map(str, proposed.changed))}?", abort=True, err=True)
    with site_lock(loaded):
        write_texts(loaded, {path: proposed.new[path] for path in proposed.changed})


def _next(loaded: Loaded, names: tuple[str, ...], inventory: Path | None) -> str:
    comes = any(name not in loaded.cluster.by_name for name in names)
    up = f"{command_line('rehearse', 'up', loaded.blueprint_path)}; " if loaded.wants_lab and comes else ""
    return f"Next, for {fold(names)}: {up}{command_line('apply', loaded.blueprint_path, inventory=inventory)}\n"
