"""Designs made by hand, for the renderers: each figure follows from the ones above it."""

from __future__ import annotations

from array import array
from dataclasses import replace
from math import sqrt
from typing import Literal

from hpcforge.blueprint.sections.hardware import CableModel
from hpcforge.blueprint.sections.site import Cabling as CablingRules
from hpcforge.cluster.design import Design
from hpcforge.design.fabric.cabling import Cabled, cabled
from hpcforge.design.fabric.floor import RackOnFloor, Spot
from hpcforge.design.fabric.graph import Cables, Device, Fabric, GrowthMove
from hpcforge.design.fabric.summary import fabric_design
from hpcforge.design.facility.design import (
    BomLine,
    Cooling,
    FeedLoad,
    Hardware,
    PartPower,
    PduLoad,
    Phase,
    Position,
    Power,
    RackDesign,
    Remark,
    UpsDesign,
)
from hpcforge.design.storage.capacity import DriveLot, FileSystemDesign, Throughput

NODE_W, NODE_KG = 10_200.0, 130.45
BTU_H_PER_W = 3.412
VOLTS, BREAKER_A = 415.0, 32.0
PDU_W = sqrt(3) * VOLTS * BREAKER_A


def phases(load_w: float, lost_w: float, limit_a: float | None) -> tuple[Phase, ...]:
    """Three phases with the same load."""
    return tuple(
        Phase(f"L{n}", load_w / 3, load_w / sqrt(3) / VOLTS, limit_a, lost_w / sqrt(3) / VOLTS) for n in (1, 2, 3)
    )


def pdu(rack: str, feed: str, load_w: float, lost_w: float) -> PduLoad:
    """One three-phase PDU."""
    limits = phases(load_w, lost_w, BREAKER_A)
    return PduLoad(f"{rack}-{feed}", "pdu-415v-32a", feed, load_w, PDU_W, lost_w, limits, {"c19": 8}, {"c19": 12})


def rack(
    name: str, elevation: tuple[Position, ...], feeds: str = "ABC", limit_w: float | None = 44_000.0
) -> RackDesign:
    """A rack of 48 units on some feeds."""
    power_w = sum(position.power_w or 0 for position in elevation)
    used = sum(position.u_height for position in elevation)
    each, lost = power_w / len(feeds), power_w / max(len(feeds) - 1, 1)
    return RackDesign(
        name, "rack-48u", 48, used, 48 - used, power_w, limit_w, (), power_w * BTU_H_PER_W, 50_000.0,
        power_w / 15 * 2.99, sum(position.weight_kg or 0 for position in elevation), 1300.0, (), True,
        elevation, tuple(pdu(name, feed, each, lost) for feed in feeds),
    )  # fmt: skip


def node(
    name: str, u: int, height: int, model: str, power_w: float | None, weight_kg: float | None, placed: str = "given"
) -> Position:
    how: Literal["given", "proposed"] = "proposed" if placed == "proposed" else "given"
    return Position(name, "node", model, u, height, power_w, weight_kg, how)


def gpu_rack(name: str, first: int) -> RackDesign:
    """Four DGX H100, and a switch above them."""
    nodes = [node(f"gpu{first + n:03}", 3 + 8 * n, 8, "dgx-h100", NODE_W, NODE_KG) for n in reversed(range(4))]
    return rack(name, (Position("tor", "equipment", "tor", 48, 1, 250.0, 9.0, "given"), *nodes))


def unit() -> Design:
    """32 DGX H100 in eight racks and the rest in two, on three feeds."""
    infra = (
        rack("i01", (node("head01", 40, 1, "generic-1u", 650.0, 18.0),
                     node("login01", 38, 1, "generic-1u", 650.0, 18.0),
                     node("login02", 36, 1, "generic-1u", 650.0, 18.0, "proposed")), "AB", 30_000.0),
        rack("i02", (node("stor01", 30, 2, "nas-2u", 1100.0, 32.5),
                     Position("patch-panel", "equipment", "patch-panel", 1, 1, 0.0, None, "given")), "AB", 30_000.0),
    )  # fmt: skip
    gpu = tuple(gpu_rack(f"g{n + 1:02}", 1 + 4 * n) for n in range(8))
    racks = (*gpu, *infra)
    return _site("aurora", racks, ("g01", "g02", "g03", "g04", "i01", "i02", "g05", "g06", "g07", "g08"))


def _site(name: str, racks: tuple[RackDesign, ...], row: tuple[str, ...]) -> Design:
    it_w = sum(rack.power_w for rack in racks)
    diverse_w = 0.9 * it_w
    feeds = tuple(_feed(feed, racks) for feed in "ABC")
    nodes = sum(position.model == "dgx-h100" for rack in racks for position in rack.elevation)
    total_w = diverse_w * 1.35
    return Design(
        name=name,
        blueprint=f"blueprints/{name}.yaml",
        has_site=True,
        power=Power(it_w, diverse_w, total_w - diverse_w, total_w, 600_000.0, 0.9, 1.35, 1.0, "any-one-feed", ()),
        cooling=Cooling("air", diverse_w, diverse_w * BTU_H_PER_W, diverse_w * BTU_H_PER_W / 12_000, 24.0, 15.0,
                        diverse_w / 15 * 2.99, diverse_w / 15 * 2.99 * 0.5886, None),
        feeds=feeds,
        racks=racks,
        row=row,
        unplaced=(),
        exempt=(),
        hardware=(
            Hardware("dgx-h100", "gpu[001-032]", nodes, NODE_W, "max_w of the catalog",
                     (PartPower("h100-sxm", 8, 700.0, 5600.0),)),
            Hardware("generic-1u", "head01,login[01-02]", 3, 650.0, "sum of parts / efficiency 0.94",
                     (PartPower("xeon-6430", 2, 270.0, 540.0), PartPower("drives", 2, None, None))),
        ),
        bom=(
            BomLine("server", "dgx-h100", "NVIDIA DGX H100", nodes, False, NODE_W, NODE_KG),
            BomLine("gpu", "h100-sxm", "NVIDIA H100 SXM5 80 GB", 8 * nodes, True, 700.0, None),
            BomLine("server", "generic-1u", "1U server, two sockets", 3, False, 650.0, 18.0),
            BomLine("rack", "rack-48u", "48U rack, 1200 mm deep", len(racks), False, None, 132.0),
            BomLine("pdu", "pdu-415v-32a", "PDU, three phases, 415 V, 32 A",
                    sum(len(rack.pdus) for rack in racks), False,
                    None, 8.2),
        ),
        fabrics=(),
        storage=(),
        diagnostics=(
            Remark("POWER-007", "warning", "Feed C has no UPS", None, "give feed C a UPS, or accept that jobs stop",
                   f"blueprints/{name}.yaml", 23, 5),
            Remark("WEIGHT-002", "not-checked", "The weight of rack i02 cannot be judged: no weight of patch-panel",
                   None, "give equipment.patch-panel.weight_kg", f"blueprints/{name}.yaml", 29, 5),
            Remark("COOLING-004", "not-checked", "The room's cooling plant has no limit", None,
                   "give site.cooling.limit_w", f"blueprints/{name}.yaml", 26, 3),
        ),
    )  # fmt: skip


def _feed(name: str, racks: tuple[RackDesign, ...]) -> FeedLoad:
    mine = [(rack.name, p) for rack in racks for p in rack.pdus if p.feed == name]
    load = sum(p.load_w for _, p in mine)
    lost = sum(p.load_w_one_lost for _, p in mine)
    limit_a = 250_000 / sqrt(3) / VOLTS
    ups = UpsDesign("ups-250kva", 2, 0.9 * load, 225_000.0, 15.0, None) if name != "C" else None
    rack_names = tuple(name for name, _ in mine)
    return FeedLoad(name, VOLTS, 3, 0.9 * load, 250_000.0, lost, phases(load, lost, limit_a), rack_names, ups)


SCRIPT = "<script>document.title='owned'</script>"


def hostile() -> Design:
    """Names that are markup, very long or invisible; overlaps, unknowns, limits that are passed."""
    long = "a-very-long-name-" * 8
    odd = rack("g01", (
        node(SCRIPT, 3, 8, "</text></svg><img src=http://page.example/x onerror=alert(1)>", NODE_W, NODE_KG),
        node(long, 11, 8, long, None, None, "proposed"),
        node("clash1", 20, 8, "dgx-h100", NODE_W, NODE_KG), node("clash2", 24, 8, "dgx-h100", NODE_W, NODE_KG),
        node("clash3", 30, 1, "generic-1u", NODE_W, NODE_KG), node("above", 46, 8, "dgx-h100", NODE_W, NODE_KG),
        node("]]>&amp;\u202egpj.exe", 1, 1, "x\x1b[31m", 100.0, 1.0), node("W" * 40, 2, 1, "M" * 40, 1e6, 1.0),
    ))  # fmt: skip
    many = rack("b" * 60, (), "ABCDEFGH", None)
    unknown = replace(rack("g03", ()), height_u=None, free_u=None, pdus=(), limit_w=None, survives_one_lost=None)
    odd = replace(odd, survives_one_lost=False, power_unknown=(long,), model=SCRIPT)
    design = _site("aurora", (odd, many, unknown), ("g03", "nobody"))
    arithmetic = "4 x 10.2 kW = 40.8 kW on racks g01 > 36.8 kW = 2 feeds x 0.8 x sqrt(3) x 415 V x 32 A"
    broken = Remark("POWER-003", "error", f"Node {SCRIPT} {'x' * 300}", arithmetic, SCRIPT, SCRIPT, None, None)
    feeds = tuple(replace(feed, limit_w=3_000.0, name=f"{feed.name}{SCRIPT}") for feed in design.feeds)
    through = Throughput(1e6, None, None, "drives", None, 2e6)
    lots = (DriveLot(SCRIPT, 24, 2, None), DriveLot(long, 1, 0, 1e6))
    files = FileSystemDesign(SCRIPT, SCRIPT, SCRIPT, long, lots, SCRIPT, None, 1, None, None, 1e7, SCRIPT, 10_000,
                             through, through)  # fmt: skip
    return replace(design, name=SCRIPT, storage=(files, replace(files, server=long, drives=())),
                   blueprint=SCRIPT, diagnostics=(broken, *design.diagnostics), feeds=feeds,
                   unplaced=(SCRIPT,), exempt=(SCRIPT,),
                   hardware=tuple(replace(one, nodes=SCRIPT, origin=SCRIPT) for one in design.hardware))  # fmt: skip


def large(count: int = 2_500) -> Design:
    """Many racks that are alike, and one that is not."""
    racks = [gpu_rack(f"g{n + 1:04}", 1 + 4 * n) for n in range(count - 1)]
    return _site("large", (*racks, rack("i01", (node("head01", 40, 1, "generic-1u", 650.0, 18.0),))), ())


def unlike() -> Design:
    """Ten thousand nodes in racks of which no two are alike."""

    def more(pdu: PduLoad, number: int) -> PduLoad:
        phases = tuple(replace(phase, load_a=phase.load_a + number / 1000) for phase in pdu.phases)
        return replace(pdu, load_w=pdu.load_w + number, phases=phases)

    racks = tuple(
        replace(rack, power_w=rack.power_w + number, pdus=tuple(more(pdu, number) for pdu in rack.pdus))
        for number, rack in enumerate(large().racks)
    )
    return replace(large(), racks=racks)


def without_site() -> Design:
    """A blueprint that describes no room."""
    return replace(_site("lab", (), ()), has_site=False, feeds=(), diagnostics=())


def hostile_fabric() -> Cabled:
    """Two switches and a node whose names are markup; a name that is longer than any label."""
    devices = (
        Device(SCRIPT, "node", None, 2),
        Device("x" * 200, "leaf", "</text></svg><img src=http://page.example/x>", 4, 0, 0),
        Device("]]>&amp;\u202egpj.exe", "spine", SCRIPT, 4),
    )
    cables = Cables(array("I", (0, 1)), array("I", (1, 2)), array("I", (1, 2)), array("I", (1, 1)), array("B", (0, 2)))
    fabric = Fabric(
        name=SCRIPT, kind="roce", topology="rail-optimised", rate_gbps=100.0, port_rate_gbps=100.0,
        uplink_rate_gbps=100.0, breakout=1, rails=1, designed_for=1, tiers=2, first_end_port=1, end_ports=2,
        leaf_gbps=100.0, devices=devices, cables=cables, notes=(SCRIPT,),
        moves=(GrowthMove((SCRIPT, 1, "gone", 2), None, "node_leaf"),),
    )  # fmt: skip
    place = Spot(RackOnFloor(SCRIPT, 0, 0.3, 2.0), SCRIPT, 3, 0.1)
    spots = {device.name: place for device in devices}
    model = CableModel(kind="dac", rate_gbps=100.0, reach_m=3.0, lengths_m=(1.0, 2.0, 3.0))
    return cabled(fabric, spots, CablingRules.model_construct(), {SCRIPT: model})


def with_hostile_fabric() -> tuple[Design, tuple[Cabled, ...]]:
    """The hostile design, its fabric hostile too."""
    one = hostile_fabric()
    return replace(hostile(), fabrics=(fabric_design(one),)), (one,)
