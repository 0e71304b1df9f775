"""The `site` section: feeds, power, cooling, racks and their order on the floor.

Limits are what this site allows. One that is left out is not judged, and `hpcforge design` says so.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hpcforge.blueprint import values as v
from hpcforge.blueprint.hardware import CableKind, Phases, Supplies
from hpcforge.blueprint.section import Section

_Limit = Annotated[v.Number, Field(ge=0, le=1_000_000_000)]
_Metres = Annotated[v.Number, Field(ge=0, le=1_000)]
_Unit = Annotated[v.Whole, Field(ge=1, le=60)]
Units = Annotated[tuple[_Unit, ...], v.Short()]


class FeedUps(Section):
    """The UPS of a feed."""

    model: Annotated[v.ModelName, v.OfCatalog("ups")] | None = Field(None, description="UPS model in the catalog.")
    count: v.Whole = Field(1, ge=1, le=64, description="How many share the load.")
    run_time: v.Duration | None = Field(None, description="How long it must carry the feed's load: 15min.")


class Feed(Section):
    """One power feed: what fails together."""

    volts: v.Number = Field(ge=1, le=1_000, description="Voltage: line to line of three phases, else of the one, V.")
    phases: Phases = Field(description="Phases, 1 or 3.")
    limit_w: _Limit | None = Field(None, description="What the feed gives before derating, W; or say amps.")
    amps: v.Number | None = Field(None, ge=1, le=100_000, description="Breaker rating per line before derating, A.")
    ups: Annotated[FeedUps, v.Short("run_time")] | None = Field(
        None, description="Its UPS; a time alone, as in 15min, is how long it must carry the load."
    )


class SitePower(Section):
    """How power is judged."""

    survive: Literal["any-one-feed", "none"] = Field(
        "none", description="Which loss of feeds every node must survive, at maximum load."
    )
    derating: v.Number | None = Field(
        None, ge=0.1, le=1, description="Part of a breaker's rating for continuous load: 0.8 under NEC; 1.0: all of it."
    )
    diversity: v.Number = Field(
        1.0,
        ge=0.01,
        le=1,
        description="Part of the maximum that all draw together; for feed, UPS and site totals only.",
    )
    limit_w: _Limit | None = Field(None, description="What the whole site may draw, cooling included, W.")
    phase_imbalance: v.Number | None = Field(
        None, ge=0, le=3, description="Most that a PDU's phase may differ from the mean of its phases, as a fraction."
    )


class SiteCooling(Section):
    """How heat leaves, and what that is good for."""

    method: Literal["air", "rear-door", "direct-liquid"] | None = Field(None, description="What carries heat away.")
    inlet_c: v.Number | None = Field(None, ge=0, le=60, description="Air at the machines' inlets, degrees Celsius.")
    rise_k: v.Number | None = Field(None, ge=1, le=60, description="How much the air may warm, K.")
    pue: v.Number | None = Field(None, ge=1, le=5, description="Site power divided by equipment power.")
    rack_limit_w: _Limit | None = Field(None, description="Heat of one rack that the method takes, W.")
    rack_airflow_m3_h: _Limit | None = Field(None, description="Air that reaches one rack, m3/h.")
    limit_w: _Limit | None = Field(None, description="Heat that the cooling plant takes, W.")


class Cabling(Section):
    """How cables are laid: what a length is made of. Site values, not facts; docs/fabric.md has the formula."""

    side_m: _Metres = Field(0.5, description="From a port to the side of its rack, at each end, m.")
    overhead_m: _Metres = Field(0.5, description="From the top of a rack up to the tray, at each end, m.")
    slack_m: _Metres = Field(0.5, description="Added to every cable, m.")
    rack_pitch_m: Annotated[v.Number, Field(ge=0.1, le=10)] | None = Field(
        None, description="From the middle of a rack to that of its neighbour, m; default: the rack models' widths."
    )
    racks_in_row: v.Whole | None = Field(
        None, ge=1, le=1_000, description="Racks of `row` in one line on the floor; the next stand in the line behind."
    )
    row_pitch_m: _Metres = Field(2.4, description="From one line of racks to the next, m.")
    between_rooms_m: _Metres | None = Field(
        None, description="From the tray of one room to that of another, m; default: not checked."
    )
    kinds: tuple[CableKind, ...] = Field(
        ("twisted-pair", "dac", "aoc", "optics"),
        min_length=1,
        description="Cables that are bought; of those that reach, the first in this order is taken.",
    )


class Equipment(Section):
    """What else stands in each rack of a group: switches, panels, shelves."""

    u: Units = Field(min_length=1, description="All rack units that it takes, counted from 1 at the bottom.")
    max_w: _Limit = Field(description="Most it takes in one rack, W; 0: it has no power.")
    weight_kg: _Limit | None = Field(None, description="What it weighs in one rack, kg.")
    psu: Supplies | None = Field(None, description="Its power supplies.")


class SiteRacks(Section):
    """Racks that are alike."""

    model: Annotated[v.ModelName, v.OfCatalog("racks")] = Field(description="Rack model in the catalog.")
    room: v.RoomName | None = Field(None, description="The room they stand in; default: the site's.")
    pdu: Annotated[v.ModelName, v.OfCatalog("pdus")] | None = Field(
        None, description="PDU model in the catalog: one PDU for each entry of feeds."
    )
    feeds: Annotated[tuple[v.FeedName, ...], Field(max_length=16)] = Field(
        (), description="Feeds of its PDUs, one PDU each; a feed named twice has two PDUs."
    )
    limit_w: _Limit | None = Field(None, description="Power of one rack that the site allows, W.")
    limit_kg: _Limit | None = Field(
        None, description="What the site allows to be mounted in one rack, kg; never more than the model's."
    )
    cooling_limit_w: _Limit | None = Field(
        None, description="Heat that is taken from one rack; default: the site's, W."
    )
    spare_u: v.Whole | None = Field(None, ge=0, le=60, description="Units to keep free for switches and cables.")
    equipment: dict[v.SectionName, Equipment] = Field({}, description="What else stands in each of them, by name.")


class Site(Section):
    """The room: what power, cooling and space there is."""

    room: v.RoomName = Field("room", description="The room's name, in the lists of cables.")
    feeds: dict[v.FeedName, Feed] = Field({}, description="Power feeds by name.")
    power: SitePower = Field(SitePower.model_construct(), description="What power is judged by.")
    cooling: SiteCooling = Field(SiteCooling.model_construct(), description="How the room is cooled.")
    racks: dict[v.RackHostlist, SiteRacks] = Field({}, description="Racks by hostlist.")
    row: tuple[v.RackHostlist, ...] = Field((), description="Racks in their order on the floor.")
    cabling: Cabling = Field(Cabling.model_construct(), description="How cables are laid, for their lengths.")
