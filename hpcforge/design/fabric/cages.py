"""The cages of a blueprint's switches and nodes, and links whose cables do not fit them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.schema import Blueprint
from hpcforge.blueprint.sections.site import Cabling
from hpcforge.catalog import Catalog
from hpcforge.design.fabric.fitting import Cages, Fitting, LinkKind, fitting, link_kinds
from hpcforge.design.fabric.graph import TO_ENDS, Fabric
from hpcforge.design.fabric.rule_checks import ports_of
from hpcforge.design.fabric.rules import breach
from hpcforge.design.facility.rules import Breach


def cages_of(fabric: Fabric, blueprint: Blueprint, catalog: Catalog) -> Cages:
    """Return the cages of a fabric's machines, and the cables that the blueprint names for them."""
    spec = blueprint.fabrics[fabric.name]
    hardware = {name: node.hardware for key, node in blueprint.nodes.items() for name in hostlist.expand(key)}
    models = {device.model for device in fabric.devices if device.model}
    switches = {
        model: tuple(block.connector for block in catalog.switches[model].ports or () for _ in range(block.count))
        for model in models
    }
    by_rate: dict[tuple[str, float], tuple[str, ...]] = {}
    ends = {}
    for device in fabric.devices:
        if device.name in hardware and device.model is None:
            key = hardware[device.name], device.rate_gbps or fabric.rate_gbps
            if key not in by_rate:
                by_rate[key] = _cages(*key, catalog, fabric)
            ends[device.name] = by_rate[key]
    cables = {}
    for device in fabric.devices:
        own = spec.endpoints[device.group].cable if device.group else None
        cable = own or (spec.cable if device.rate_gbps in (None, fabric.rate_gbps) else None)
        if cable and device.model is None:
            cables[device.name] = cable
    return Cages(switches, ends, cables)


def _cages(hardware: str, rate_gbps: float, catalog: Catalog, fabric: Fabric) -> tuple[str, ...]:
    """Return the cages of a server that run at a rate; none if one of them is unknown."""
    ports = ports_of(hardware, catalog, fabric) or ()
    cages = [port.connector for port in ports if port.rate_gbps >= rate_gbps]
    return () if None in cages else tuple(dict.fromkeys(cage for cage in cages if cage))


def unfit(fabric: Fabric, blueprint: Blueprint, catalog: Catalog) -> Iterator[Breach]:
    """Yield links without a fitting cable among those that the site buys, or whose named cable does not fit."""
    cages = cages_of(fabric, blueprint, catalog)
    rules = blueprint.site.cabling if blueprint.site else Cabling.model_construct()
    machines: dict[LinkKind, dict[str, str]] = {}
    groups: dict[LinkKind, str | None] = {}
    for link, cable in zip(link_kinds(fabric, cages), fabric.cables, strict=True):
        a, b = fabric.devices[cable.a], fabric.devices[cable.b]
        machines.setdefault(link, {})[a.model or a.name] = b.model or ""
        groups.setdefault(link, a.group)
    reported: set[tuple[Loc, str]] = set()
    for link, ends in machines.items():
        named_cable = catalog.cables.get(link.cable) if link.cable else None
        loc = _loc(blueprint, fabric.name, link, groups.get(link))
        if named_cable is not None and named_cable.kind == "adapter":
            yield breach("CABLE-005", loc, f"{fabric.name}: {link.cable} is an adapter, not a cable")
            continue
        if named_cable is not None and named_cable.rate_gbps not in (None, link.rate_gbps):
            sums = f"{named_cable.rate_gbps:g} Gb/s is not {link.rate_gbps:g} Gb/s"
            message = f"{fabric.name}: {link.cable} is of another rate than the links"
            yield breach("CABLE-005", loc, message, sums, "another cable, or the cable's rate under `rate_gbps`")
            continue
        fit = fitting(link, catalog.cables, rules.kinds)
        misfit = _breach(fabric, loc, link, ends, fit) if fit.plugs else None
        if misfit and (loc, misfit.message) not in reported:
            reported.add((loc, misfit.message))
            yield misfit


def _loc(blueprint: Blueprint, name: str, link: LinkKind, group: str | None) -> Loc:
    """Return the place in the blueprint that sets a link's cable or rate."""
    spec = blueprint.fabrics[name]
    loc: Loc = ("fabrics", name)
    if group is not None:
        ends, group_loc = spec.endpoints[group], (*loc, "endpoints", group)
        own = "cable" if ends.cable else "rate_gbps" if ends.rate_gbps else None
        return (*group_loc, own) if own else (*loc, "cable") if link.cable else group_loc
    if link.cable:
        return (*loc, "cable")
    between = link.kind not in ("node_leaf", "other_leaf") and spec.uplink_rate_gbps is not None
    return (*loc, "uplink_rate_gbps" if between else "rate_gbps")


def _breach(fabric: Fabric, loc: Loc, link: LinkKind, ends: Mapping[str, str], fit: Fitting) -> Breach:
    near, far = hostlist.fold(list(ends)), next(iter(ends.values()))
    cable = link.cable or f"no cable of {link.rate_gbps:g} Gb/s that the site buys"
    fits, plugs = "does not fit" if link.cable else "fits", " or ".join(fit.plugs)
    if not fit.unfit:
        clause = f"{fits} both the {link.near[0]} ports of {near} and the {link.far[0]} ports of {far}"
        message = f"{fabric.name}: {cable} {clause}"
        hint = "`optics` in `site: {cabling: {kinds: ...}}`: each end has its own transceiver"
        return breach("CABLE-005", loc, message, f"plugs: {plugs}", hint)
    machine = far if fit.unfit == link.far else near
    message = f"{fabric.name}: {cable} {fits} the {' or '.join(fit.unfit)} ports of {machine}"
    return breach("CABLE-005", loc, message, f"plugs: {plugs}", _hint(link, fit))


def _hint(link: LinkKind, fit: Fitting) -> str:
    wide = fit.unfit == link.far and link.breakout == 1 and link.kind in TO_ENDS
    if wide and fit.unfit[0].startswith(("qsfp", "osfp")) and fit.unfit[0] not in fit.plugs:
        adapters = fit.plugs[0].startswith("sfp") and fit.unfit[0].startswith("qsfp")
        more = "; or adapters: `site: {cabling: {kinds: [dac, aoc, optics, adapter]}}`" if adapters else ""
        return f"`breakout`: a port of the switch is split into several of these{more}"
    return "another cable, another rate, or machines with such ports"
