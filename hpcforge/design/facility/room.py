"""A blueprint's machines and site, joined with the catalog: the input of every rule. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.schema import Blueprint
from hpcforge.blueprint.sections.hardware import GpusSection, Pdu, RackModel, Server, Supplies
from hpcforge.blueprint.sections.nodes import NodeGroup, Override, alike, hardware_of
from hpcforge.blueprint.sections.site import Equipment, Feed, SiteRacks, SiteSection
from hpcforge.blueprint.values import counted
from hpcforge.catalog import Catalog
from hpcforge.design.facility.design import PartPower


# The power of one machine at its inlets, at maximum, with its parts.
@dataclass(frozen=True)
class Watts:
    """A machine's power, W; None if that of a part, in `missing`, is not known."""

    node_w: float | None
    origin: str
    parts: tuple[PartPower, ...]
    missing: tuple[str, ...] = ()

    @property
    def least_w(self) -> float:
        """Return the power, or else that of its known parts, as a lower bound."""
        return sum(part.total_w or 0.0 for part in self.parts) if self.node_w is None else self.node_w


def watts(server: Server, gpus: GpusSection | None, catalog: Catalog) -> Watts:
    """Return the power of a server with these GPUs.

    `max_w` is a maker's figure for the machine with the GPUs it comes with: other GPUs change it by their own power
    divided by the supplies' efficiency. Without it, the sum of all parts is divided by that efficiency.
    """
    parts = tuple(_parts(server, gpus, catalog))
    if server.max_w is not None:
        return _published(server.max_w, server, gpus, catalog, parts)
    efficiency = server.psu.efficiency if server.psu else None
    missing = tuple(_missing(server, parts, efficiency))
    if missing or efficiency is None:
        return Watts(None, "not known", parts, missing)
    total = sum(part.total_w or 0.0 for part in parts) / efficiency
    return Watts(total, f"sum of parts / efficiency {efficiency:g}", parts)


def _missing(server: Server, parts: Iterable[PartPower], efficiency: float | None) -> Iterator[str]:
    unknown = [part.name for part in parts if part.total_w is None]
    if server.cpu is None or server.sockets is None:
        yield "processor"
    if server.other_w is None:
        yield "other_w"
    yield from unknown
    if efficiency is None:
        yield "psu.efficiency"


def _published(
    max_w: float, server: Server, gpus: GpusSection | None, catalog: Catalog, parts: tuple[PartPower, ...]
) -> Watts:
    if gpus == server.gpus:
        return Watts(max_w, "max_w", parts)
    old, new = _gpu_w(server.gpus, catalog), _gpu_w(gpus, catalog)
    efficiency = server.psu.efficiency if server.psu else None
    if old is not None and new is not None and efficiency is not None:
        origin = f"max_w, other GPUs: {new - old:+,.0f} W / efficiency {efficiency:g}"
        return Watts(max_w + (new - old) / efficiency, origin, parts)
    fewer = server.gpus and (gpus is None or (gpus.model == server.gpus.model and gpus.count < server.gpus.count))
    if fewer:
        return Watts(max_w, "max_w, although it has fewer GPUs", parts)
    missing = [(gpus or server.gpus, new), (server.gpus, old)]
    names = dict.fromkeys(gpu.model for gpu, power_w in missing if gpu and power_w is None)
    return Watts(None, "not known", parts, (*names, *(() if efficiency else ("psu.efficiency",))))


def _gpu_w(gpus: GpusSection | None, catalog: Catalog) -> float | None:
    if gpus is None:
        return 0.0
    tdp_w = catalog.gpus[gpus.model].tdp_w if gpus.model in catalog.gpus else None
    return None if tdp_w is None else tdp_w * gpus.count


def _parts(server: Server, gpus: GpusSection | None, catalog: Catalog) -> Iterator[PartPower]:
    if server.cpu and server.sockets:
        cpu = catalog.cpus.get(server.cpu)
        yield _part(server.cpu, server.sockets, cpu.tdp_w if cpu else None)
    if gpus:
        gpu = catalog.gpus.get(gpus.model)
        yield _part(gpus.model, gpus.count, gpu.tdp_w if gpu else None)
    for count, model in map(counted, server.nics):
        nic = catalog.nics.get(model)
        yield _part(model, count, nic.max_w if nic else None)
    for count, model in map(counted, server.nvme):
        drive = catalog.drives.get(model)
        yield _part(model, count, drive.max_w if drive else None)
    if server.other_w is not None:
        yield _part("board, memory, fans", 1, server.other_w)


def _part(name: str, count: int, each_w: float | None) -> PartPower:
    return PartPower(name, count, each_w, None if each_w is None else each_w * count)


@dataclass(frozen=True, eq=False)
class NodeKind:
    """Nodes that are alike: of one group, or one node with an override. `server` has overrides applied."""

    group: str  # the key under `nodes:`
    model: str
    server: Server
    gpus: GpusSection | None
    worker: bool
    overridden: str | None  # the one node whose override this is
    facts: frozenset[str]  # the reason of the override
    names: tuple[str, ...]
    watts: Watts

    @cached_property
    def load(self) -> Load:
        """The load of each of these nodes in a rack."""
        return Load(self.model, self.watts.node_w, self.server.psu, self.server.weight_kg, self.watts.least_w)

    @property
    def metal(self) -> bool:
        """False for virtual machines and rehearsals, to which no rule applies."""
        return self.server.machine == "metal"

    def loc(self, fact: str = "") -> Loc:
        """Return the place of the group, or of one of its keys, in the blueprint."""
        return ("overrides", self.overridden, fact) if self.overridden and fact in self.facts else self._hardware

    @property
    def _hardware(self) -> Loc:
        return ("nodes", self.group, "hardware")

    @property
    def floor(self) -> bool:
        """True for machines that stand on the floor, not in a rack."""
        return self.server.rack_units == 0


@dataclass(frozen=True, eq=False)
class Rack:
    """One rack of the site."""

    name: str
    key: str  # under `site.racks`
    ordinal: int  # within its key: plugs are turned by it, so that feeds are loaded evenly
    spec: SiteRacks
    model: RackModel
    pdu: Pdu | None

    @property
    def loc(self) -> Loc:
        """Its place in the blueprint."""
        return ("site", "racks", self.key)

    @property
    def limit_kg(self) -> float | None:
        """The weight limit, kg: the lesser of the site's and the maker's."""
        limits = [limit for limit in (self.spec.limit_kg, self.model.limit_kg) if limit is not None]
        return min(limits, default=None)


@dataclass(frozen=True)
class PinnedPosition:
    """A pinned position, from the inventory."""

    rack: str
    u: int


@dataclass(frozen=True, eq=False)
class Load:
    """A load in a rack: a node's kind, a switch, or other equipment."""

    label: str  # model, or the name of the equipment
    power_w: float | None
    psu: Supplies | None
    weight_kg: float | None
    parts_w: float = 0.0  # of its known parts

    @property
    def least_w(self) -> float:
        """Return a lower bound of its maximum: its power, or that of its known parts."""
        return self.parts_w if self.power_w is None else self.power_w


@dataclass(frozen=True, eq=False)
class SwitchPlace:
    """A switch, with its possible racks."""

    name: str
    model: str
    load: Load  # the same object for switches of one model
    height: int | None  # rack units; None: not known
    racks: tuple[str, ...]  # empty: its place is not set
    first: int  # index in `racks` of the first to try
    loc: Loc  # its place in the blueprint


@dataclass(frozen=True, eq=False)
class Room:
    """The input of all rules."""

    blueprint: Blueprint
    catalog: Catalog
    kinds: tuple[NodeKind, ...]
    racks: Mapping[str, Rack]
    pins: Mapping[str, PinnedPosition]
    mounts: tuple[SwitchPlace, ...] = ()

    @property
    def site(self) -> SiteSection | None:
        """The blueprint's site."""
        return self.blueprint.site

    @property
    def feeds(self) -> Mapping[str, Feed]:
        """Feeds by name."""
        return self.site.feeds if self.site else {}

    @property
    def derating(self) -> float | None:
        """The part of a breaker's rating for continuous load; None: not set."""
        return self.site.power.derating if self.site else None

    @property
    def most_derating(self) -> float:
        """Return the derating; 1 if it is not set: no breaker carries more than its rating."""
        return 1.0 if self.derating is None else self.derating

    @cached_property
    def kind_of(self) -> dict[str, NodeKind]:
        """Kinds by node name."""
        return {name: kind for kind in self.kinds for name in kind.names}

    @cached_property
    def order(self) -> dict[str, int]:
        """Nodes in blueprint order."""
        names = (name for key in self.blueprint.nodes for name in hostlist.expand(key))
        return {name: index for index, name in enumerate(names)}


def load_of_equipment(name: str, equipment: Equipment) -> Load:
    """Return equipment as a load."""
    return Load(name, equipment.max_w, equipment.psu, equipment.weight_kg)


def room(
    blueprint: Blueprint, catalog: Catalog, pins: Mapping[str, PinnedPosition], mounts: Iterable[SwitchPlace] = ()
) -> Room:
    """Join a blueprint whose references hold with the catalog, the blueprint's own hardware included."""
    kinds = [kind for key, group in blueprint.nodes.items() for kind in _kinds(key, group, blueprint, catalog)]
    racks = {}
    for key, spec in (blueprint.site.racks if blueprint.site else {}).items():
        pdu = catalog.pdus[spec.pdu] if spec.pdu else None
        for ordinal, name in enumerate(hostlist.expand(key)):
            racks[name] = Rack(name, key, ordinal, spec, catalog.racks[spec.model], pdu)
    return Room(blueprint, catalog, tuple(kinds), racks, pins, tuple(mounts))


def _kinds(key: str, group: NodeGroup, blueprint: Blueprint, catalog: Catalog) -> list[NodeKind]:
    """Return the group's nodes without an override as one kind, then each node with one."""
    return [_kind(key, group, override, names, catalog) for names, override in alike(key, blueprint.overrides)]


def _kind(key: str, group: NodeGroup, override: Override | None, names: tuple[str, ...], catalog: Catalog) -> NodeKind:
    server = catalog.servers[group.hardware]
    hardware = hardware_of(group, override, server)
    gpus = hardware.gpus
    if gpus and gpus.model in catalog.gpus and catalog.gpus[gpus.model].vendor == "none":
        gpus = None  # a rehearsal's stand-in
    return NodeKind(
        group=key,
        model=group.hardware,
        server=hardware.server,
        gpus=gpus,
        worker="worker" in group.functions,
        overridden=names[0] if override else None,
        facts=hardware.overridden,
        names=names,
        watts=watts(server, gpus, catalog),
    )
