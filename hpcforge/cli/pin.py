"""`hpcforge pin`: keep rack positions that a change of the blueprint could move."""

from __future__ import annotations

from dataclasses import dataclass

from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.options import Blueprint, Inventory
from hpcforge.cli.verb import verb
from hpcforge.errors import UsageError
from hpcforge.report import printing


@dataclass(frozen=True, kw_only=True)
class PinOptions:
    """Options of `hpcforge pin`."""

    blueprint: Blueprint
    inventory: Inventory = None


@verb(epilog="Example: hpcforge pin blueprints/dgx-h100-unit.yaml")
def pin(options: PinOptions) -> int:
    """Machines added or removed later then move no other machine."""
    from hpcforge.blueprint.positions import with_positions
    from hpcforge.blueprint.reader import MAX_MACHINE_VALUES, read_bytes
    from hpcforge.cluster import load
    from hpcforge.run.site import site_lock, write_texts

    loaded = load(options.blueprint, options.inventory, judged=True)
    if loaded.inventory_path is None:
        raise UsageError(
            "the blueprint names no inventory to write positions to",
            "name one with `inventory:` in the blueprint, or --inventory",
        )
    layout = loaded.placed.layout
    chosen = {
        name: (rack, item.u)
        for name, (rack, item) in (*layout.place_of.items(), *layout.switch_of.items())
        if item.how in ("pinned", "proposed") or (item.node and len(item.node.names) > 1)
    }
    old = loaded.text(loaded.inventory_path)
    new = with_positions(old, chosen)
    broken = read_bytes(new.encode(), str(loaded.inventory_path), MAX_MACHINE_VALUES).diagnostics
    if broken:
        raise UsageError(
            f"hpcforge cannot replace `positions:` of {loaded.inventory_path}", "remove it, then pin again"
        )
    if new != old:
        with site_lock(loaded):
            write_texts(loaded, {loaded.inventory_path: new})
    printing.note(f"{loaded.inventory_path}: {len(chosen)} positions pinned\n")
    return Exit.DONE
