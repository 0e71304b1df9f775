"""`hpcforge nodes`: machines that come, go and are replaced, as edits of the blueprint and its inventory."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from stat import S_IMODE

import typer

from hpcforge.atomic import write_atomically
from hpcforge.blueprint.diagnostics import InvalidInput
from hpcforge.blueprint.edit import edited
from hpcforge.blueprint.hostlist import HostlistError, expand, fold
from hpcforge.blueprint.membership import Edits, Newcomers, added, removed, replaced
from hpcforge.cli.exit_codes import Exit
from hpcforge.cluster import Loaded, load
from hpcforge.cluster.model import Cluster, Node
from hpcforge.errors import UsageError
from hpcforge.program import typed
from hpcforge.report import printing


def add(
    *,
    blueprint: Path,
    names: str,
    like: str | None,
    addresses: str | None,
    host_key: list[str] | None,
    inventory: Path | None,
    yes: bool,
) -> int:
    """Do what the help of `hpcforge nodes add` says; the exit status."""
    loaded = load(blueprint, inventory)
    new = Newcomers(_expand(names), like, _expand(addresses) if addresses else (), tuple(host_key or ()))
    return _write(loaded, added(loaded.blueprint, loaded.inventory, new), new.names, yes, inventory)


def remove(blueprint: Path, names: str, inventory: Path | None, yes: bool) -> int:
    """Do what the help of `hpcforge nodes remove` says; the exit status."""
    loaded = load(blueprint, inventory)
    gone = _expand(names)
    return _write(loaded, removed(loaded.blueprint, loaded.inventory, gone), gone, yes, inventory)


def replace(
    *, blueprint: Path, name: str, address: str | None, host_key: list[str] | None, inventory: Path | None, yes: bool
) -> int:
    """Do what the help of `hpcforge nodes replace` says; the exit status."""
    loaded = load(blueprint, inventory)
    edits = replaced(loaded.blueprint, loaded.inventory, name, address, host_key or ())
    override = loaded.blueprint.overrides.get(name)
    if override is not None:
        printing.note(f"note: overrides.{name} stays ({override.reason}): take it out if the new machine is whole\n")
    return _write(loaded, edits, (name,), yes, inventory)


def _expand(text: str) -> tuple[str, ...]:
    try:
        return expand(text)
    except HostlistError as error:
        raise UsageError(f"{text!r} {error}", error.hint or "write it like w[01-03]") from error


def _write(loaded: Loaded, edits: Edits, names: tuple[str, ...], yes: bool, inventory: Path | None) -> int:
    """Show what would be written, see that it is valid and moves no other node, ask, and write it."""
    old = {path: _text(path) for path in (loaded.blueprint_path, loaded.inventory_path) if path is not None}
    new = {loaded.blueprint_path: edited(old[loaded.blueprint_path], edits.blueprint)}
    if loaded.inventory_path is not None:
        new[loaded.inventory_path] = edited(old[loaded.inventory_path], edits.inventory)
    changed = [path for path in new if new[path] != old[path]]
    if not changed:
        printing.note(
            f"nothing to write: no file holds a host key of {fold(names)}\n" + _next(loaded, names, inventory)
        )
        return Exit.DONE
    _refuse_what_moves(loaded.cluster, _loaded_anew(loaded, new), names)
    for path in changed:
        printing.result("".join(_diff(path, old[path], new[path])))
    printing.flush()
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(
                "there is no terminal to ask on, and nothing was written", "look at the diff, then add --yes"
            )
        typer.confirm(f"Write {' and '.join(map(str, changed))}?", abort=True, err=True)
    for path in changed:
        file = path.resolve()  # a link stays a link
        write_atomically(file, new[path], S_IMODE(file.stat().st_mode))
    printing.note(_next(loaded, names, inventory))
    return Exit.DONE


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8")  # line endings as they are


def _loaded_anew(loaded: Loaded, new: dict[Path, str]) -> Cluster:
    try:
        return load(loaded.blueprint_path, loaded.inventory_path, instead=new).cluster
    except InvalidInput:
        printing.note("nothing was written: with this change the files would be wrong (lines as they would then be)\n")
        raise


def _refuse_what_moves(before: Cluster, after: Cluster, names: tuple[str, ...]) -> None:
    """Other machines stand where they stand: a list that goes by position must not give them another place."""
    for old in before.nodes:
        new = after.by_name.get(old.name)
        if new is not None and old.name not in names and _place(new) != _place(old):
            raise UsageError(
                f"{old.name} would move: {_place(old)} would become {_place(new)}; nothing was written",
                "write the nodes that stay as groups of their own, or first: hpcforge pin",
            )


def _place(node: Node) -> str:
    return f"{node.address}" + (f" in rack {node.rack}, unit {node.rack_u}" if node.rack else "")


def _diff(path: Path, old: str, new: str) -> list[str]:
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), str(path), str(path), n=1
    )
    return [line if line.endswith("\n") else line + "\n" for line in lines]


def _next(loaded: Loaded, names: tuple[str, ...], inventory: Path | None) -> str:
    comes = any(name not in loaded.cluster.by_name for name in names)
    up = f"{typed('rehearse', 'up', loaded.blueprint_path)}; " if loaded.wants_lab and comes else ""
    return f"Next, for {fold(names)}: {up}{typed('apply', loaded.blueprint_path, inventory=inventory)}\n"
