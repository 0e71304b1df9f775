"""`hpcforge trust`: a person confirms a node that left the blueprint and that only the head still lists.

`--trust-new`: show host keys without a record, write them to the inventory, and require them from then on. Only this
option trusts a key because a machine presents it. It never replaces a recorded key: `hpcforge nodes replace` does.
"""

from __future__ import annotations

import base64
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.options import Blueprint, Inventory, LabName
from hpcforge.cli.verb import verb
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.report import printing
from hpcforge.report.text import by_reason, one_line, table

if TYPE_CHECKING:
    from hpcforge.run.site import Site
    from hpcforge.run.trust import MachineKeys


@dataclass(frozen=True, kw_only=True)
class TrustOptions:
    """Options of `hpcforge trust`."""

    blueprint: Blueprint
    node: Annotated[str, typer.Argument(help="A node that was removed from the blueprint.", show_default=False)]
    inventory: Inventory = None
    lab: LabName = None
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False


@verb(epilog="Example: hpcforge trust blueprints/rehearsal.yaml w03")
def trust(options: TrustOptions) -> int:
    """Allow the next apply to log in there and to remove what hpcforge installed."""
    from hpcforge.cli.site import open_site
    from hpcforge.run.trust import confirm, enrolled

    site, node = open_site(options.blueprint, options.inventory, options.lab, None), options.node
    head = site.cluster.slurm.controller
    if node in site.cluster.by_name:
        raise UsageError(f"{node} is in the blueprint", "its host key is recorded by `hpcforge apply --trust-new`")
    machine = enrolled(site, node)
    rows = [[node, machine.address, *kind_and_fingerprint(key)] for key in machine.host_keys]
    printing.note(
        f"as the node list on {head} has it:\n" + table(("node", "address", "type", "fingerprint"), rows, indent="  ")
    )
    if not options.yes:
        if not sys.stdin.isatty():
            raise UsageError(
                "the question needs a terminal", "compare the key with the machine's console, then add --yes"
            )
        typer.confirm(f"Is this {node}, and may hpcforge log in to it?", abort=True, err=True)
    confirm(site, node, machine)
    command = command_line("apply", options.blueprint, inventory=options.inventory, lab=options.lab)
    printing.note(f"Next: {command}\n")
    return Exit.DONE


def trust_new(site: Site) -> Site:
    """Record the host key that each node without one presents. Returns the site with these keys.

    Prints the nodes that present none; they stay as they were, and hpcforge does not connect to them.
    """
    from hpcforge.run.trust import new_keys, record

    if site.stand_ins:
        return site  # the lab made the keys of its nodes; the site's files get none of them
    shown = new_keys(site)
    for nodes, _, reason in by_reason(shown.refused):
        printing.note(f"{nodes}: no host key to accept: {one_line(reason)}\n")
    if not shown.keys and shown.jump_host is None:
        return site
    printing.note(_table(site, shown))
    reread = record(site, shown)
    printing.note(
        f"accepted, written to {reread.loaded.inventory_path}; to be sure, compare with each machine's console: "
        "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub\n"
    )
    return reread


def _table(site: Site, shown: MachineKeys) -> str:
    rows = [(name, site.cluster.by_name[name].address, key) for name, key in shown.keys.items()]
    via = site.cluster.access.via
    if shown.jump_host is not None and via is not None and via.name not in shown.keys:
        rows.insert(0, (via.name, via.address, shown.jump_host))
    cells = [[name, address, *kind_and_fingerprint(key)] for name, address, key in rows]
    return "new host keys:\n" + table(("node", "address", "type", "fingerprint"), cells, indent="  ")


def kind_and_fingerprint(key: str) -> tuple[str, str]:
    """Return the type of an OpenSSH public key, and its SHA-256 as ssh-keygen prints it."""
    from hpcforge.secrets.host_certificates import fingerprint

    kind, text = key.split()[:2]
    return kind, fingerprint(base64.b64decode(text))
