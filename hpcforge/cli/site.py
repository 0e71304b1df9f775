"""The site that a verb is about: its blueprint and inventory read, or those of the rehearsal that is up."""

from __future__ import annotations

from pathlib import Path

from hpcforge.cli.rehearsals import named, not_up
from hpcforge.cluster import load
from hpcforge.lab import lab as labs
from hpcforge.lab.names import default_lab_name
from hpcforge.run.secrets import default_identity_path
from hpcforge.run.site import Site


def open_site(
    blueprint: Path,
    inventory: Path | None,
    lab: str | None,
    identity: Path | None,
    *,
    needs_lab: bool = True,
    judged: bool = False,
) -> Site:
    """Read and resolve. A blueprint for the lab gets the inventory of the lab, which has to be up if `needs_lab`.

    `judged`: one whose racks, power or fabrics break a rule is refused, as by whatever changes nodes.
    """
    loaded, start = load(blueprint, inventory, judged=judged), None
    identity = identity or default_identity_path()
    if inventory is None and (lab is not None or loaded.blueprint.wants_lab):
        running = labs.load(lab or default_lab_name(blueprint))
        if running is None and not needs_lab:
            return Site(loaded, loaded.cluster, identity, None)
        if running is None:
            raise not_up(blueprint, lab)
        loaded, lab = load(blueprint, running.inventory, judged=judged), running.name
    if lab is not None:
        start = named(loaded.blueprint_path, lab).up()
    return Site(loaded, loaded.cluster, identity, lab, start)
