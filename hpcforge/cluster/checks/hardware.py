"""Check hardware against the catalog, and memory against the needs of roles. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.diagnostics import closest_or_all, quote
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.role_declarations import RoleMemory
from hpcforge.blueprint.schema import Blueprint
from hpcforge.blueprint.sections.fabrics import unknown_models
from hpcforge.blueprint.sections.hardware import GUESS, CatalogEntry, Parts, Server
from hpcforge.blueprint.sections.networks import LARGEST_MTU
from hpcforge.blueprint.sections.site import SiteSection
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.blueprint.values import counted
from hpcforge.catalog import Catalog
from hpcforge.cluster.model import Cluster

# Nodes with less memory than their services take, as roles declare it.
_GIB = 1024  # MiB


def memory_findings(
    blueprint: Blueprint, cluster: Cluster, catalog: Catalog, memory: Mapping[str, RoleMemory]
) -> Iterator[Finding]:
    """Yield machines whose services need more memory than they have; unknown memory and rehearsals are not checked."""
    placed: dict[str, dict[str, float]] = {}  # MiB by service, by node
    usual: dict[str, float] = {}  # services of every node
    for role, takes in memory.items():
        mib = takes.need.mib + takes.need.per_node_mib * len(cluster.nodes)
        for name in takes.services:
            for machine in cluster.services[name].on if name in cluster.services else ():
                placed.setdefault(machine, {})[name] = mib
        if takes.scheduler:
            placed.setdefault(cluster.slurm.controller, {})["slurm.controller"] = mib
        if takes.everywhere:
            usual[role] = mib
    guess = any(takes.need.source.startswith(GUESS) for takes in memory.values())
    group_of = {name: key for key in blueprint.nodes for name in hostlist.expand(key)}
    for name, services in placed.items():
        node = cluster.by_name[name]
        parts = usual | services
        if not node.memory_mib or sum(parts.values()) <= node.memory_mib:
            continue
        if catalog.servers[node.hardware].machine == "rehearsal":
            continue
        terms = " + ".join(f"{mib / _GIB:.2f} ({part})" for part, mib in parts.items())
        sums = f"{terms} = {sum(parts.values()) / _GIB:.2f} GiB > {node.memory_mib / _GIB:.2f} GiB"
        largest = max(services, key=lambda part: services[part])
        hint = f"more memory, or another node for {largest}{'; some of these numbers are guesses' if guess else ''}"
        message = f"{name} has less memory than its services take: {sums}"
        yield Finding(("nodes", group_of[name], "hardware"), message, hint, severity="warning")


Findings = Iterator[Finding]
_RATE = re.compile(r"[0-9]{1,4}(?:\.[0-9])?G")  # 200G
_SIZE = re.compile(r"[0-9]{1,5}(?:\.[0-9]{1,3})?[GT]B")  # 15.36TB


def hardware_findings(draft: Draft, catalog: Catalog) -> Findings:
    """Yield what `hardware`, `parts`, `fabrics` and `site` name that neither they nor the catalog have."""
    servers: dict[str, Server] = draft.sections["hardware"] or {}
    yield from _likes(("hardware",), servers, catalog.servers)
    for name, server in servers.items():
        yield from _server(("hardware", name), server, catalog, draft)
    if draft.sections["parts"] and draft.intact("parts"):
        yield from _parts(draft.sections["parts"], catalog)
    if draft.intact("parts"):
        yield from unknown_models(draft, catalog.switches, catalog.cables)
        yield from _large_packets(draft, catalog)
    if draft.sections["site"] and draft.intact("parts"):
        yield from _site(draft.sections["site"], catalog)


def _parts(parts: Parts, catalog: Catalog) -> Findings:
    yield from _likes(("parts", "gpus"), parts.gpus, catalog.gpus)
    yield from _likes(("parts", "cpus"), parts.cpus, catalog.cpus)
    yield from _likes(("parts", "nics"), parts.nics, catalog.nics)
    yield from _likes(("parts", "drives"), parts.drives, catalog.drives)
    yield from _likes(("parts", "pdus"), parts.pdus, catalog.pdus)
    yield from _likes(("parts", "ups"), parts.ups, catalog.ups)
    yield from _likes(("parts", "racks"), parts.racks, catalog.racks)
    yield from _likes(("parts", "switches"), parts.switches, catalog.switches)
    yield from _likes(("parts", "cables"), parts.cables, catalog.cables)
    for name in parts.cables:
        cable = catalog.cables[name]
        facts = (
            ("rate_gbps", "plugs", "socket")
            if cable.kind == "adapter"
            else ("kind", "rate_gbps", "reach_m", "lengths_m")
        )
        missing = [fact for fact in facts if not getattr(cable, fact)]
        if missing and (cable.like is None or cable.like in catalog.cables):
            message = f"a cable without {' or '.join(missing)} is never chosen"
            hint = "start from a model of the catalog with `like:`"
            yield Finding(("parts", "cables", name), message, hint, key=True)


def _large_packets(draft: Draft, catalog: Catalog) -> Findings:
    """Yield networks whose packets are larger than a switch of their fabric carries, if that is published."""
    fabrics = draft.sections["fabrics"] or {}
    for name, network in (draft.sections["networks"] or {}).items():
        fabric, loc = fabrics.get(network.fabric or ""), ("networks", name, "mtu")
        if fabric is None or network.mtu is None or not draft.intact(*loc):
            continue
        if network.mtu > LARGEST_MTU[fabric.kind]:  # another check reports it
            continue
        for model in dict.fromkeys(filter(None, (fabric.switch, fabric.spine_switch))):
            switch = catalog.switches.get(model)
            if switch is None or switch.mtu_max is None or network.mtu <= switch.mtu_max:
                continue
            source = switch.sources.get("mtu_max") or switch.sources.get("*") or ""
            unsure = " (not published: a guess)" if source.startswith(GUESS) else ""
            message = f"{network.mtu} bytes are more than {model} of {network.fabric} carries, {switch.mtu_max}{unsure}"
            yield Finding(loc, message, f"mtu: {switch.mtu_max}, or another switch model", severity="warning")


def _likes(section: Loc, own: Mapping[str, CatalogEntry], models: Collection[str]) -> Findings:
    """Yield entries that are like nothing there is, or like themselves."""
    for name, entry in own.items():
        loc = (*section, name, "like")
        if entry.like and entry.like not in models:
            message = f"neither the catalog nor this blueprint has the model {quote(entry.like)}"
            yield Finding(loc, message, closest_or_all(entry.like, models))
        elif _circle(name, own):
            yield Finding(loc, f"{quote(name)} is based on itself, through {quote(entry.like or '')}")


def _circle(name: str, own: Mapping[str, CatalogEntry]) -> bool:
    """Return whether an entry's likes lead back to it; an entry that replaces a model of the catalog may be like it."""
    visited, at = {name}, own[name].like
    while at and at in own and at not in visited:
        visited.add(at)
        at = own[at].like
    return at == name and len(visited) > 1


def _server(loc: Loc, server: Server, catalog: Catalog, draft: Draft) -> Findings:
    if not draft.intact("parts"):
        return
    if server.cpu and server.cpu not in catalog.cpus:
        yield _unknown((*loc, "cpu"), server.cpu, catalog.cpus, "no processor model")
    if server.gpus and server.gpus.model not in catalog.gpus:
        yield _unknown((*loc, "gpus", "model"), server.gpus.model, catalog.gpus, "no GPU model")
    for fact, texts, models, short, example in (
        ("nics", server.nics, catalog.nics, _RATE, "a rate such as 200G"),
        ("nvme", server.nvme, catalog.drives, _SIZE, "a size such as 15.36TB"),
    ):
        for index, (_, model) in enumerate(map(counted, texts)):
            if model not in models and not short.fullmatch(model):
                yield Finding(
                    (*loc, fact, index),
                    f"{quote(model)} is neither a model of the catalog nor {example}",
                    closest_or_all(model, models),
                )


def _site(site: SiteSection, catalog: Catalog) -> Findings:
    for key, racks in site.racks.items():
        loc = ("site", "racks", key)
        if racks.model not in catalog.racks:
            yield _unknown((*loc, "model"), racks.model, catalog.racks, "no rack model")
        if racks.pdu and racks.pdu not in catalog.pdus:
            yield _unknown((*loc, "pdu"), racks.pdu, catalog.pdus, "no PDU model")
    for name, feed in site.feeds.items():
        if feed.ups and feed.ups.model and feed.ups.model not in catalog.ups:
            yield _unknown(("site", "feeds", name, "ups", "model"), feed.ups.model, catalog.ups, "no UPS model")


def _unknown(loc: Loc, name: str, models: Iterable[str], kind: str) -> Finding:
    return Finding(loc, f"{quote(name)} is {kind} of the catalog or of this blueprint", closest_or_all(name, models))
