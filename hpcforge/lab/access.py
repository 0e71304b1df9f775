"""How to get into a lab's nodes: keys, host keys, inventory."""

from __future__ import annotations

import yaml

from hpcforge.atomic import write_atomically
from hpcforge.lab.commands import run
from hpcforge.lab.kinds import kind_of
from hpcforge.lab.state import Lab


def make_key(lab: Lab) -> None:
    """The lab's own key pair, once."""
    if not (lab.key.exists() and lab.key.with_name("key.pub").exists()):
        lab.key.unlink(missing_ok=True)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"hpcforge lab {lab.name}", "-f", lab.key)


def write_access_files(lab: Lab) -> None:
    """known_hosts of all nodes that were ever started; the inventory of those in the blueprint."""
    keys = {node.name: key for node in lab.nodes if (key := kind_of(lab).host_key(lab, node)) is not None}
    lines = [f"{lab.node(name).address},{name} {key}\n" for name, key in keys.items()]
    write_atomically(lab.known_hosts, "".join(lines))
    inventory = {
        "schema": 1,
        "access": {"key": str(lab.key)},
        "networks": {lab.network: {"cidr": lab.cidr}},
        "nodes": {
            name: {"address": lab.node(name).address, "host_keys": [keys[name]]}
            for name in lab.in_blueprint
            if name in keys
        },
    }
    heading = f"# Written by `hpcforge rehearse up` for lab {lab.name}.\n"
    write_atomically(lab.inventory, heading + yaml.safe_dump(inventory, sort_keys=False, width=1000))
