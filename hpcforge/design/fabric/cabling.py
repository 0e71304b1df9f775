"""The cables of a fabric for purchase and pulling: length, kind and order. Pure.

Lengths come from `floor`; a cable without a place at both ends has none, and no kind. Of the kinds that the site buys
(`site.cabling.kinds`) the first that reaches is taken, in the shortest length sold that is long enough.

Cables are pulled bundle by bundle, a bundle being all cables of the fabric between two racks: the longest bundles
first, so that they lie at the bottom of the tray; then those within a rack; then those whose length is not known.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hpcforge.blueprint.sections.hardware import CableModel
from hpcforge.blueprint.sections.site import Cabling
from hpcforge.design.fabric.fitting import Cages, LinkKind, adapters_of, fitting, link_kinds
from hpcforge.design.fabric.floor import Spot, run_m
from hpcforge.design.fabric.graph import ENDS, Cable, Fabric
from hpcforge.design.facility.design import BomLine

# The labels of a cable: one text for each end, unique in the whole site.


@dataclass(frozen=True)
class Labels:
    """Names and labels of a fabric's cables. `spots` has the place of each device, in the order of the devices."""

    fabric: Fabric
    spots: Sequence[Spot | None]
    rooms: bool = False  # whether labels name the room, as there are several

    @cached_property
    def _places(self) -> list[str]:
        """The place of each device, with a space after it: "g01 U3 "; "" if it is not known."""
        return [f"{f'{at.room} ' if self.rooms else ''}{at.rack} U{at.u} " if at else "" for at in self.spots]

    def end(self, device: int, port: int) -> str:
        """Return one end: "g01 U3 gpu001 rail 1", "i01 U40 compute-leaf-001 port 7", without rack "gpu001 rail 1"."""
        machine = self.fabric.devices[device]
        label = self.fabric.port_label(device, port)
        return f"{self._places[device]}{machine.name} {'' if machine.kind in ENDS else 'port '}{label}"

    def name(self, cable: Cable) -> str:
        """Return the cable's own name: its switch port, that nearest to the nodes; "compute-leaf-001:7"."""
        a_is_end = self.fabric.devices[cable.a].kind in ENDS
        device, port = (cable.b, cable.b_port) if a_is_end else (cable.a, cable.a_port)
        return f"{self.fabric.devices[device].name}:{self.fabric.port_label(device, port)}"

    def both(self, cable: Cable) -> tuple[str, str]:
        """Return the texts for the labels at end a and at end b: the cable's name, this end, the other end."""
        name = self.name(cable)
        a, b = self.end(cable.a, cable.a_port), self.end(cable.b, cable.b_port)
        return f"{name} | {a} > {b}", f"{name} | {b} > {a}"


UNKNOWN = -1  # of a length or a model
CABLES = ("twisted-pair", "dac", "aoc", "optics")  # kinds that are cables
_UNKNOWN_CAGES = Cages()


@dataclass(frozen=True)
class CableChoice:
    """The cables that carry a rate, by length. For a run buy the first that is at least as long."""

    lengths_m: tuple[float, ...]  # ascending
    models: tuple[str, ...]  # of each length

    def at(self, length_m: float) -> tuple[float, str] | None:
        """Return length and model to buy; None: no kind reaches so far."""
        place = bisect_left(self.lengths_m, length_m - 1e-9)  # sums of floats may be a hair above a length
        return (self.lengths_m[place], self.models[place]) if place < len(self.lengths_m) else None

    @property
    def reach_m(self) -> float:
        """The longest that is sold."""
        return self.lengths_m[-1] if self.lengths_m else 0.0


def choice(cables: Mapping[str, CableModel], rate_gbps: float, kinds: Sequence[str], sockets: bool) -> CableChoice:
    """Return the cables for a rate; `sockets`: ports are RJ45, which take twisted pair and nothing else."""
    fitting = [
        (kinds.index(cable.kind), cable.reach_m or 0.0, name, cable.lengths_m or ())
        for name, cable in cables.items()
        if cable.rate_gbps == rate_gbps and cable.kind in kinds and (cable.kind == "twisted-pair") == sockets
    ]
    chosen: list[tuple[float, str]] = []
    for _, reach_m, name, lengths_m in sorted(fitting):
        longest = chosen[-1][0] if chosen else 0.0
        chosen += [(length, name) for length in sorted(lengths_m) if longest < length <= reach_m]
    return CableChoice(tuple(length for length, _ in chosen), tuple(name for _, name in chosen))


@dataclass(frozen=True)
class Cabled:
    """A fabric with its cables cut to length. Columns are as long as the fabric's; -1: not known."""

    fabric: Fabric
    spots: tuple[Spot | None, ...]  # of each device
    links: tuple[LinkKind, ...]  # kinds of links, of alike ports
    link: array[int]  # of each cable, index into links
    rules: Cabling
    models: tuple[str, ...]
    run_m: array[float]  # required
    length_m: array[float]  # bought
    model: array[int]  # index into models
    order: array[int]  # cables in the order in which they are pulled
    reach_m: tuple[float, ...]  # the longest sold, for each of links; 0: none of its rate
    adapters: Counter[str]  # adapters that cables need, by model
    rooms: bool  # whether the site has more than one room

    @cached_property
    def labels(self) -> Labels:
        """Names and labels of the cables."""
        return Labels(self.fabric, self.spots, self.rooms)

    @cached_property
    def pull(self) -> array[int]:
        """The place of each cable in the order of pulling, from 1."""
        places = array("I", bytes(4 * len(self.order)))
        for place, cable in enumerate(self.order, 1):
            places[cable] = place
        return places

    @property
    def unplaced(self) -> tuple[str, ...]:
        """Devices without a declared place."""
        return tuple(device.name for device, spot in zip(self.fabric.devices, self.spots, strict=True) if spot is None)

    def bundle(self, cable: int) -> tuple[str, str] | None:
        """Return the two racks that a cable runs between; None: not known."""
        a, b = self.spots[self.fabric.cables.a[cable]], self.spots[self.fabric.cables.b[cable]]
        return (a.rack, b.rack) if a and b else None

    @cached_property
    def bought(self) -> Counter[tuple[str, float, int]]:
        """The number of cables by model, length and ends that share one: 1, or the breakout of the port.

        A broken-out cable counts once, with its longest leg.
        """
        counts: Counter[tuple[str, float, int]] = Counter()
        fabric, cables = self.fabric, self.fabric.cables
        legs: dict[tuple[int, int, int], tuple[float, int]] = {}
        for cable, (link, model, length_m) in enumerate(zip(self.link, self.model, self.length_m, strict=True)):
            if model == UNKNOWN:
                continue
            breakout = self.links[link].breakout
            if breakout == 1:
                counts[self.models[model], length_m, 1] += 1
                continue
            port = fabric.physical_port(cables.b[cable], cables.b_port[cable])[0]
            key = cables.b[cable], port, breakout
            legs[key] = max(legs.get(key, (0.0, 0)), (length_m, model))
        for (_, _, breakout), (length_m, model) in legs.items():
            counts[self.models[model], length_m, breakout] += 1
        return counts


def cabled(
    fabric: Fabric,
    spots: Mapping[str, Spot],
    rules: Cabling,
    cables: Mapping[str, CableModel],
    cages: Cages = _UNKNOWN_CAGES,
) -> Cabled:
    """Cut the cables of a fabric to length."""
    at = tuple(spots.get(device.name) for device in fabric.devices)
    models: dict[str, int] = {}
    links: dict[LinkKind, int] = {}
    link = array("H", (links.setdefault(kind, len(links)) for kind in link_kinds(fabric, cages)))
    kinds = [_choice(kind, cables, rules.kinds) for kind in links]
    runs, lengths, chosen = array("d"), array("d"), array("i")
    cuts: dict[tuple[int, int, int], tuple[float, float, int]] = {}  # parallel cables are alike
    for key in zip(fabric.cables.a, fabric.cables.b, link, strict=True):
        if key not in cuts:
            cuts[key] = _cut(at[key[0]], at[key[1]], rules, kinds[key[2]], models)
        run, length, model = cuts[key]
        runs.append(run)
        lengths.append(length)
        chosen.append(model)
    return Cabled(
        fabric=fabric,
        spots=at,
        links=tuple(links),
        link=link,
        rules=rules,
        models=tuple(models),
        run_m=runs,
        length_m=lengths,
        model=chosen,
        order=_order(fabric, at, runs),
        reach_m=tuple(kind.reach_m for kind in kinds),
        adapters=_adapters([*links], link, chosen, [*models], cables),
        rooms=len({spot.room for spot in spots.values()}) > 1,
    )


def _choice(link: LinkKind, cables: Mapping[str, CableModel], kinds: Sequence[str]) -> CableChoice:
    """Return the cables to choose from for links: those that fit, or the one that the blueprint names."""
    fit = fitting(link, cables, kinds).cables
    if not link.cable:
        return choice(fit, link.rate_gbps, kinds, link.sockets)
    return choice(fit, link.rate_gbps, CABLES, any(cable.kind == "twisted-pair" for cable in fit.values()))


def _adapters(
    links: Sequence[LinkKind],
    link: array[int],
    chosen: array[int],
    models: Sequence[str],
    cables: Mapping[str, CableModel],
) -> Counter[str]:
    """Count the adapters at both ends of all cables."""
    counts: Counter[str] = Counter()
    for (number, model), count in Counter(zip(link, chosen, strict=True)).items():
        if model != UNKNOWN:
            for adapter in adapters_of(links[number], cables[models[model]], cables):
                counts[adapter] += count
    return counts


def _cut(
    spot: Spot | None, other_spot: Spot | None, rules: Cabling, kinds: CableChoice, models: dict[str, int]
) -> tuple[float, float, int]:
    """Return run, length and model of a cable between two places."""
    run = run_m(spot, other_spot, rules) if spot and other_spot else None
    if run is None:
        return UNKNOWN, UNKNOWN, UNKNOWN
    bought = kinds.at(run)
    if bought is None:
        return run, UNKNOWN, UNKNOWN
    return run, bought[0], models.setdefault(bought[1], len(models))


def _order(fabric: Fabric, at: Sequence[Spot | None], runs: array[float]) -> array[int]:
    """Order cables by bundle; within a bundle as the fabric lists them, so by switch and port."""
    racks: dict[str, int] = {}
    rack_of = [racks.setdefault(spot.rack, len(racks)) if spot else UNKNOWN for spot in at]
    bundles: dict[tuple[int, int], list[int]] = {}
    for cable, (a, b) in enumerate(zip(fabric.cables.a, fabric.cables.b, strict=True)):
        pair = rack_of[a], rack_of[b]
        if runs[cable] == UNKNOWN:
            pair = UNKNOWN, UNKNOWN
        bundles.setdefault((min(pair), max(pair)), []).append(cable)
    longest = {pair: max(runs[cable] for cable in bundle) for pair, bundle in bundles.items()}
    first = sorted(bundles, key=lambda pair: (pair[0] == UNKNOWN, pair[0] == pair[1], -longest[pair], pair))
    return array("I", (cable for pair in first for cable in bundles[pair]))


# Cables and transceivers in the bill of materials.
def bom(fabrics: Sequence[Cabled], cables: Mapping[str, CableModel]) -> Iterator[BomLine]:
    """Yield a line for each model and length of cable, and one for the transceivers of each model."""
    lots: Counter[tuple[str, float, int]] = Counter()
    for cabling in fabrics:
        lots.update(cabling.bought)
    for (model, length_m, ends), count in sorted(lots.items()):
        split = f", one port to {ends} ends" if ends > 1 else ""
        fibre = "fibre, " if cables[model].fibre else ""
        description = f"{fibre}{length_m:g} m{split}: {cables[model].description or ''}".removesuffix(": ")
        yield BomLine("cable", model, description, count, False, None, None)
    adapters = sum((cabling.adapters for cabling in fabrics), Counter[str]())
    for model, count in sorted(adapters.items()):
        yield BomLine("adapter", model, (cables[model].description or "").removesuffix("."), count, False, None, None)
    plugs: Counter[str] = Counter()
    for cabling in fabrics:
        plugs.update(transceivers(cabling, cables))
    for model, count in sorted(plugs.items()):
        description = "transceivers: one a link at a machine, one a cage at a switch, twin-port where the cage is"
        yield BomLine("transceiver", model, description, count, False, cables[model].end_w, None)


def transceivers(cabling: Cabled, cables: Mapping[str, CableModel]) -> Counter[str]:
    """Count transceivers by model: of a switch by cage, of a broken-out port by port, at its whole rate."""
    fabric, columns, counts = cabling.fabric, cabling.fabric.cables, Counter[str]()
    optics = [cables[model].kind == "optics" for model in cabling.models]
    cages: set[tuple[int, int, str]] = set()
    for cable, model in enumerate(cabling.model):
        if model == UNKNOWN or not optics[model]:
            continue
        for device, port in ((columns.a[cable], columns.a_port[cable]), (columns.b[cable], columns.b_port[cable])):
            machine = fabric.devices[device]
            if machine.kind in ENDS:
                counts[cabling.models[model]] += 1
            else:
                number, _ = fabric.physical_port(device, port)
                plug = _whole_port_model(cabling.models[model], cabling.links[cabling.link[cable]], cables)
                cages.add((device, (number - 1) // machine.per_cage, plug))
    counts.update(plug for _, _, plug in cages)
    return counts


def _whole_port_model(model: str, link: LinkKind, cables: Mapping[str, CableModel]) -> str:
    """Return the transceiver at a switch: for a broken-out port that of the whole port, for the same fibre."""
    rate_gbps, fibre = link.rate_gbps * link.breakout, cables[model].fibre
    models = (name for name, cable in cables.items() if (cable.rate_gbps, cable.fibre) == (rate_gbps, fibre))
    return next(models, model) if link.breakout > 1 else model
