"""`--trust-new`: host keys that nobody has recorded yet are shown, put into the inventory, and held to from then on.

The one time that a key is believed because a machine shows it; whoever gives the option says so. A key that is
recorded is never replaced here: `hpcforge nodes replace` forgets it.

`hpcforge trust`: a node that has left the blueprint, and that only the head's roster knows, is confirmed by a person.
"""

from __future__ import annotations

import base64
import dataclasses
import sys
from pathlib import Path
from stat import S_IMODE
from typing import Any

import typer

from hpcforge.atomic import write_atomically
from hpcforge.blueprint.edit import SetValue, edited, with_values
from hpcforge.blueprint.hostlist import fold
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.site import Site, jump_host, open_engines, open_site, target
from hpcforge.cluster import load
from hpcforge.cluster.model import Access
from hpcforge.engines.private import private_folder
from hpcforge.errors import UsageError
from hpcforge.program import typed
from hpcforge.report import printing
from hpcforge.report.text import one_line, table
from hpcforge.run.history import Copy, read_log
from hpcforge.run.host_certificates import fingerprint
from hpcforge.run.trust import Shown, ask_for_keys


def trust(blueprint: Path, node: str, inventory: Path | None, lab: str | None, yes: bool) -> int:
    """Do what the help of `hpcforge trust` says; the exit status."""
    site = open_site(blueprint, inventory, lab, None)
    head, cluster = site.cluster.slurm.controller, site.cluster.name
    if node in site.cluster.by_name:
        raise UsageError(f"{node} is in the blueprint", "its host key is recorded by `hpcforge apply --trust-new`")
    with open_engines(site) as engines:
        _, roster, away = read_log(engines, head, cluster, 0)
    if away is not None or roster.problem:
        raise UsageError(f"the roster on {head} cannot be read: {away or roster.problem}", "see `hpcforge status`")
    one = roster.nodes.get(node)
    if one is None:
        raise UsageError(f"the roster on {head} has no {node}", f"it has {fold(tuple(roster.nodes)) or 'no nodes'}")
    rows = [[node, one.address, *_kind_and_fingerprint(key)] for key in one.host_keys]
    printing.note(
        f"as the roster on {head} has it:\n" + table(("node", "address", "type", "fingerprint"), rows, indent="  ")
    )
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("there is no terminal to ask on", "compare with the machine's console, then add --yes")
        typer.confirm(f"Is this {node}, and may hpcforge log in there?", abort=True, err=True)
    Copy.of(cluster).trust(cluster, node, one)
    printing.note(f"Next: {typed('apply', blueprint, inventory=inventory, lab=lab)}\n")
    return Exit.DONE


def trust_new(site: Site) -> Site:
    """Record the host key that each node without one shows now; the site as it is with them.

    Nodes that show none are named and stay as they were: hpcforge does not connect to them.
    """
    unknown = [node for node in site.cluster.nodes if not node.host_keys]
    via = jump_host(site)
    if not unknown and (via is None or via.host_keys):
        return site
    with private_folder() as work:
        shown = ask_for_keys([target(site, node.name, node) for node in unknown], via, work)
    for name, why in shown.refused.items():
        printing.note(f"{name}: no host key to accept: {one_line(why)}\n")
    if not shown.keys and shown.jump_host is None:
        return site
    printing.note(_table(site, shown))
    path = _write(site, shown)
    printing.note(
        f"accepted, written to {path}; to be sure, compare with each machine's console: "
        "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub\n"
    )
    loaded = load(site.loaded.blueprint_path, path)
    return dataclasses.replace(site, loaded=loaded, cluster=loaded.cluster)


def _table(site: Site, shown: Shown) -> str:
    rows = [(name, site.cluster.by_name[name].address, key) for name, key in shown.keys.items()]
    via = site.cluster.access.via
    if shown.jump_host is not None and via is not None and via.name not in shown.keys:
        rows.insert(0, (via.name, via.address, shown.jump_host))
    cells = [[name, address, *_kind_and_fingerprint(key)] for name, address, key in rows]
    return "new host keys:\n" + table(("node", "address", "type", "fingerprint"), cells, indent="  ")


def _kind_and_fingerprint(key: str) -> tuple[str, str]:
    kind, text = key.split()[:2]
    return kind, fingerprint(base64.b64decode(text))


def _write(site: Site, shown: Shown) -> Path:
    """Put the keys into the inventory, or into a new one that the blueprint is made to name. The inventory's path."""
    loaded = site.loaded
    path = loaded.inventory_path
    if path is None:
        path = loaded.blueprint_path.with_name(f"{loaded.blueprint_path.stem}.inventory.yaml")
        if path.exists():
            raise UsageError(
                f"{path} is there, but {loaded.blueprint_path} does not name it, so that keys cannot be recorded",
                f"add `inventory: {path.name}` to the blueprint, or name an inventory with --inventory",
            )
        old = "# What there is: the machines behind the blueprint's names.\nschema: 1\n"
    else:
        old = path.read_bytes().decode("utf-8")
    keys: dict[tuple[str, str], Any] = {(name, "host_keys"): [key] for name, key in shown.keys.items()}
    new = {path: with_values(old, "nodes", keys) if keys else old}
    access = site.cluster.access
    if shown.jump_host is not None and access.via is not None and not access.via.is_node:
        new[path] = edited(new[path], [SetValue(("access", "via"), _jump(access, shown.jump_host))])
    if loaded.inventory_path is None:
        blueprint = loaded.blueprint_path.read_bytes().decode("utf-8")
        new[loaded.blueprint_path] = edited(blueprint, [SetValue(("inventory",), path.name)])
    load(loaded.blueprint_path, path, instead=new)  # raises what would be wrong; nothing is written then
    for file, text in new.items():  # the blueprint last: it never names what is not there
        real = file.resolve()  # a link stays a link
        write_atomically(real, text, S_IMODE(real.stat().st_mode) if real.exists() else 0o644)
    return path


def _jump(access: Access, key: str) -> dict[str, Any]:
    assert access.via is not None
    other = {"user": access.via.user} if access.via.user != access.user else {}
    return {"host": access.via.address, **other, "host_keys": [key]}
