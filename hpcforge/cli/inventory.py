"""`hpcforge inventory`: the machines of a blueprint; and the same for plain Ansible and plain pyinfra."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hpcforge import bundled
from hpcforge.atomic import write_atomically
from hpcforge.blueprint.hostlist import fold
from hpcforge.cli import completion, failures
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.site import lab_kind, open_site
from hpcforge.cluster import machines
from hpcforge.cluster.model import Node
from hpcforge.command_hint import command_line
from hpcforge.engines.ansible_jump import proxy_command, ssh_words
from hpcforge.engines.host_keys import known_hosts
from hpcforge.engines.inventories import (
    ansible_connection,
    ansible_file,
    ansible_inventory,
    pyinfra_connection,
    ssh_config,
)
from hpcforge.engines.tasks import Target
from hpcforge.errors import UsageError
from hpcforge.lab import lab as labs
from hpcforge.report import printing
from hpcforge.report.text import table
from hpcforge.run.site import Site, jump_host, target

_HEADER = ("machine", "address", "mac", "bmc", "bmc mac", "serial", "functions", "rack", "hardware")


def inventory(blueprint: Path | None, inventory: Path | None, lab: str | None, formats: Sequence[str]) -> int:
    """Run `hpcforge inventory`. Returns the exit status. Raises UsageError for more than one format."""
    if len(formats) > 1:
        raise UsageError(f"{' and '.join(f'--{name}' for name in formats)} exclude each other", "give one of them")
    site = open_site(blueprint or default_blueprint(), inventory, lab, None, needs_lab=False)
    printing.result(_FORMATS[formats[0] if formats else "table"](site))
    if {*formats} & _OVER_SSH and (without := [node.name for node in site.cluster.nodes if not node.host_keys]):
        printing.note(
            f"{fold(without)}: the inventory has no host key, so ssh refuses to go there\n"
            "hint: hpcforge netboot record, or hpcforge apply --trust-new, writes them\n"
        )
    return Exit.DONE


def default_blueprint() -> Path:
    """Return the only blueprint of the folder in which the command runs, else the shipped rehearsal, and say which.

    Raises `UsageError` if the folder has several.
    """
    here = completion.blueprints_here()
    if len(here) > 1:
        raise UsageError(
            f"this folder has {len(here)} blueprints: {', '.join(here[: completion.MOST_LISTED])}"
            f"{', ...' if len(here) > completion.MOST_LISTED else ''}",
            f"name one: {command_line('inventory', here[0])}, or set {completion.IN_ENVIRONMENT}",
        )
    if here:
        printing.note(f"machines of {here[0]}, the only blueprint of this folder\n")
        return Path(here[0])
    shipped = bundled.root() / "blueprints" / "rehearsal.yaml"
    printing.note(f"machines of the shipped rehearsal, {shipped}: this folder has no blueprint\n")
    return shipped


def document(site: Site) -> dict[str, Any]:
    """What `hpcforge inventory --json` prints.

    `schema_version` 1; `name` and `domain` of the cluster; `lab`: None, or the `kind` of rehearsal that the blueprint
    asks for, and `name` and `directory` of the one that is up; `access`: how hpcforge gets in;
    `groups`: node names by group; `machines`: as `hpcforge.cluster.model.Node` has them.
    """
    cluster = site.cluster
    said = {
        "schema_version": 1,
        "name": cluster.name,
        "domain": cluster.domain,
        "lab": _lab(site),
        "access": dataclasses.asdict(cluster.access),
        "groups": machines.groups(cluster),
        "machines": [machines.machine(node) for node in cluster.nodes],
    }
    plain: dict[str, Any] = json.loads(json.dumps(said, default=str))  # paths as text
    return plain


def _lab(site: Site) -> dict[str, str | None] | None:
    if site.lab is None and (not site.loaded.wants_lab or site.loaded.inventory is not None):
        return None
    there = labs.load(site.lab) if site.lab else None
    if there is None:
        return {"kind": lab_kind(site.loaded), "name": site.lab, "directory": None}
    return {"kind": there.kind, "name": there.name, "directory": str(there.directory)}


def ansible() -> int:
    """Print what `ansible -i inventory/for_ansible.py` reads; the exit status."""
    try:
        site = _chosen()
        printing.result(ansible_inventory(_ansible_hosts(site), machines.groups(site.cluster)))
        return Exit.DONE
    except Exception as error:
        message, code = failures.explain(error)
        if message is None:
            raise
        printing.note(message)
        return code


def pyinfra() -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """What `pyinfra inventory/for_pyinfra.py` reads: hosts with their data, by group."""
    site = _chosen()
    way = _Way(site)
    hosts = {node.name: (node.name, way.pyinfra(node) | _variables(site, node)) for node in site.cluster.nodes}
    groups = machines.groups(site.cluster)
    return {"all": list(hosts.values()), **{name: [hosts[node] for node in nodes] for name, nodes in groups.items()}}


def _chosen() -> Site:
    """The site of HPCFORGE_BLUEPRINT and HPCFORGE_LAB: neither Ansible nor pyinfra passes arguments on."""
    blueprint = os.environ.get(completion.IN_ENVIRONMENT)
    return open_site(
        Path(blueprint) if blueprint else default_blueprint(), None, os.environ.get("HPCFORGE_LAB") or None, None
    )


def _variables(site: Site, node: Node) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(machines.machine(node)))
    return {**machines.variables(site.cluster, node), "hpcforge_machine": plain}


class _Way:
    """How nodes are gone to: as hpcforge goes, with the host keys that the inventory has and no others."""

    def __init__(self, site: Site) -> None:
        self._site, self._via = site, jump_host(site)
        nodes = [target(site, node.name, node) for node in site.cluster.nodes]
        self._known = _kept("known_hosts", known_hosts([*nodes, *([self._via] if self._via else [])]))

    def ansible(self, node: Node) -> dict[str, Any]:
        there = target(self._site, node.name, node)
        return ansible_connection(there, self._known, self._proxy(there))

    def pyinfra(self, node: Node) -> dict[str, Any]:
        there = target(self._site, node.name, node)
        proxy = self._proxy(there)
        config = _kept("ssh_config", f"Host *\n  ProxyCommand {proxy}\n") if proxy else None
        return pyinfra_connection(there, self._known, config)

    def _proxy(self, there: Target) -> str | None:
        if self._via is None or there.address == self._via.address:
            return None
        return proxy_command(ssh_words(self._via, self._known), self._via)


def _kept(name: str, text: str) -> Path:
    """A file that stays, named by its content: what reads it does so after we have ended."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hpcforge" / "inventory"
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.{name}"
    if not path.exists():
        write_atomically(path, text)
    return path


def _ssh_config(site: Site) -> str:
    """Return a configuration of OpenSSH with a block for each node and the jump host."""
    nodes = [target(site, node.name, node) for node in site.cluster.nodes]
    via = jump_host(site)
    known = _kept("known_hosts", known_hosts([*nodes, *([via] if via else [])]))
    return ssh_config(nodes, site.cluster.domain, known, via)


def _ansible_hosts(site: Site) -> dict[str, dict[str, object]]:
    way = _Way(site)
    return {node.name: way.ansible(node) | _variables(site, node) for node in site.cluster.nodes}


def _ansible(site: Site) -> str:
    return ansible_file(_ansible_hosts(site), machines.groups(site.cluster))


def _table(site: Site) -> str:
    rows = [
        (
            node.name,
            node.address,
            node.mac or "",
            (node.bmc and node.bmc.address) or "",
            (node.bmc and node.bmc.mac) or "",
            node.serial or "",
            ",".join(node.functions),
            f"{node.rack} u{node.rack_u}" if node.rack else "",
            node.hardware,
        )
        for node in site.cluster.nodes
    ]
    told = [column for column, cells in enumerate(zip(*rows, strict=True)) if any(cells)]
    return table([_HEADER[column] for column in told], [[row[column] for column in told] for row in rows])


_FORMATS: dict[str, Callable[[Site], str]] = {
    "table": _table,
    "json": lambda site: json.dumps(document(site), indent=2) + "\n",
    "ssh-config": _ssh_config,
    "ansible": _ansible,
    "clustershell": lambda site: machines.clustershell(site.cluster),
    "genders": lambda site: machines.genders(site.cluster),
}
_OVER_SSH = {"ssh-config", "ansible"}
