"""What `fabrics` says wrongly of itself, of nodes and of racks. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.diagnostics import did_you_mean, quote
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.sections.fabrics import FabricSection
from hpcforge.blueprint.site_checks import unknown_racks
from hpcforge.blueprint.validate import Draft, Finding

Findings = Iterator[Finding]
Reference = Callable[[Loc, Iterable[str]], Findings]  # yields that names are no nodes of the blueprint
NodeSet = Callable[[Loc, str], tuple[tuple[str, ...] | None, list[Finding]]]  # the nodes of a set, and what is wrong

_TREES = ("fat-tree", "rail-optimised", "dragonfly+")
# Keys that mean something in some topologies only.
_ONLY: dict[str, tuple[str, ...]] = {
    "rails": ("rail-optimised",),
    "links": ("single-switch", "leaf-pair", "fat-tree", "dragonfly", "dragonfly+"),
    "oversubscription": _TREES,
    "uplinks": _TREES,
    "peer_links": ("leaf-pair",),
    "groups": ("dragonfly", "dragonfly+"),
    "spine_switch": _TREES,
}


def fabric_findings(draft: Draft, reference: Reference, node_set: NodeSet) -> Iterator[Finding]:
    """Yield what fabrics say wrongly."""
    fabrics: dict[str, FabricSection] = draft.sections["fabrics"] or {}
    for name, fabric in fabrics.items():
        loc = ("fabrics", name)
        if not draft.intact(*loc):
            continue
        yield from _keys(loc, fabric)
        yield from node_set((*loc, "nodes"), fabric.nodes)[1]
        yield from _endpoints(loc, fabric, node_set)
        yield from _subnet_manager(loc, fabric, reference)
        if draft.keys_intact("site", "racks"):
            yield from _racks(loc, fabric, draft)


def _keys(loc: Loc, fabric: FabricSection) -> Findings:
    """Yield keys that the topology does not know, and those that it needs."""
    for key, topologies in _ONLY.items():
        if key in fabric.model_fields_set and fabric.topology not in topologies:
            known = topologies[0] if len(topologies) == 1 else f"{', '.join(topologies[:-1])} or {topologies[-1]}"
            hint = "say `rails`" if key == "links" else f"it is for {known}"
            yield Finding((*loc, key), f"a {fabric.topology} has no {quote(key)}", hint, key=True)
    if fabric.topology == "rail-optimised" and fabric.rails is None:
        yield Finding(loc, "`rails` is missing", "the number of links of a node, each to its own leaf", key=True)
    if fabric.topology == "leaf-pair" and fabric.links == 1:
        yield Finding((*loc, "links"), "a leaf pair needs a link of each node to either switch", "links: 2")
    links = fabric.rails or fabric.links or (2 if fabric.topology == "leaf-pair" else 1)
    most = max([links, *(ends.links for ends in fabric.endpoints.values() if not ends.bond)])
    yield from _bond(loc, fabric, fabric.bond, most)
    for name, ends in fabric.endpoints.items():
        yield from _bond((*loc, "endpoints", name), fabric, ends.bond, ends.links)
    if fabric.kind != "roce":
        for key in ("dscp", "priority"):
            if key in fabric.model_fields_set:
                yield Finding((*loc, key), f"{fabric.kind} has no {quote(key)}", "it is for roce", key=True)
    if fabric.interfaces and len(fabric.interfaces) != links:
        yield Finding((*loc, "interfaces"), f"{len(fabric.interfaces)} interfaces for {links} links", key=True)
    if fabric.uplinks is not None and "oversubscription" in fabric.model_fields_set:
        message = "`uplinks` and `oversubscription` set the same thing"
        yield Finding((*loc, "uplinks"), message, "give one of them", key=True)


def _bond(loc: Loc, fabric: FabricSection, bond: str | None, links: int) -> Findings:
    if bond and links < 2:
        yield Finding((*loc, "bond"), "a bond needs two links, and `links` is 1", "links: 2", key=True)
    if bond == "802.3ad" and fabric.kind in ("infiniband", "omni-path"):
        yield Finding((*loc, "bond"), f"{fabric.kind} cannot bond by 802.3ad", "bond: active-backup")


def _endpoints(loc: Loc, fabric: FabricSection, node_set: NodeSet) -> Findings:
    owner: dict[str, str] = {}
    for name, ends in fabric.endpoints.items():
        where = (*loc, "endpoints", name)
        if (ends.count is None) == (ends.nodes is None):
            message = f"{quote(name)} needs one of `count` and `nodes`, not {'both' if ends.count else 'neither'}"
            yield Finding(
                where, message, "count: machines outside this blueprint; nodes: nodes of this blueprint", key=True
            )
        if ends.nodes is None:
            continue
        names, wrong = node_set((*where, "nodes"), ends.nodes)
        yield from wrong
        twice = [node for node in names or () if owner.setdefault(node, name) != name]
        if twice:
            yield Finding((*where, "nodes"), f"{hostlist.fold(twice)} is also in {quote(owner[twice[0]])}")


def _subnet_manager(loc: Loc, fabric: FabricSection, reference: Reference) -> Findings:
    manager, where = fabric.subnet_manager, (*loc, "subnet_manager")
    if manager is None:
        return
    if fabric.kind not in ("infiniband", "omni-path"):
        yield Finding(where, f"{fabric.kind} has no subnet manager", "it is for infiniband and omni-path", key=True)
    elif manager not in ("on-switch", "external"):
        yield from reference(where, (manager,))


def _racks(loc: Loc, fabric: FabricSection, draft: Draft) -> Findings:
    racks = {name for key in draft.keys("site", "racks") for name in hostlist.expand(key)}
    seen: set[str] = set()
    for index, text in enumerate(fabric.switches_in):
        where = (*loc, "switches_in", index)
        names = hostlist.expand(text)
        unknown = [name for name in names if name not in racks]
        if unknown:
            yield unknown_racks(where, unknown, racks)
        twice = [name for name in names if name in seen]
        if twice:
            yield Finding(where, f"rack {hostlist.fold(twice)} is named twice")
        seen.update(names)


def unknown_models(draft: Draft, switches: Iterable[str], cables: Iterable[str]) -> Findings:
    """Yield models of switches and cables that neither the catalog nor the blueprint has."""
    fabrics: dict[str, FabricSection] = draft.sections["fabrics"] or {}
    names = {"switch": set(switches), "cable": set(cables)}
    for name, fabric in fabrics.items():
        models: list[tuple[Loc, str | None]] = [(("switch",), fabric.switch), (("spine_switch",), fabric.spine_switch)]
        models += [(("cable",), fabric.cable)]
        models += [(("endpoints", group, "cable"), ends.cable) for group, ends in fabric.endpoints.items()]
        for key, model in models:
            kind = "cable" if key[-1] == "cable" else "switch"
            if model is not None and model not in names[kind] and draft.intact("fabrics", name, *key):
                message = f"{quote(model)} is not a {kind} model of the catalog or of this blueprint"
                yield Finding(("fabrics", name, *key), message, did_you_mean(model, sorted(names[kind])))
