"""The `site` section: feeds, power, cooling, racks and their order on the floor.

Limits are what this site allows. One that is left out is not judged, and `hpcforge design` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import Annotated, Literal

from pydantic import Field

from hpcforge.blueprint import hostlist
from hpcforge.blueprint import values as v
from hpcforge.blueprint.diagnostics import did_you_mean, quote
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.section import Section
from hpcforge.blueprint.sections.hardware import CableKind, Phases, Supplies
from hpcforge.blueprint.validate import Draft, Finding

_Limit = Annotated[v.Number, Field(ge=0, le=1_000_000_000)]
_Metres = Annotated[v.Number, Field(ge=0, le=1_000)]
_Unit = Annotated[v.Whole, Field(ge=1, le=60)]
Units = Annotated[tuple[_Unit, ...], v.ShortForm()]


class FeedUps(Section):
    """The UPS of a feed."""

    model: Annotated[v.ModelName, v.OfCatalog("ups")] | None = Field(None, description="UPS model in the catalog.")
    count: v.Whole = Field(1, ge=1, le=64, description="Number of units that share the load.")
    run_time: v.Duration | None = Field(None, description="Required run time at the feed's load, such as 15min.")


class Feed(Section):
    """One power feed: what fails together."""

    volts: v.Number = Field(ge=1, le=1_000, description="Voltage: line to line of three phases, else of the one, V.")
    phases: Phases = Field(description="Phases, 1 or 3.")
    limit_w: _Limit | None = Field(None, description="Power of the feed before derating, W; or use `amps`.")
    amps: v.Number | None = Field(None, ge=1, le=100_000, description="Breaker rating per line before derating, A.")
    ups: Annotated[FeedUps, v.ShortForm("run_time")] | None = Field(
        None, description="Its UPS; a time such as 15min sets only the required run time."
    )


class SitePower(Section):
    """How power is judged."""

    survive: Literal["any-one-feed", "none"] = Field(
        "none", description="The loss of feeds that every node must survive at maximum load."
    )
    derating: v.Number | None = Field(
        None,
        ge=0.1,
        le=1,
        description="Fraction of a breaker's rating that is allowed for continuous load: 0.8 "
        "under NEC; 1.0: no derating.",
    )
    diversity: v.Number = Field(
        1.0,
        ge=0.01,
        le=1,
        description="Diversity factor: fraction of the maximum that all draw at the same time; used only for feed, "
        "UPS and site totals.",
    )
    limit_w: _Limit | None = Field(None, description="Power limit of the site, with cooling, W.")
    phase_imbalance: v.Number | None = Field(
        None, ge=0, le=3, description="Highest deviation of a PDU's phase from the mean of its phases, as a fraction."
    )


class SiteCooling(Section):
    """How heat leaves, and what that is good for."""

    method: Literal["air", "rear-door", "direct-liquid"] | None = Field(None, description="How heat is removed.")
    inlet_c: v.Number | None = Field(None, ge=0, le=60, description="Inlet air temperature, degrees Celsius.")
    rise_k: v.Number | None = Field(None, ge=1, le=60, description="Temperature rise of the air, K.")
    pue: v.Number | None = Field(None, ge=1, le=5, description="Site power divided by equipment power.")
    rack_limit_w: _Limit | None = Field(None, description="Heat limit of one rack, W.")
    rack_airflow_m3_h: _Limit | None = Field(None, description="Airflow to one rack, m3/h.")
    limit_w: _Limit | None = Field(None, description="Heat limit of the cooling plant, W.")


class Cabling(Section):
    """How cables are laid: what a length is made of. Site values, not facts; docs/fabric.md has the formula."""

    side_m: _Metres = Field(0.5, description="From a port to the side of its rack, at each end, m.")
    overhead_m: _Metres = Field(0.5, description="From the top of a rack up to the tray, at each end, m.")
    slack_m: _Metres = Field(0.5, description="Added to every cable, m.")
    rack_pitch_m: Annotated[v.Number, Field(ge=0.1, le=10)] | None = Field(
        None, description="From the middle of a rack to that of its neighbour, m; default: the rack models' widths."
    )
    racks_in_row: v.Whole | None = Field(
        None,
        ge=1,
        le=1_000,
        description="Number of racks of `row` in one line on the floor; the next racks stand in the line behind.",
    )
    row_pitch_m: _Metres = Field(2.4, description="Distance between two lines of racks, m.")
    between_rooms_m: _Metres | None = Field(
        None, description="Distance between the trays of two rooms, m; default: not checked."
    )
    kinds: tuple[CableKind, ...] = Field(
        ("twisted-pair", "dac", "aoc", "optics"),
        min_length=1,
        description="Kinds of cable to buy, in order of preference: hpcforge uses the first that is long enough and "
        "fits; adapter: also adapters of cages for smaller plugs.",
    )


class Equipment(Section):
    """What else stands in each rack of a group: switches, panels, shelves."""

    u: Units = Field(min_length=1, description="All its rack units, counted from 1 at the bottom.")
    max_w: _Limit = Field(description="Maximum power in one rack, W; 0: none.")
    weight_kg: _Limit | None = Field(None, description="Weight in one rack, kg.")
    psu: Supplies | None = Field(None, description="Its power supplies.")


class SiteRacks(Section):
    """Racks that are alike."""

    model: Annotated[v.ModelName, v.OfCatalog("racks")] = Field(description="Rack model in the catalog.")
    room: v.RoomName | None = Field(None, description="Their room; default: the site's.")
    pdu: Annotated[v.ModelName, v.OfCatalog("pdus")] | None = Field(
        None, description="PDU model in the catalog: one PDU for each entry of feeds."
    )
    feeds: Annotated[tuple[v.FeedName, ...], Field(max_length=16)] = Field(
        (), description="Feeds of its PDUs, one PDU for each entry; a feed that is named twice has two PDUs."
    )
    limit_w: _Limit | None = Field(None, description="Power limit of one rack, W.")
    limit_kg: _Limit | None = Field(
        None, description="Weight limit of the site for one rack, kg; at most the model's limit."
    )
    cooling_limit_w: _Limit | None = Field(None, description="Heat limit of one rack, W; default: the site's.")
    spare_u: v.Whole | None = Field(None, ge=0, le=60, description="Free rack units for switches and cables.")
    equipment: dict[v.SectionName, Equipment] = Field({}, description="Other equipment in each rack, by name.")


class SiteSection(Section):
    """The room: what power, cooling and space there is."""

    room: v.RoomName = Field("room", description="The room's name, in the lists of cables.")
    feeds: dict[v.FeedName, Feed] = Field({}, description="Power feeds by name.")
    power: SitePower = Field(SitePower.model_construct(), description="Limits and factors for power.")
    cooling: SiteCooling = Field(SiteCooling.model_construct(), description="How the room is cooled.")
    racks: dict[v.RackHostlist, SiteRacks] = Field({}, description="Racks by hostlist.")
    row: tuple[v.RackHostlist, ...] = Field((), description="Racks in their order on the floor.")
    cabling: Cabling = Field(Cabling.model_construct(), description="Distances and rules for cable lengths.")


# Errors between the parts of a `site` section: racks, feeds, rows. Pure.


Findings = Iterator[Finding]


def site_findings(draft: Draft) -> Findings:
    """Yield contradictions within a site."""
    site: SiteSection | None = draft.sections["site"]
    if site is None:
        return
    feeds = draft.keys("site", "feeds")
    yield from _twice(site)
    if draft.keys_intact("site", "racks") and draft.intact("site", "row"):
        yield from _row(site, {name for key in draft.keys("site", "racks") for name in hostlist.expand(key)})
    for name, feed in site.feeds.items():
        if feed.limit_w is not None and feed.amps is not None:
            amps_loc = ("site", "feeds", name, "amps")
            yield Finding(amps_loc, "`limit_w` and `amps` set the same thing", "set one", key=True)
    for key, racks in site.racks.items():
        loc = ("site", "racks", key)
        if racks.pdu and not racks.feeds and draft.intact(*loc, "feeds"):
            yield Finding(loc, "`pdu` without `feeds`", "feeds: [A, B] is one PDU on each feed", key=True)
        if racks.feeds and not racks.pdu and draft.intact(*loc, "pdu"):
            yield Finding((*loc, "feeds"), "`feeds` without `pdu`", "name a PDU model of the catalog", key=True)
        for index, name in enumerate(racks.feeds):
            if name not in feeds and draft.keys_intact("site", "feeds"):
                hint = did_you_mean(name, feeds) or "name it under site.feeds"
                yield Finding((*loc, "feeds", index), f"{quote(name)} is not a feed of this site", hint)


def _twice(site: SiteSection) -> Findings:
    owner: dict[str, str] = {}
    for key in site.racks:
        twice = [name for name in hostlist.expand(key) if owner.setdefault(name, key) != key]
        if twice:
            message = f"rack {hostlist.fold(twice)} is named twice"
            yield Finding(("site", "racks", key), message, f"also under `{owner[twice[0]]}`", key=True)


def _row(site: SiteSection, racks: Set[str]) -> Findings:
    listed: set[str] = set()
    for index, text in enumerate(site.row):
        loc = ("site", "row", index)
        names = hostlist.expand(text)
        unknown = [name for name in names if name not in racks]
        if unknown:
            yield unknown_racks(loc, unknown, racks)
        twice = [name for name in names if name in listed]
        if twice:
            yield Finding(loc, f"rack {hostlist.fold(twice)} is in the row twice")
        listed.update(names)


def unknown_racks(loc: Loc, unknown: list[str], racks: Iterable[str]) -> Finding:
    """Return a finding for names that are not racks of the site."""
    rack_names = sorted(racks)
    close = did_you_mean(unknown[0], rack_names) if len(unknown) == 1 else None
    hint = close or (f"its racks: {hostlist.fold(rack_names)}" if rack_names else "name racks under site.racks")
    verb = "is not a rack" if len(unknown) == 1 else "are not racks"
    return Finding(loc, f"{quote(hostlist.fold(unknown))} {verb} of this site", hint)
