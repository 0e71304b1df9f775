"""The machines of a site for ssh, Ansible and pyinfra: they connect as hpcforge does, with the same host keys."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from hpcforge.atomic import write_atomically
from hpcforge.cluster import machines
from hpcforge.cluster.model import Node
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
from hpcforge.run.site import Site, jump_host, target


class _Connections:
    """Connections to nodes as hpcforge makes them, with the host keys of the inventory and no others."""

    def __init__(self, site: Site) -> None:
        self._site, self._via = site, jump_host(site)
        nodes = [target(site, node.name, node) for node in site.cluster.nodes]
        self._hosts_file = _store("known_hosts", known_hosts([*nodes, *([self._via] if self._via else [])]))

    def ansible(self, node: Node) -> dict[str, Any]:
        node_target = target(self._site, node.name, node)
        return ansible_connection(node_target, self._hosts_file, self._proxy(node_target))

    def pyinfra(self, node: Node) -> dict[str, Any]:
        node_target = target(self._site, node.name, node)
        proxy = self._proxy(node_target)
        config = _store("ssh_config", f"Host *\n  ProxyCommand {proxy}\n") if proxy else None
        return pyinfra_connection(node_target, self._hosts_file, config)

    def _proxy(self, node_target: Target) -> str | None:
        if self._via is None or node_target.address == self._via.address:
            return None
        return proxy_command(ssh_words(self._via, self._hosts_file), self._via)


def _store(name: str, text: str) -> Path:
    """Store a file named by its content: other tools read it after hpcforge has ended."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hpcforge" / "inventory"
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.{name}"
    if not path.exists():
        write_atomically(path, text)
    return path


def ssh_config_of(site: Site) -> str:
    """Return a configuration of OpenSSH with a block for each node and the jump host."""
    nodes = [target(site, node.name, node) for node in site.cluster.nodes]
    via = jump_host(site)
    hosts_file = _store("known_hosts", known_hosts([*nodes, *([via] if via else [])]))
    return ssh_config(nodes, site.cluster.domain, hosts_file, via)


def ansible_inventory_of(site: Site) -> str:
    """Return an inventory of Ansible, to be a .yml file."""
    return ansible_file(_ansible_hosts(site), machines.groups(site.cluster))


def ansible_script_of(site: Site) -> str:
    """Return what a script has to print that Ansible runs as its inventory."""
    return ansible_inventory(_ansible_hosts(site), machines.groups(site.cluster))


def pyinfra_inventory_of(site: Site) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Return hosts with their data, by group, as pyinfra has them."""
    connections = _Connections(site)
    hosts = {node.name: (node.name, connections.pyinfra(node) | _variables(site, node)) for node in site.cluster.nodes}
    groups = machines.groups(site.cluster)
    return {"all": list(hosts.values()), **{name: [hosts[node] for node in nodes] for name, nodes in groups.items()}}


def _ansible_hosts(site: Site) -> dict[str, dict[str, object]]:
    connections = _Connections(site)
    return {node.name: connections.ansible(node) | _variables(site, node) for node in site.cluster.nodes}


def _variables(site: Site, node: Node) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(machines.machine(node)))
    return {**machines.variables(site.cluster, node), "hpcforge_machine": plain}
