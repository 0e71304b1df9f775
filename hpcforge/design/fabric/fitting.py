"""Plugs and cages: the cables that fit the ports at both of their ends. Pure.

Ports of one family take plugs of their own generation and of older ones: QSFP28 plugs go into QSFP56 cages (SFF-8665;
the QSFP-DD MSA for its cages). Plugs of another family need an adapter, which the site must buy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hpcforge.blueprint.sections.hardware import CableModel
from hpcforge.design.fabric.graph import CableKind, Device, Fabric

_SFP = ("sfp", "sfp-plus", "sfp28", "sfp56", "sfp112")
_QSFP = ("qsfp-plus", "qsfp28", "qsfp56", "qsfp112")
TAKES: Mapping[str, tuple[str, ...]] = {  # by cage: plugs that go in
    **{cage: family[: place + 1] for family in (_SFP, _QSFP) for place, cage in enumerate(family)},
    "rj45": ("rj45",),
    "sfp-dd": (*_SFP[:4], "sfp-dd"),
    "qsfp-dd": (*_QSFP[:3], "qsfp-dd"),
    "qsfp-dd800": (*_QSFP, "qsfp-dd", "qsfp-dd800"),
    "osfp": ("osfp",),
}
_TWISTED_PAIR_GBPS = 1  # up to it every port takes twisted pair: SFP cages with a transceiver


class LinkKind(NamedTuple):
    """Cables that run between alike ports."""

    kind: CableKind
    rate_gbps: float
    breakout: int  # ends that share a port of the switch
    near: tuple[str, ...]  # cages for the end nearer to nodes, which takes one of them; none: unknown
    far: tuple[str, ...]  # the same of the other end, at a switch
    cable: str | None  # model that the blueprint names

    @property
    def sockets(self) -> bool:
        """Whether only twisted pair fits."""
        return self.rate_gbps <= _TWISTED_PAIR_GBPS or (self.far or self.near) == ("rj45",)


@dataclass(frozen=True)
class Cages:
    """The cages of machines, and cables that a blueprint names; unknown ones are absent."""

    switches: Mapping[str, Sequence[str | None]] = field(default_factory=dict)  # by model: of each physical port
    ends: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by end: of its ports that are fast enough
    cables: Mapping[str, str] = field(default_factory=dict)  # by end: model of its cable


class Fitting(NamedTuple):
    """Cables to choose from for equal links, by name, and without any the cages that refuse them."""

    cables: Mapping[str, CableModel]
    unfit: tuple[str, ...] = ()  # cages that take no plug of these cables; (): no cable fits both ends
    plugs: tuple[str, ...] = ()


def link_kinds(fabric: Fabric, cages: Cages) -> Iterator[LinkKind]:
    """Yield the kind of each cable, in the fabric's order."""
    labels: dict[tuple[int, int], tuple[tuple[str, ...], int]] = {}  # by switch and port: its cage, and its breakout

    def port(device: int, number: int) -> tuple[tuple[str, ...], int]:
        if (device, number) not in labels:
            place, _ = fabric.physical_port(device, number)
            labels[device, number] = _cage(fabric.devices[device], place, cages), fabric.breakout_of(device, place)
        return labels[device, number]

    for cable in fabric.cables:
        machine = fabric.devices[cable.a]
        far, breakout = port(cable.b, cable.b_port)
        near = port(cable.a, cable.a_port)[0] if machine.model else cages.ends.get(machine.name, ())
        rate_gbps = fabric.rate_of(cable.kind, cable.a)
        yield LinkKind(cable.kind, rate_gbps, breakout, near, far, cages.cables.get(machine.name))


def _cage(machine: Device, place: int, cages: Cages) -> tuple[str, ...]:
    of_model = cages.switches.get(machine.model or "", ())
    cage = of_model[place - 1] if place <= len(of_model) else None
    return (cage,) if cage else ()


def fitting(link: LinkKind, cables: Mapping[str, CableModel], kinds: Sequence[str]) -> Fitting:
    """Return the cables of a link's rate that fit both ends, of the kinds that a site buys or of the named model."""
    sold = {
        name: cable
        for name, cable in cables.items()
        if (
            name == link.cable if link.cable else cable.kind in kinds and (cable.kind == "twisted-pair") == link.sockets
        )
        and cable.kind != "adapter"
        and cable.rate_gbps == link.rate_gbps
    }
    adapters = _sold_adapters(cables) if "adapter" in kinds else {}
    if link.rate_gbps <= _TWISTED_PAIR_GBPS:
        return Fitting(sold)
    near = {name for name, cable in sold.items() if _goes_in(cable.plugs, link.near, link.rate_gbps, adapters)}
    far = {
        name
        for name, cable in sold.items()
        if _goes_in(_heads(link, cable, cables), link.far, link.rate_gbps, adapters)
    }
    fit = {name: cable for name, cable in sold.items() if name in near & far}
    if fit or not sold:
        return Fitting(fit)
    plugs = tuple(dict.fromkeys(plug for cable in sold.values() for plug in cable.plugs or ()))
    return Fitting({}, link.far if not far else link.near if not near else (), plugs)


def _heads(link: LinkKind, cable: CableModel, cables: Mapping[str, CableModel]) -> tuple[str, ...] | None:
    """Return the plugs at the switch: for a broken-out port those of the cable's kind at the whole port's rate."""
    if link.breakout == 1:
        return cable.plugs
    models = [model for model in cables.values() if model.kind == cable.kind and _carries_port(model, link)]
    if not models or any(model.plugs is None for model in models):
        return None
    return tuple(plug for model in models for plug in model.plugs or ())


def _carries_port(cable: CableModel, link: LinkKind) -> bool:
    return (cable.rate_gbps or 0.0) >= link.rate_gbps * link.breakout


def _goes_in(
    plugs: tuple[str, ...] | None, cages: Sequence[str], rate_gbps: float, adapters: Mapping[str, CableModel]
) -> bool:
    """Tell whether one of these plugs fits one of these cages; unknown ones fit."""
    if plugs is None or not cages or any(cage not in TAKES for cage in cages):
        return True
    directly = any(plug in TAKES[cage] for cage in cages for plug in plugs)
    return directly or _adapter(plugs, cages, rate_gbps, adapters) is not None


def _adapter(
    plugs: Sequence[str], cages: Sequence[str], rate_gbps: float, adapters: Mapping[str, CableModel]
) -> str | None:
    """Return an adapter that takes one of some plugs and goes into one of some cages."""
    for name, adapter in adapters.items():
        inside, own_plugs = TAKES.get(adapter.socket or "", ()), adapter.plugs or ()
        fast = (adapter.rate_gbps or 0.0) >= rate_gbps
        if fast and set(inside) & set(plugs) and any(plug in TAKES[cage] for cage in cages for plug in own_plugs):
            return name
    return None


def adapters_of(link: LinkKind, cable: CableModel, cables: Mapping[str, CableModel]) -> Iterator[str]:
    """Yield the adapters that a fitting cable needs at its two ends."""
    plugs, ends = cable.plugs or (), (link.near, link.far)
    for cages in ends if plugs and link.breakout == 1 and link.rate_gbps > _TWISTED_PAIR_GBPS else ():
        if cages and not _goes_in(plugs, cages, link.rate_gbps, {}):
            yield from filter(None, [_adapter(plugs, cages, link.rate_gbps, _sold_adapters(cables))])


def _sold_adapters(cables: Mapping[str, CableModel]) -> dict[str, CableModel]:
    return {name: cable for name, cable in cables.items() if cable.kind == "adapter"}
