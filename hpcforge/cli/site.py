"""The site of a verb: from its blueprint and inventory, or from the running rehearsal.

A lab's blueprint selects its rehearsal. Any other blueprint selects the real site, and with `--lab` its rehearsal:
then the site has only the names of the real machines.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from ipaddress import IPv4Network
from pathlib import Path

from hpcforge.blueprint.hostlist import fold
from hpcforge.blueprint.inventory import Inventory, InventoryNode
from hpcforge.blueprint.lab_kinds import DEFAULT, LabKind
from hpcforge.blueprint.sections.nodes import LabSection
from hpcforge.cli.rehearsals import not_up, refer_to
from hpcforge.cluster import Loaded, load
from hpcforge.cluster.model import Cluster
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.lab import lab as labs
from hpcforge.lab.facts import facts_of, planned_facts, subnet_for
from hpcforge.lab.kinds import kind_of
from hpcforge.lab.names import default_lab_name, lab_directory
from hpcforge.rehearsal.lab_facts import LabFacts
from hpcforge.rehearsal.node_choice import carriers, chosen
from hpcforge.rehearsal.package_sources import Origins, origins, out_of_reach, passed
from hpcforge.rehearsal.stand_in_rules import RULES, login_user
from hpcforge.rehearsal.stand_ins import left_out, rehearsed
from hpcforge.report import printing
from hpcforge.report.rehearsal_text import not_rehearsed
from hpcforge.run.site import Site, compile_site, load_site_roles
from hpcforge.secrets.secrets import default_identity_path


def open_site(
    blueprint: Path,
    inventory: Path | None,
    lab: str | None,
    identity: Path | None,
    *,
    needs_lab: bool = True,
    judged: bool = False,
) -> Site:
    """Read and resolve a blueprint. A lab's blueprint gets the inventory of its lab, which must be up if `needs_lab`
    or if `lab` names it.

    `judged`: refuse a design that breaks a rule of racks, power or fabrics, as all verbs that change nodes do.
    """
    loaded, start, boots = load(blueprint, inventory, judged=judged), None, False
    if judged:
        printing.note("".join(f"note: {move}\n" for move in loaded.placed.moved))
    away: Mapping[str, str] = {}
    identity = identity or default_identity_path()
    if lab is not None and not loaded.wants_lab:
        running = labs.load(lab)
        if running is None:
            raise not_up(blueprint, lab)
        return stood_in(loaded, running, lab, identity)
    if inventory is None and loaded.wants_lab:
        running = labs.load(lab or default_lab_name(blueprint))
        if running is None and lab is None and not needs_lab:
            return Site(loaded, loaded.cluster, identity, None)
        if running is None:
            raise not_up(blueprint, lab)
        loaded, lab = load(blueprint, running.inventory, judged=judged), running.name
        boots = kind_of(running).BOOTS
        away = out_of_reach(package_origins(loaded, loaded.cluster), running.sources)
    if lab is not None:
        start = refer_to(loaded.blueprint_path, lab).up()
    elif inventory is None:
        _say_which(blueprint)
    return Site(loaded, loaded.cluster, identity, lab, start, boots=boots, away=away)


@cache
def _say_which(blueprint: Path) -> None:
    """Print once that the nodes are the site's own, if it also has a rehearsal."""
    name = default_lab_name(blueprint)
    if os.geteuid() == 0 and lab_directory(name).is_dir():
        printing.note(f"these are the site's own nodes; for those of their rehearsal: --lab {name}\n")


def say_not_rehearsed(site: Site, inventory: Path | None = None) -> None:
    """Print what this rehearsal does not show; for a lab's blueprint: the roles without their packages."""
    if site.lab is not None and not site.stand_ins:
        printing.note("".join(f"not rehearsed: role {role}: {reason}\n" for role, reason in site.away.items()))
    elif site.lab is not None:
        lab = refer_to(site.loaded.blueprint_path, site.lab).lab
        command = command_line("rehearse", "compare", site.loaded.blueprint_path, inventory=inventory, lab=lab)
        printing.note(not_rehearsed(site.stand_ins, command))


def lab_kind(loaded: Loaded) -> LabKind:
    """Return the kind of its rehearsal's nodes."""
    inventory = loaded.blueprint.inventory
    return inventory.lab if isinstance(inventory, LabSection) else DEFAULT


def stood_in(loaded: Loaded, lab: labs.Lab | None, name: str, identity: Path, nodes: str | None = None) -> Site:
    """Return the rehearsal of a real site: on the present lab, else on a planned lab of `nodes`."""
    facts = lab_facts(loaded, lab, nodes)
    cluster, stand_ins = rehearsed(loaded.cluster, facts, RULES)
    role_origins = package_origins(loaded, cluster)
    away = out_of_reach(role_origins, facts.sources)
    roles = left_out(cluster, load_site_roles(loaded), boots=facts.boots, away=away)
    machines = {
        name: InventoryNode.model_construct(address=machine.address, host_keys=machine.host_keys)
        for name, machine in facts.machines.items()
    }
    folder = lab_directory(name)
    of_lab = replace(
        loaded,
        cluster=cluster,
        inventory=Inventory.model_construct(nodes=machines),
        inventory_path=folder / "inventory.yaml",
        secrets_path=folder / "secrets.age",
    )
    start = refer_to(loaded.blueprint_path, name).up()
    stand_ins = (*stand_ins, *filter(None, (passed(role_origins, facts.sources), roles)))
    return Site(of_lab, cluster, identity, name, start, stand_ins=stand_ins, boots=facts.boots, away=away)


def package_origins(loaded: Loaded, cluster: Cluster) -> Origins:
    """Return the package sources of its roles, except the distribution's archive, by role. Raises `RoleError`."""
    return origins(load_site_roles(loaded), cluster, lambda roles, target: compile_site(roles, {}, target))


def real_networks(cluster: Cluster) -> tuple[IPv4Network, ...]:
    """Return the networks of a site's own machines: no lab may use them."""
    cidrs = [network.cidr for network in (cluster.network, *cluster.networks)]
    addresses = [address for node in cluster.nodes for address in (node.address, *node.addresses.values())]
    return tuple(map(IPv4Network, dict.fromkeys((*cidrs, *addresses))))


def lab_facts(loaded: Loaded, lab: labs.Lab | None, nodes: str | None = None) -> LabFacts:
    """Return the facts of a lab of this site's nodes; without a lab, those of a planned lab of `nodes`.

    Raises UsageError if the lab cannot rehearse the site.
    """
    cluster = loaded.cluster
    if lab is None:
        names = chosen(cluster, nodes)
        return planned_facts(names, login_user(cluster), subnet_for(len(names)))
    facts = facts_of(lab)
    up = command_line("rehearse", "up", loaded.blueprint_path, lab=refer_to(loaded.blueprint_path, lab.name).lab)
    if any(network.overlaps(lab.network_address) for network in real_networks(cluster)):
        raise UsageError(
            f"the rehearsal {lab.name!r} uses {lab.cidr}, and this blueprint has machines in that subnet",
            f"remove it and start it again: {refer_to(loaded.blueprint_path, lab.name).typed('down')}",
        )
    facts = replace(
        facts, machines={name: machine for name, machine in facts.machines.items() if name in cluster.by_name}
    )
    missing = [node.name for node in cluster.nodes if node.name in carriers(cluster) - facts.machines.keys()]
    if missing:
        raise UsageError(f"the rehearsal {lab.name!r} lacks {fold(missing)}, which provides a service", up)
    return facts
