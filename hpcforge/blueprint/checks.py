"""Checks across the sections of a blueprint: names, addresses, references. Pure.

Each check yields findings, and has its row in `hpcforge.cluster.check_table`. A check that depends on a part that could
not be typed says nothing: a cause is reported, its consequences are not.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hpcforge.blueprint import hostlist, node_sets
from hpcforge.blueprint.diagnostics import did_you_mean, quote
from hpcforge.blueprint.reader import Loc, mark_of
from hpcforge.blueprint.sections.acceptance import acceptance_findings
from hpcforge.blueprint.sections.access import AccessSection, Via
from hpcforge.blueprint.sections.fabrics import NodeSet, fabric_findings
from hpcforge.blueprint.sections.networks import network_findings, primary
from hpcforge.blueprint.sections.services import Offer, Services
from hpcforge.blueprint.sections.site import unknown_racks
from hpcforge.blueprint.sections.slurm import SlurmSection, overlapping, reservation_findings
from hpcforge.blueprint.sections.software import Software
from hpcforge.blueprint.sections.storage import FileSystemSection, storage_findings
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.blueprint.visible_nodes import NamedNodes

# Errors in `slurm` about ssh to workers and about folders that jobs have for themselves.
_SYSTEM = frozenset(("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "root", "run", "sbin", "sys", "usr"))
_SHARED = frozenset(("/home", "/mnt", "/opt", "/srv", "/var", "/var/cache", "/var/lib", "/var/log", "/var/spool"))
_WITHIN = {
    "/tmp": "each job gets its own",  # noqa: S108 - compared, not used
    "/var/tmp": "systemd removes old files there",  # noqa: S108
    "/var/lib/slurm": "slurmd keeps its files there",
    "/home": "homes are there",
    "/opt/hpcforge": "hpcforge installs libraries for jobs there",
}


def job_findings(draft: Draft, declared: NamedNodes) -> Findings:
    """Yield what Slurm could not do, or would do to files of others."""
    slurm: SlurmSection | None = draft.sections["slurm"]
    if slurm is None:
        return
    if slurm.ssh == "jobs-only":
        yield from _ssh(draft, declared, slurm)
    if slurm.private_tmp is not None:
        yield from _private_tmp(draft, declared, slurm.private_tmp)
    yield from _no_hold(slurm)


def _ssh(draft: Draft, declared: NamedNodes, slurm: SlurmSection) -> Findings:
    loc: Loc = ("slurm", "ssh")
    if draft.intact("slurm", "enforce") and not slurm.enforce:
        message = "`jobs-only` needs cgroups to make a session part of a job, and `enforce` is empty"
        yield Finding(loc, message, "add cores, memory or gpus to `enforce`, or remove `ssh`")
    if not (declared.names_known and draft.intact("nodes")):
        return
    workers = declared.with_function("worker")
    entered = {*declared.with_function("head"), *declared.with_function("login")}
    if workers and entered.issuperset(workers):
        message = "`jobs-only` has no effect: every worker is also a head or a login node"
        yield Finding(loc, message, "remove it: it would lock out users of these nodes")


def _private_tmp(draft: Draft, declared: NamedNodes, folder: str) -> Findings:
    loc: Loc = ("slurm", "private_tmp")
    hint = "choose a separate folder on a local disk, such as /var/spool/jobs or /scratch/jobs"
    reason = next((reason for path, reason in _WITHIN.items() if _within(folder, path)), None)
    if folder.split("/")[1] in _SYSTEM:
        reason = f"`/{folder.split('/')[1]}` belongs to the system"
    elif folder in _SHARED:
        reason = "other users have files there"
    if reason:
        yield Finding(loc, f"jobs cannot have a private /tmp below `{folder}`: {reason}", hint)
    systems: dict[str, FileSystemSection] = draft.sections["storage"] or {}
    for name, file_system in systems.items():
        if file_system.drives is not None:
            if _within(file_system.mount, folder):
                message = f"jobs cannot have a private /tmp below `{folder}`: `storage.{name}` is there"
                yield Finding(loc, message, f"choose a folder in it, such as {file_system.mount}/jobs")
            continue
        of_worker = file_system.path if file_system.server in declared.with_function("worker") else None
        path = next((path for path in (file_system.mount, of_worker) if path and _meet(folder, path)), None)
        if path:
            message = f"jobs cannot have a private /tmp below `{folder}`: nodes share `{path}` of `storage.{name}`"
            yield Finding(loc, message, hint)


def _no_hold(slurm: SlurmSection) -> Findings:
    key = next((key for key in slurm.settings if key.lower() == "prologflags"), None)
    if key is None or "nohold" not in slurm.settings[key].lower().split(","):
        return
    settings = {"ssh": slurm.ssh == "jobs-only", "private_tmp": slurm.private_tmp is not None}
    fields = " and ".join(f"`{field}`" for field, chosen in settings.items() if chosen)
    if fields:
        message = f"{fields} need PrologFlags=Contain, and Slurm does not start with Contain and NoHold"
        yield Finding(("slurm", "settings", key), message, f"remove NoHold, or {fields}")


def _meet(path: str, second: str) -> bool:
    return _within(path, second) or _within(second, path)


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


Findings = Iterator[Finding]


def node_name_findings(_: Draft, declared: NamedNodes) -> Findings:
    """Yield nodes that are named twice, and too many of them."""
    for key, names in declared.twice.items():
        elsewhere = ",".join(sorted({declared.group_of[name] for name in names} - {key}))
        yield Finding(("nodes", key), f"{hostlist.fold(names)} is named twice", f"also under `{elsewhere}`", key=True)
    if declared.too_many:
        yield Finding(("nodes",), f"more than {hostlist.MAX_NAMES:,} nodes", key=True)


def jump_host_findings(draft: Draft, declared: NamedNodes) -> Findings:
    """Yield settings of a jump host that is a node."""
    access: AccessSection | None = draft.sections["access"]
    if access is not None and draft.intact("access"):
        yield from node_as_jump_host(access.via, declared)


def node_as_jump_host(via: Via | None, declared: NamedNodes) -> Findings:
    """Yield settings of a jump host that is a node: the node has its own."""
    if via is None or via.host not in declared.group_of:
        return
    for key, setting in (("user", via.user), ("host_keys", via.host_keys)):
        if setting:
            message = f"{quote(via.host)} is a node: hpcforge uses the node's own {key.replace('_', ' ')}"
            yield Finding(("access", "via", key), message, "leave this out", key=True)


def node_network(draft: Draft) -> str | None:
    """Return the network that the addresses of nodes are on; None where that is not sure."""
    if not (draft.intact("networks") and draft.intact("fabrics")):
        networks = (draft.sections["networks"] or {}).items() if draft.keys_intact("networks") else ()
        booting = [name for name, network in networks if network.boot and draft.intact("networks", name)]
        return booting[0] if len(booting) == 1 else None
    return primary(draft.sections["networks"] or {}, draft.sections["fabrics"] or {})


def address_findings(draft: Draft, declared: NamedNodes) -> Findings:
    """Yield addresses that are not one for each node, or not on the network of nodes."""
    network = node_network(draft)
    owner: dict[str, str] = {}
    for key, group in declared.groups.items():
        if group.addresses is None:
            continue
        loc = ("nodes", key, "addresses")
        names, addresses = hostlist.expand(key), hostlist.expand(group.addresses)
        if len(names) != len(addresses):
            counts = (
                f"{len(names)} name{'s' * (len(names) > 1)} but {len(addresses)} address{'es' * (len(addresses) > 1)}"
            )
            yield Finding(loc, counts, _range_hint(key) if len(names) == 1 else None)
        yield from _shared_addresses(loc, zip(names, addresses, strict=False), owner)
        if network:
            yield from outside(loc, addresses, draft.sections["networks"][network].cidr, f"network `{network}`")


def _range_hint(name: str) -> str | None:
    """`gpu01-06` and `gpu01-gpu06` are names of one node."""
    match = re.fullmatch(r"([a-z][a-z-]{0,40})([0-9]{1,9})-([a-z-]{0,40})([0-9]{1,9})", name)
    if match is None or match[3] not in ("", match[1]):
        return None
    return f"{quote(name)} is one name; did you mean `{match[1]}[{match[2]}-{match[4]}]`?"


def _shared_addresses(loc: Loc, pairs: Iterable[tuple[str, str]], owner: dict[str, str]) -> Findings:
    for name, address in pairs:
        if address in owner:
            yield Finding(loc, f"{address} of {name} already belongs to {owner[address]}")
        owner.setdefault(address, name)


def outside(loc: Loc, addresses: Iterable[str], cidr: str, network: str) -> Findings:
    """Yield a finding for the addresses that no node on a network can have."""
    subnet = ipaddress.IPv4Network(cidr)
    parsed = [ipaddress.IPv4Address(address) for address in addresses]
    strangers = [str(address) for address in parsed if address not in subnet]
    if strangers:
        yield Finding(loc, f"{hostlist.fold(strangers)} is outside {network}, {cidr}")
    for address, kind in ((subnet.network_address, "network"), (subnet.broadcast_address, "broadcast")):
        if address in parsed:
            yield Finding(loc, f"{address} is the {kind} address of {network}, {cidr}")


def _reference(declared: NamedNodes, loc: Loc, names: Iterable[str], *, key: bool = False) -> Findings:
    unknown = declared.unknown(names)
    if unknown:
        close = did_you_mean(unknown[0], declared.group_of) if len(unknown) == 1 else None
        verb = "is not a node" if len(unknown) == 1 else "are not nodes"
        yield Finding(
            loc,
            f"{quote(hostlist.fold(unknown))} {verb} of this blueprint",
            close or f"its nodes: {hostlist.fold(declared.group_of)}",
            key=key,
        )


def service_section_findings(draft: Draft, declared: NamedNodes) -> Findings:
    """Yield services that lack another one, a node, or a choice between node and site."""
    services: Services | None = draft.sections["services"]
    chosen = services.by_name() if services else {}
    for name, service in chosen.items():
        if not draft.intact("services", name):
            continue
        loc = ("services", name)
        for needed in services.offers[name].needs if services else ():
            if needed not in chosen and draft.intact("services", needed):
                yield Finding(
                    loc,
                    f"`{name}` needs the service `{needed}`",
                    f"add it under `services`: `{needed}: {{on: NODE}}`",
                    key=True,
                )
        if service.on_set is not None:
            yield from _service_nodes(draft, declared, name, (*loc, "on"), service.on_set)
        if (service.on_set is None) == (not service.outside):
            yield Finding(
                loc,
                f"`{name}` needs one of `on` and `external`, not {'both' if service.on_set else 'neither'}",
                "on: the node that provides it; external: the site's own service",
                key=True,
            )
        for option in services.offers[name].options if services else ():
            if getattr(service, option) and not service.on_set:
                yield Finding(
                    (*loc, option), f"`{option}` needs `on`: it is for a service that a node provides", key=True
                )


def _service_nodes(draft: Draft, declared: NamedNodes, name: str, loc: Loc, text: str) -> Findings:
    names, wrong = declared.named(draft, loc, text)
    yield from wrong
    services: Services = draft.sections["services"]
    if names is not None:
        yield from service_findings(name, services.offers[name], loc, names)


def service_findings(name: str, offer: Offer, loc: Loc, names: Sequence[str]) -> Findings:
    """Yield that a service would run on no node, or on more than it can."""
    if not names:
        yield Finding(loc, f"`{name}` would run on no node")
    elif len(names) > 1 and not offer.multiple_nodes:
        message = f"`{name}` runs on one node, not on {len(names)}: {hostlist.fold(names)}"
        yield Finding(loc, message, "name one")


def site_role_findings(draft: Draft, declared: NamedNodes) -> Findings:
    """Yield site roles with equal names, and site roles without nodes."""
    software: Software | None = draft.sections["software"]
    if software is None or not draft.intact("software", "site_roles"):
        return
    path_by_name: dict[str, str] = {}
    for index, role in enumerate(software.site_roles):
        loc = ("software", "site_roles", index)
        name = role.path.rstrip("/").rpartition("/")[2]
        if path_by_name.setdefault(name, role.path) != role.path or name in list(path_by_name)[:-1]:
            yield Finding((*loc, "path"), f"a second site role called {quote(name)}", "rename its folder")
        nodes, wrong = declared.named(draft, (*loc, "on"), role.on)
        yield from wrong
        if nodes == () and draft.intact("nodes"):
            yield no_node((*loc, "on"), role.on)
        having = declared.with_function(role.on)
        if having and role.on in declared.group_of and having != (role.on,) and draft.intact("nodes"):
            yield Finding(
                (*loc, "on"),
                f"{quote(role.on)} names both a node and a function of other nodes; hpcforge uses the node",
                f"for the function, list the nodes: {hostlist.fold(having)}",
                severity="warning",
            )


def controller_findings(draft: Draft, declared: NamedNodes) -> Findings:
    """Yield a controller of Slurm that is not a head."""
    slurm: SlurmSection | None = draft.sections["slurm"]
    if slurm is None or not draft.intact("slurm", "controller"):
        return
    loc = ("slurm", "controller")
    yield from _reference(declared, loc, (slurm.controller,))
    if declared.without_function((slurm.controller,), "head"):
        heads = hostlist.fold(declared.with_function("head"))
        hint = f"heads: {heads}" if heads else "give it the function head"
        yield Finding(loc, f"the controller {quote(slurm.controller)} is not a head", hint)


def partition_findings(draft: Draft, declared: NamedNodes) -> Findings:
    """Yield nodes of partitions that are not workers, and a missing or second default."""
    slurm: SlurmSection | None = draft.sections["slurm"]
    defaults: list[str] = []
    for name, partition in (slurm.partitions if slurm else {}).items():
        loc = ("slurm", "partitions", name)
        if draft.intact(*loc, "nodes"):
            yield from _workers(draft, declared, (*loc, "nodes"), partition.nodes)
        yield from _submit_hosts(declared, (*loc, "settings"), partition.settings)
        if partition.default and defaults:
            yield Finding(
                (*loc, "default"), "a second default partition", f"the first is `{defaults[0]}`; a cluster has one"
            )
        if partition.default:
            defaults.append(name)
    if slurm and not defaults and draft.intact("slurm", "partitions"):
        yield Finding(
            ("slurm", "partitions"),
            "no partition is the default",
            "jobs that name no partition are refused; give one `default: true`",
            severity="warning",
            key=True,
        )


def _submit_hosts(declared: NamedNodes, loc: Loc, settings: Mapping[str, str]) -> Findings:
    """Check hosts that jobs may be submitted from; one outside the blueprint may be meant."""
    for key, hosts in settings.items():
        if key.lower() != "allocnodes" or hosts.lower() == "all":
            continue
        try:
            unknown = declared.unknown(hostlist.expand(hosts))
        except hostlist.HostlistError as error:
            yield Finding((*loc, key), f"{quote(hosts)} {error}", error.hint)
            continue
        if unknown:
            message = f"{hostlist.fold(unknown)}: not among the nodes of this blueprint"
            yield Finding((*loc, key), message, did_you_mean(unknown[0], declared.group_of), severity="warning")


def worker_key_findings(_: Draft, declared: NamedNodes) -> Findings:
    """Yield keys for Slurm's line of a node that has no such line."""
    for name, group in declared.groups.items():
        settings = {"features": bool(group.features), "weight": group.weight is not None}
        for key in [key for key, is_set in settings.items() if is_set and "worker" not in group.functions]:
            message = f"`{key}` has no effect: only workers are nodes of Slurm"
            yield Finding(("nodes", name, key), message, "remove it", severity="warning", key=True)


def reservation_section_findings(draft: Draft, declared: NamedNodes) -> Findings:
    """Yield reservations with wrong nodes, times, users or accounts, and overlapping ones."""
    yield from reservation_findings(draft, lambda loc, text: _workers(draft, declared, loc, text))
    yield from overlapping(draft, lambda text: declared.named(draft, (), text, workers=True)[0])


def _workers(draft: Draft, declared: NamedNodes, loc: Loc, text: str) -> Findings:
    """Check a set of workers; a word stands for those of its nodes that are workers."""
    names, wrong = declared.named(draft, loc, text, workers=True)
    yield from wrong
    idle = declared.without_function(names or (), "worker")
    if idle:
        verb = "is not a worker" if len(idle) == 1 else "are not workers"
        yield Finding(loc, f"{quote(hostlist.fold(idle))} {verb}", "only nodes with the function worker run jobs")
    elif names == () and draft.intact("nodes"):
        yield no_worker(loc, text)


def no_node(loc: Loc, text: str) -> Finding:
    """Say that a set is empty."""
    return Finding(loc, f"no node is in {quote(text)}")


def no_worker(loc: Loc, text: str) -> Finding:
    """Say that a set has no node that runs jobs."""
    return Finding(loc, f"no worker is in {quote(text)}", "name nodes with the function worker")


def _partition_nodes(draft: Draft, declared: NamedNodes) -> dict[str, tuple[str, ...] | None]:
    """Return the nodes of each partition; None where they are wrong, or not known yet."""
    slurm: SlurmSection | None = draft.sections["slurm"]
    partitions = slurm.partitions if slurm else {}
    return {name: declared.named(draft, (), partition.nodes, workers=True)[0] for name, partition in partitions.items()}


def idle_worker_findings(draft: Draft, declared: NamedNodes) -> Findings:
    """Yield workers that are in no partition."""
    slurm: SlurmSection | None = draft.sections["slurm"]
    workers = declared.with_function("worker")
    if declared.names_known and draft.intact("nodes") and not workers:
        yield Finding(("nodes",), "no node has the function worker", "a cluster needs one to run jobs", key=True)
    if slurm is None or not (draft.intact("nodes") and draft.intact("slurm", "partitions")):
        return
    partitions = _partition_nodes(draft, declared).values()
    if None in partitions:
        return  # a wrong name there may be the reason
    used = {name for names in partitions for name in names or ()}
    idle: dict[str, list[str]] = {}
    for name in workers:
        if name not in used:
            idle.setdefault(declared.group_of[name], []).append(name)
    for key, names in idle.items():
        yield Finding(
            ("nodes", key),
            f"{hostlist.fold(names)} in no partition: no job runs there",
            "name it in a partition under slurm.partitions",
            severity="warning",
            key=True,
        )


def storage_section_findings(draft: Draft, declared: NamedNodes) -> Findings:
    """Yield file systems with wrong servers, paths, networks or nodes."""
    yield from storage_findings(draft, declared, lambda loc, names: _reference(declared, loc, names))


def override_section_findings(draft: Draft, declared: NamedNodes) -> Findings:
    """Yield overrides of unknown nodes, and reasons that a comment cuts off."""
    for name, override in (draft.sections["overrides"] or {}).items():
        yield from _reference(declared, ("overrides", name), (name,), key=True)
        yield from _cut_by_comment(draft, ("overrides", name, "reason"), override.reason)


def _cut_by_comment(draft: Draft, loc: Loc, text: str) -> Findings:
    """`reason: DIMM #3 is out`: what follows ` #` is a comment, which people write with a space after it."""
    mark = mark_of(draft.document.root, loc)
    lines = (mark.source or draft.document.source).lines
    rest = lines[mark.line - 1][mark.column - 1 + mark.width :][:200]
    if lines[mark.line - 1][mark.column - 1 :].startswith(text) and re.match(" ++#[^ #]", rest):
        hint = f"quote the whole value: {quote(f'{loc[-1]}: {chr(34)}{text}{rest.rstrip()}{chr(34)}')}"
        yield Finding(loc, f"{quote(text)} ends at ` #`, which starts a comment", hint, severity="warning")


def acceptance_section_findings(draft: Draft, declared: NamedNodes) -> Findings:
    """Yield smoke tests that cannot run, by their nodes, options and times."""
    workers = declared.with_function("worker")
    sure = declared.names_known and draft.intact("nodes")  # else a wrong name there may make one unknown
    slurm: SlurmSection | None = draft.sections["slurm"]
    sure = sure and draft.keys_intact("slurm", "partitions")
    intact = slurm is not None and draft.intact("slurm", "partitions")
    nodes = _partition_nodes(draft, declared) if intact else dict.fromkeys(draft.keys("slurm", "partitions"))
    wrong = {name for name, names in nodes.items() if set(names or ()) - set(workers)}  # another check reports it
    partitions = {name: None if name in wrong else names for name, names in nodes.items()}
    words = node_sets.with_words(declared.workers_known(draft), partition=partitions)
    limits = {name: (names, slurm.partitions[name].max_time) for name, names in nodes.items() if slurm and names}
    all_known = len(limits) == len(nodes)
    yield from acceptance_findings(draft, words if sure else None, workers, limits if all_known else {})


def rack_findings(draft: Draft, declared: NamedNodes) -> Findings:
    """Check the racks that nodes are put into."""
    if not draft.keys_intact("site", "racks"):
        return
    racks = {name for key in draft.keys("site", "racks") for name in hostlist.expand(key)}
    for key, group in declared.groups.items():
        unknown = [name for name in hostlist.expand(group.rack) if name not in racks] if group.rack else []
        if unknown:
            yield unknown_racks(("nodes", key, "rack"), unknown, racks)
        if group.u and not group.rack and draft.intact("nodes", key):
            yield Finding(("nodes", key, "u"), "`u` without `rack`", "add `rack`: the racks of these units", key=True)


def fabric_section_findings(draft: Draft, declared: NamedNodes) -> Findings:
    """Yield fabrics with wrong keys, nodes, racks or subnet manager."""
    yield from fabric_findings(draft, lambda loc, names: _reference(declared, loc, names), _sets(draft, declared))


def network_section_findings(draft: Draft, declared: NamedNodes) -> Findings:
    """Yield networks that overlap, or that their fabric or purpose does not fit."""
    yield from network_findings(draft, lambda loc, names: _reference(declared, loc, names), _sets(draft, declared))


def _sets(draft: Draft, declared: NamedNodes) -> NodeSet:
    """Node sets that have to be known before racks are filled, since switches stand there, too."""

    def nodes(loc: Loc, text: str) -> tuple[tuple[str, ...] | None, list[Finding]]:
        names, wrong = declared.named(draft, loc, text)
        if names is None and not wrong and declared.names_known:
            message = f"{quote(text)} depends on proposed rack positions, which may change"
            wrong = [Finding(loc, message, "give all nodes `rack` and `u`, or list the nodes")]
        elif names == () and draft.intact("nodes"):
            wrong = [no_node(loc, text)]
        return names, wrong

    return nodes
