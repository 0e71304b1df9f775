"""The part of a design for racks, power, cooling and parts. Pure.

Every quantity is in the unit its name ends in: W, V, A, kg, mm, BTU/h, m3/h, degrees Celsius, K. A figure that cannot
be known is None (null); a sum over parts of which some are unknown is the sum of the known ones, and `*_unknown` names
the others. Power is at maximum unless a name says otherwise. Renderers must treat every text as plain text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

Severity = Literal["error", "warning", "not-checked"]


def about(text: str) -> Any:
    return Field(description=text)


@dataclass(frozen=True)
class Remark:
    """One diagnostic. `hpcforge explain CODE` says more about its code."""

    code: Annotated[str, about("The rule's code, POWER-003; hpcforge explain says more.")]
    severity: Annotated[Severity, about("Error, warning or not-checked.")]
    message: Annotated[str, about("The message, without code and arithmetic.")]
    arithmetic: Annotated[str | None, about("The comparison, with units: 4 x 10.2 kW = 40.8 kW > 36.8 kW = ...")]
    hint: Annotated[str | None, about("A way out.")]
    file: Annotated[str, about("Its file, as given.")]
    line: Annotated[int | None, about("Line, from 1; null: the whole file.")]
    column: Annotated[int | None, about("Column, from 1, in characters.")]


@dataclass(frozen=True)
class PartPower:
    """What one kind of part takes in one node, at maximum."""

    name: Annotated[str, about("Model of the part.")]
    count: Annotated[int, about("Number in one node.")]
    each_w: Annotated[float | None, about("Maximum power of one, W; null: not published.")]
    total_w: Annotated[float | None, about("Count times each_w, W; null: not known.")]


@dataclass(frozen=True)
class Hardware:
    """One server model as it is used: the nodes that have it in one configuration, and where their watts come from."""

    model: Annotated[str, about("Server model.")]
    nodes: Annotated[str, about("Its nodes, as a hostlist.")]
    count: Annotated[int, about("Number of nodes.")]
    node_w: Annotated[float | None, about("Maximum power of one at its inlets, W; null: not known.")]
    origin: Annotated[str, about("The source of node_w, as text.")]
    parts: Annotated[tuple[PartPower, ...], about("Known parts; their sum is node_w only where `origin` says so.")]


@dataclass(frozen=True)
class Phase:
    """The load of one phase (of a PDU or a feed), at maximum."""

    name: Annotated[str, about("L1, L2 or L3.")]
    load_w: Annotated[float, about("Load, W.")]
    load_a: Annotated[float, about("Current, A.")]
    limit_a: Annotated[float | None, about("Current that it may carry, after derating, A; null: not known.")]
    load_a_one_lost: Annotated[float, about("The most current when any one other feed is lost, A.")]


@dataclass(frozen=True)
class PduLoad:
    """One PDU of a rack and what hangs on it, at maximum."""

    name: Annotated[str, about("Rack and feed: g01-A, or g01-A2 for the second on feed A.")]
    model: Annotated[str, about("PDU model.")]
    feed: Annotated[str, about("Its feed.")]
    load_w: Annotated[float, about("Load, W.")]
    limit_w: Annotated[float | None, about("Its power after derating, W; null: not known.")]
    load_w_one_lost: Annotated[float, about("The most when any one other feed is lost, W.")]
    phases: Annotated[tuple[Phase, ...], about("Its phases; empty if their loads are not known.")]
    outlets_used: Annotated[Mapping[str, int], about("Used outlets, by kind of inlet.")]
    outlets: Annotated[Mapping[str, int] | None, about("All outlets, by kind; null: not known.")]


@dataclass(frozen=True)
class Position:
    """Something in a rack. Rack units count from 1 at the bottom; `u_bottom` is the lowest it takes."""

    node: Annotated[str, about("The node's or switch's name, or that of other equipment.")]
    kind: Annotated[Literal["node", "switch", "equipment", "pdu"], about("Node, switch, equipment or pdu.")]
    model: Annotated[str, about("Server, switch or PDU model; the name of equipment.")]
    u_bottom: Annotated[int, about("Lowest rack unit it takes, counted from 1.")]
    u_height: Annotated[int, about("Rack units it takes.")]
    power_w: Annotated[float | None, about("Power, W; null: not known.")]
    weight_kg: Annotated[float | None, about("Weight, kg; null: not known.")]
    placed: Annotated[Literal["given", "pinned", "proposed"], about("How its place was chosen.")]


@dataclass(frozen=True)
class RackDesign:
    """One rack: elevation, load, heat and weight, at maximum."""

    name: Annotated[str, about("The rack's name.")]
    model: Annotated[str, about("Rack model.")]
    height_u: Annotated[int | None, about("Height in rack units; null: not known.")]
    used_u: Annotated[int, about("Used rack units.")]
    free_u: Annotated[int | None, about("Its height less nodes, equipment and lying PDUs; null: not known.")]
    power_w: Annotated[float, about("Maximum load of its equipment, W.")]
    limit_w: Annotated[float | None, about("Power that the site allows in it, W; null: not given.")]
    power_unknown: Annotated[tuple[str, ...], about("Equipment without known power.")]
    heat_btu_h: Annotated[float, about("Heat at maximum, BTU/h: power_w times 3.412.")]
    cooling_limit_w: Annotated[float | None, about("Heat that the cooling removes, W; null: not given.")]
    airflow_m3_h: Annotated[
        float | None, about("Air that carries its heat and warms by rise_k, m3/h; null: rise_k is not set.")
    ]
    weight_kg: Annotated[float, about("Weight of the mounted equipment, without the rack, kg.")]
    limit_kg: Annotated[float | None, about("Weight that may be mounted, kg; null: not known.")]
    weight_unknown: Annotated[tuple[str, ...], about("Equipment without known weight.")]
    survives_one_lost: Annotated[
        bool | None, about("True if the other feeds carry it when any one is lost; null: not checked.")
    ]
    elevation: Annotated[tuple[Position, ...], about("Its equipment, from the top down.")]
    pdus: Annotated[tuple[PduLoad, ...], about("Its PDUs.")]


@dataclass(frozen=True)
class UpsDesign:
    """The UPS of a feed, and how long it carries the feed's load."""

    model: Annotated[str | None, about("UPS model; null: not given.")]
    count: Annotated[int, about("Number of units that share the load.")]
    load_w: Annotated[float, about("The feed's load after diversity, W.")]
    capacity_w: Annotated[float | None, about("Power that all units carry, W; null: not published.")]
    wanted_min: Annotated[float | None, about("Required run time, minutes; null: not given.")]
    run_time_min: Annotated[float | None, about("Run time at that load, minutes; null: not published.")]


@dataclass(frozen=True)
class FeedLoad:
    """One power feed."""

    name: Annotated[str, about("The feed's name.")]
    volts: Annotated[float, about("Voltage: line to line of three phases, else of the one, V.")]
    phase_count: Annotated[int, about("Phases, 1 or 3.")]
    load_w: Annotated[float, about("Load of all its PDUs after diversity, W.")]
    limit_w: Annotated[float | None, about("Its power after derating, W; null: not known.")]
    load_w_one_lost: Annotated[
        float, about("The most when any one other feed is lost, at maximum, without diversity, W.")
    ]
    phases: Annotated[tuple[Phase, ...], about("Its phases, before diversity.")]
    racks: Annotated[tuple[str, ...], about("Racks with a PDU on it.")]
    ups: Annotated[UpsDesign | None, about("Its UPS; null: it has none.")]


@dataclass(frozen=True)
class PowerFeed:
    """A power feed of the site, as far as racks hang on it."""

    name: str
    limit_w: float | None  # for continuous load, after derating; None: not known
    shares: Mapping[str, float]  # by rack, the part of its load that this feed carries while all feeds work


@dataclass(frozen=True)
class Power:
    """The site's power."""

    it_w: Annotated[float, about("Equipment at maximum, before diversity, W.")]
    diverse_w: Annotated[float, about("Equipment after diversity, W: it_w times diversity.")]
    cooling_w: Annotated[float | None, about("Power of cooling and losses, W: diverse_w times (PUE less 1).")]
    total_w: Annotated[float | None, about("The site, W: diverse_w times PUE; null: PUE is not set.")]
    limit_w: Annotated[float | None, about("Power limit of the site, W; null: not given.")]
    diversity: Annotated[float, about("Part of the maximum that all draw together.")]
    pue: Annotated[float | None, about("Site power divided by equipment power; null: not given.")]
    derating: Annotated[float | None, about("Part of a breaker's rating for continuous load; null: not given.")]
    survive: Annotated[str, about("The loss to survive: any-one-feed or none.")]
    unknown: Annotated[tuple[str, ...], about("Hostlists of nodes and switches without known power.")]


@dataclass(frozen=True)
class Cooling:
    """The site's heat, after diversity, and the air that would carry it."""

    method: Annotated[str | None, about("Air, rear-door or direct-liquid; null: not given.")]
    heat_w: Annotated[float, about("Heat, W.")]
    heat_btu_h: Annotated[float, about("Heat, BTU/h.")]
    heat_tons: Annotated[float, about("Heat, tons of refrigeration (12,000 BTU/h).")]
    inlet_c: Annotated[float | None, about("Air at the machines' inlets, degrees Celsius; null: not given.")]
    rise_k: Annotated[float | None, about("Temperature rise of the air, K; null: not given.")]
    airflow_m3_h: Annotated[float | None, about("Air that carries the heat, m3/h; null: rise_k is not set.")]
    airflow_cfm: Annotated[float | None, about("The same in cubic feet a minute.")]
    limit_w: Annotated[float | None, about("Heat that the cooling plant takes, W; null: not given.")]


@dataclass(frozen=True)
class BomLine:
    """A line of the bill of materials."""

    kind: Annotated[
        Literal["server", "gpu", "nic", "drive", "switch", "cable", "adapter", "transceiver", "rack", "pdu", "ups"],
        about("What it is; cable: fibre, too."),
    ]
    model: Annotated[str, about("Model in the catalog or the blueprint; a rate or size where no model is named.")]
    description: Annotated[str, about("What it is, in words.")]
    count: Annotated[int, about("How many.")]
    included: Annotated[bool, about("Included in another line: do not order it again.")]
    each_w: Annotated[float | None, about("Maximum power of one, W; null: not known.")]
    each_kg: Annotated[float | None, about("Weight of one, kg; null: not known.")]


@dataclass(frozen=True)
class FacilityDesign:
    """What stands in racks, and what it needs."""

    name: Annotated[str, about("The cluster's name.")]
    blueprint: Annotated[str, about("Path of the blueprint, as given.")]
    has_site: Annotated[bool, about("False: no `site`, so racks, feeds and cooling are not designed.")]
    power: Annotated[Power, about("Power of the whole site.")]
    cooling: Annotated[Cooling, about("The site's heat.")]
    feeds: Annotated[tuple[FeedLoad, ...], about("Power feeds.")]
    racks: Annotated[tuple[RackDesign, ...], about("Racks.")]
    row: Annotated[tuple[str, ...], about("Racks in their order on the floor; racks it leaves out follow.")]
    unplaced: Annotated[tuple[str, ...], about("Hostlists of nodes in no rack.")]
    exempt: Annotated[
        tuple[str, ...], about("Hostlists of virtual machines and rehearsal nodes, to which no rule applies.")
    ]
    hardware: Annotated[tuple[Hardware, ...], about("Server models as they are used.")]
    bom: Annotated[tuple[BomLine, ...], about("Bill of materials.")]
