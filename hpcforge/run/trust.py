"""Trust of machines: host keys without a record, and nodes that only the head's roster lists.

A key is believed because a machine shows it only once, and where the operator says so; one that is recorded is never
replaced here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcforge.blueprint.edit import SetValue, edited, with_values
from hpcforge.blueprint.hostlist import fold
from hpcforge.cluster import Loaded, load
from hpcforge.cluster.model import Access, Cluster
from hpcforge.engines import Engines
from hpcforge.engines.host_keys import private_folder
from hpcforge.engines.tasks import HostKey, Target
from hpcforge.errors import UsageError
from hpcforge.plan.roster import Enrolled
from hpcforge.run.fanout import ask_all
from hpcforge.run.records.history import Copy, read_log
from hpcforge.run.site import Site, current, jump_host, open_engines, site_lock, target, write_texts


@dataclass(frozen=True)
class MachineKeys:
    """The answers of machines by name: a public key, "ssh-ed25519 AAAA...", or the reason for none."""

    keys: dict[str, str]
    refused: dict[str, str]
    jump_host: str | None = None  # the jump host's key, if requested


def ask_for_keys(targets: Sequence[Target], via: Target | None, work_dir: Path) -> MachineKeys:
    """Ask each target for its host key, through `via`, whose own key is asked for first where it is not known."""
    if via is None or via.host_keys:
        return _ask(targets, via, work_dir)
    first = _ask([via], None, work_dir)
    if via.name in first.refused:
        return MachineKeys({}, {target.name: first.refused[via.name] for target in targets})
    key = first.keys[via.name]
    behind = [target for target in targets if target.name != via.name]
    shown = _ask(behind, dataclasses.replace(via, host_keys=(key,)), work_dir)
    itself = {via.name: key} if len(behind) < len(targets) else {}
    return MachineKeys(itself | shown.keys, shown.refused, key)


def _ask(targets: Sequence[Target], via: Target | None, work_dir: Path) -> MachineKeys:
    shown = MachineKeys({}, {})
    with Engines(targets, work_dir, work_dir, via) as engines:
        for event in ask_all(engines, [HostKey(target.name, target.name) for target in targets]):
            if event.data["ok"]:
                shown.keys[event.node] = event.data["stdout"]
            else:
                shown.refused[event.node] = event.data["error"]
    return shown


def new_keys(site: Site) -> MachineKeys:
    """Return the host keys that nodes without a recorded one show now, and the jump host's, if not recorded."""
    unknown = [node for node in site.cluster.nodes if not node.host_keys]
    via = jump_host(site)
    if not unknown and (via is None or via.host_keys):
        return MachineKeys({}, {})
    with private_folder() as work:
        return ask_for_keys([target(site, node.name, node) for node in unknown], via, work)


def record(site: Site, shown: MachineKeys) -> Site:
    """Put the keys into the inventory, or into a new one that the blueprint is made to name; the site with them.

    Raises:
        InvalidInput: with them the files would be wrong; nothing is written then.
        UsageError: there is a file where the new inventory would be.
    """
    with site_lock(site.loaded):
        latest = current(site.loaded)
        path, texts = _with_keys(latest, site.cluster, shown)
        load(
            latest.blueprint_path, path, instead=texts
        )  # raises if the files would be invalid; nothing is written then
        write_texts(latest, texts)
        reread = load(latest.blueprint_path, path)
    return dataclasses.replace(site, loaded=reread, cluster=reread.cluster)


def _with_keys(loaded: Loaded, before: Cluster, shown: MachineKeys) -> tuple[Path, dict[Path, str]]:
    """Return the inventory and the new texts; keys of nodes that got one meanwhile, or moved, are left out."""
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
        old = loaded.text(path)
    nodes = loaded.cluster.by_name
    keys = {
        (name, "host_keys"): [key]
        for name, key in shown.keys.items()
        if name in nodes and not nodes[name].host_keys and nodes[name].address == before.by_name[name].address
    }
    new = {path: with_values(old, "nodes", keys) if keys else old}
    access = loaded.cluster.access
    if shown.jump_host is not None and access.via and not access.via.is_node and not access.via.host_keys:
        new[path] = edited(new[path], [SetValue(("access", "via"), _jump(access, shown.jump_host))])
    if loaded.inventory_path is None:
        blueprint = loaded.text(loaded.blueprint_path)
        new[loaded.blueprint_path] = edited(blueprint, [SetValue(("inventory",), path.name)])
    return path, new  # the blueprint last: it never names a missing file


def _jump(access: Access, key: str) -> dict[str, object]:
    assert access.via is not None
    account = {"user": access.via.user} if access.via.user != access.user else {}
    return {"host": access.via.address, **account, "host_keys": [key]}


def enrolled(site: Site, node: str) -> Enrolled:
    """Return a node from the head's roster. Raise UsageError where the roster has no such node or cannot be read."""
    head = site.cluster.slurm.controller
    with open_engines(site) as engines:
        _, roster, away = read_log(engines, head, site.cluster.name, 0, site.kept_as)
    if away is not None or roster.problem:
        raise UsageError(f"the node list on {head} cannot be read: {away or roster.problem}", "see `hpcforge status`")
    machine = roster.nodes.get(node)
    if machine is None:
        raise UsageError(f"the node list on {head} has no {node}", f"it has {fold(tuple(roster.nodes)) or 'no nodes'}")
    return machine


def confirm(site: Site, node: str, machine: Enrolled) -> None:
    """Record the node on this host as the head has it. Raises `OSError`."""
    Copy.of(site.kept_as).trust(site.cluster.name, node, machine)
