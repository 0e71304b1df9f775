"""`hpcforge nodes`: add, remove and replace machines by editing the blueprint and its inventory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import typer

from hpcforge.atomic import rewrite
from hpcforge.blueprint.diagnostics import InvalidInput
from hpcforge.blueprint.hostlist import HostlistError, expand, fold
from hpcforge.blueprint.membership import Edits, Newcomers, added, dropped, removed, replaced
from hpcforge.cli.exit_codes import Exit
from hpcforge.cluster import Loaded, load
from hpcforge.cluster.edit_checks import propose
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.netboot import Records, folder
from hpcforge.report import printing


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
    return _write(loaded, removed(loaded.blueprint, loaded.inventory, gone), gone, yes, inventory)


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
        raise
    if not proposed.changed:
        printing.note(
            f"nothing to write: no file has a host key of {fold(names)}, or more of its old machine\n"
            + _next(loaded, names, inventory)
        )
        return Exit.DONE
    for path in proposed.changed:
        printing.result(proposed.diff(path))
    printing.flush()
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(
                "there is no terminal for the question; nothing was written", "look at the diff, then add --yes"
            )
        typer.confirm(f"Write {' and '.join(map(str, proposed.changed))}?", abort=True, err=True)
    for path in proposed.changed:
        rewrite(path, proposed.new[path])
    printing.note(_next(loaded, names, inventory))
    return Exit.DONE


def _next(loaded: Loaded, names: tuple[str, ...], inventory: Path | None) -> str:
    comes = any(name not in loaded.cluster.by_name for name in names)
    up = f"{command_line('rehearse', 'up', loaded.blueprint_path)}; " if loaded.wants_lab and comes else ""
    return f"Next, for {fold(names)}: {up}{command_line('apply', loaded.blueprint_path, inventory=inventory)}\n"
