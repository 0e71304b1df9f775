"""Rules about feeds, UPSs, cooling and the site as a whole, and about values that the blueprint lacks. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.sections.hardware import GUESS
from hpcforge.blueprint.sections.site import FeedUps
from hpcforge.blueprint.values import minutes
from hpcforge.design.facility import limits
from hpcforge.design.facility.design import Cooling, Power
from hpcforge.design.facility.feeds import Carried, run_time_min
from hpcforge.design.facility.layout import Layout
from hpcforge.design.facility.loads import LoadedRack
from hpcforge.design.facility.power_rules import above, in_watts, surviving, too_much
from hpcforge.design.facility.rack_rules import fold_racks, power_terms
from hpcforge.design.facility.room import NodeKind, Room
from hpcforge.design.facility.rules import Breach, not_checked
from hpcforge.design.facility.units import airflow_m3_h, apart, kw, m3_h


# Rules about heat and air, rack by rack and model by model.
def cooling_breaches(room: Room, loaded: Iterable[LoadedRack]) -> Breaches:
    """Yield the breaches of heat and air."""
    if room.site is None or not room.site.cooling.model_fields_set:
        return
    yield from fold_racks(room, loaded, (_heat, _air))
    models: dict[tuple[str, str], list[NodeKind]] = defaultdict(list)
    for kind in room.kinds:
        if kind.metal:
            models[kind.group, kind.model].append(kind)
    for kinds in models.values():
        names = hostlist.fold(name for kind in kinds for name in kind.names)
        yield from _inlet(room, kinds[0], names)
        yield from _liquid(room, kinds[0], names)


def heat_limit_w(room: Room, loaded_rack: LoadedRack) -> float | None:
    """Return the heat that cooling removes from a rack, W: its own limit, else the site's."""
    own = loaded_rack.rack.spec.cooling_limit_w
    return own if own is not None or room.site is None else room.site.cooling.rack_limit_w


def _heat(room: Room, loaded_rack: LoadedRack) -> Breaches:
    if room.site is None or not loaded_rack.items:
        return
    limit, heat = heat_limit_w(room, loaded_rack), loaded_rack.load.power_w
    method = room.site.cooling.method or "a method that is not set"
    if limit is None:
        missing = f"RACKS: the heat that {method} takes from a rack is not set"
        yield not_checked("COOL-001", ("site", "cooling"), missing, "rack_limit_w under site.cooling")
    elif above(heat, limit):
        load_kw, most = apart(kw, heat, limit)
        sums = f"{power_terms(loaded_rack)} = {load_kw} of heat > {most} that {method} takes: {too_much(heat, limit)}"
        own = loaded_rack.rack.spec.cooling_limit_w is not None
        loc = (*loaded_rack.rack.loc, "cooling_limit_w") if own else ("site", "cooling", "rack_limit_w")
        yield Breach("COOL-001", loc, "RACKS: more heat than is carried away", sums, "fewer nodes in the rack")


def _air(room: Room, loaded_rack: LoadedRack) -> Breaches:
    cooling = room.site.cooling if room.site else None
    if cooling is None or cooling.method != "air" or not loaded_rack.items:
        return
    if cooling.rise_k is None or cooling.rack_airflow_m3_h is None:
        missing = "rise_k" if cooling.rise_k is None else "rack_airflow_m3_h"
        yield not_checked("COOL-004", ("site", "cooling"), f"RACKS: {missing} is not set")
        return
    air, limit = airflow_m3_h(loaded_rack.load.power_w, cooling.rise_k), cooling.rack_airflow_m3_h
    if above(air, limit):
        flow, most = apart(m3_h, air, limit)
        sums = f"{kw(loaded_rack.load.power_w)} / (1.2 kg/m3 x 1,005 J/(kg K) x {cooling.rise_k:g} K) = {flow} > {most}"
        loc = ("site", "cooling", "rack_airflow_m3_h")
        yield Breach("COOL-004", loc, "RACKS: too little air", sums, "more air, or a larger rise")


def _inlet(room: Room, kind: NodeKind, names: str) -> Breaches:
    cooling = room.site.cooling if room.site else None
    if cooling is None or kind.server.cooling == "liquid":
        return
    if cooling.inlet_c is None:
        yield not_checked("COOL-002", ("site", "cooling"), "inlet_c is not set")
    elif kind.server.inlet_max_c is None:
        message = f"{names}: no published inlet temperature of {kind.model}"
        yield not_checked("COOL-002", kind.loc(), message)
    elif cooling.inlet_c > kind.server.inlet_max_c:
        sums = f"{cooling.inlet_c:g} C > {kind.server.inlet_max_c:g} C of {kind.model}"
        yield Breach("COOL-002", ("site", "cooling", "inlet_c"), f"{names}: the air is too warm", sums, "cooler air")


def _liquid(room: Room, kind: NodeKind, names: str) -> Breaches:
    method = room.site.cooling.method if room.site else None
    if kind.server.cooling == "liquid" and method is None:
        yield not_checked("COOL-003", ("site", "cooling"), f"{names}: the cooling method is not set")
    elif kind.server.cooling == "liquid" and method != "direct-liquid":
        sums = f"{kind.model} is cooled by liquid, the method of the site is {method}"
        hint = "choose the air-cooled model, or bring liquid to the racks"
        yield Breach("COOL-003", kind.loc(), f"{names}: no liquid at the racks", sums, hint)
    elif kind.server.cooling is None:
        yield not_checked("COOL-003", kind.loc(), f"{names}: not published how {kind.model} is cooled")


Breaches = Iterator[Breach]


def missing_parts(room: Room, layout: Layout) -> Breaches:
    """Report the parts of the site that the blueprint lacks."""
    if not any(kind.metal for kind in room.kinds):
        return
    if room.site is None:
        missing = "the blueprint has no `site`: racks, power, cooling and weight are not checked"
        yield not_checked("SITE-001", (), missing, "add `site:` with feeds, power, cooling and racks")
        return
    site = room.site
    for part, declared, rules in (
        ("feeds", site.feeds, "power"),
        ("racks", site.racks, "racks"),
        ("cooling", site.cooling.model_fields_set, "cooling"),
    ):
        if not declared:
            yield not_checked("SITE-001", ("site",), f"`site` has no `{part}`: rules about {rules} are not checked")
    floor = [name for name in layout.unplaced if room.kind_of[name].floor]
    if floor and site.feeds:
        missing = f"{hostlist.fold(floor)} on the floor, in no rack: their power is in the totals, but on no feed"
        yield not_checked("SITE-001", ("nodes",), missing)
    for key, spec in site.racks.items():
        if spec.pdu is None and site.feeds:
            missing = f"racks {key} have no PDUs: their power is on no feed"
            yield not_checked("SITE-001", ("site", "racks", key), missing, "give `pdu` and `feeds`")


def unknown_power(room: Room) -> Breaches:
    """Report the models of unknown power."""
    nodes: dict[tuple[str, str, tuple[str, ...], float], list[str]] = defaultdict(list)
    for kind in room.kinds:
        if kind.metal and kind.watts.node_w is None:
            nodes[kind.group, kind.model, kind.watts.missing, kind.watts.least_w] += kind.names
    for (group, model, missing, least), names in nodes.items():
        parts = f"; its known parts take {kw(least)}" if least else ", and not of its parts either"
        message = f"{hostlist.fold(names)}: no published power of {model} (max_w){parts}"
        lacking = f"; missing: {', '.join(missing)}" if missing else ""
        hint = f"set max_w in an entry like {model} under `hardware`{lacking}"
        yield not_checked("POWER-015", ("nodes", group, "hardware"), message, hint)
    guessed = {kind.model: (kind.loc(), kind.server.sources) for kind in room.kinds if kind.metal}
    guessed |= {mount.model: (mount.loc, room.catalog.switches[mount.model].sources) for mount in room.mounts}
    for model, (loc, sources) in guessed.items():
        if (source := sources.get("max_w", "")).startswith(GUESS):
            hint = f"measure it, and set max_w in an entry like {model}"
            yield not_checked("POWER-015", loc, f"max_w of {model} is a {source}", hint)
    for model, mount in {mount.model: mount for mount in room.mounts if mount.load.power_w is None}.items():
        count = sum(mount.model == model for mount in room.mounts)
        message = f"{count} {'switch' if count == 1 else 'switches'}: no published power of {model} (max_w)"
        hint = f"set max_w in an entry like {model} under `parts.switches`"
        yield not_checked("POWER-015", (*mount.loc[:2], "switch"), message, hint)


def feed_breaches(room: Room, carried: Mapping[str, Carried]) -> Breaches:
    """Yield the breaches of feeds and their UPSs."""
    diversity = room.site.power.diversity if room.site else 1.0
    for name, feed in room.feeds.items():
        loc = ("site", "feeds", name)
        limit, load = limits.most_feed_w(room, feed), carried[name]
        diverse = load.load_w * diversity
        if limit is not None and above(diverse, limit):
            load_kw, most = apart(kw, diverse, limit)
            sums = f"{diversity:g} x {kw(load.load_w)} = {load_kw} > {most} = {limits.feed_terms(room, feed)}"
            sums += f": {too_much(diverse, limit)}"
            yield Breach("POWER-005", loc, f"feed {name} is overloaded", sums, "a larger feed, or fewer racks on it")
        elif limit is None or room.derating is None:
            missing = "the derating of breakers is not set" if room.derating is None else "limit_w and amps are not set"
            yield not_checked("POWER-005", loc, f"feed {name}: {missing}")
        if limit is not None and surviving(room):
            yield from _one_lost(room, name, load, limit)
        if feed.ups:
            yield from _ups(room, name, feed.ups, diverse)


def _one_lost(room: Room, name: str, load: Carried, limit: float) -> Breaches:
    worst, lost = load.worst
    if lost is not None and above(worst, limit):
        load_kw, most = apart(kw, worst, limit)
        sums = f"{load_kw} at maximum > {most} = {limits.feed_terms(room, room.feeds[name])}: {too_much(worst, limit)}"
        message = f"feed {name} is overloaded when feed {lost} is lost"
        yield Breach("POWER-006", ("site", "feeds", name), message, sums, "larger feeds, or one more")


def _ups(room: Room, name: str, ups: FeedUps, load_w: float) -> Breaches:
    loc = ("site", "feeds", name, "ups")
    model = room.catalog.ups.get(ups.model) if ups.model else None
    if model is None:
        message = f"feed {name}: the UPS model is not set, so capacity and run time are not known"
        yield not_checked("POWER-011", loc, message, "ups: {model: ..., count: ..., run_time: 15min}")
        return
    if model.capacity_w is None:
        yield not_checked("POWER-011", loc, f"feed {name}: no published capacity of {ups.model}")
    elif above(load_w, model.capacity_w * ups.count):
        load_kw, most = apart(kw, load_w, model.capacity_w * ups.count)
        sums = (
            f"{load_kw} > {most} = {ups.count} x {kw(model.capacity_w)}: "
            f"{too_much(load_w, model.capacity_w * ups.count)}"
        )
        yield Breach("POWER-011", loc, f"the UPS of feed {name} is overloaded", sums, "larger UPSs, or more UPSs")
        return  # its run time is then too short as well
    if ups.run_time is None or load_w <= 0:
        return
    required, run_time = minutes(ups.run_time), run_time_min(model, ups.count, load_w)
    if run_time is None:
        yield not_checked("POWER-012", loc, f"feed {name}: no published run time of {ups.model}")
    elif run_time < required:
        sums = f"{run_time:.1f} min at {kw(load_w)} on {ups.count} x {ups.model} < {required:g} min"
        yield Breach("POWER-012", loc, f"the UPS of feed {name} does not last", sums, "more batteries or UPSs")


def site_breaches(room: Room, power: Power, cooling: Cooling) -> Breaches:
    """Yield the breaches of the site's totals."""
    if room.site is None:
        return
    least_w = power.diverse_w if power.total_w is None else power.total_w  # a PUE is 1 at least
    has_cooling = bool(room.site.cooling.model_fields_set)
    if power.limit_w is not None and above(least_w, power.limit_w):
        load, most = apart(kw, least_w, power.limit_w)
        factors = f"{kw(power.it_w)} x {power.diversity:g}" + (
            f" x {power.pue:g}" if power.pue else ", without cooling"
        )
        sums = f"{factors} = {load} > {most}: {too_much(least_w, power.limit_w)}"
        loc = ("site", "power", "limit_w")
        hint = in_watts(least_w, power.limit_w) or "a larger connection"
        yield Breach("POWER-013", loc, "the site is above its power limit", sums, hint)
    elif has_cooling and power.pue is None:
        missing = "pue is not set, so the power of cooling and the site's total are not known"
        yield not_checked("POWER-013", ("site", "cooling"), missing, "pue under site.cooling")
    elif has_cooling and power.limit_w is None:
        yield not_checked("POWER-013", ("site", "power"), "limit_w of the site is not set")
    if has_cooling and cooling.limit_w is None:
        yield not_checked("COOL-005", ("site", "cooling"), "limit_w of the cooling plant is not set")
    elif cooling.limit_w is not None and above(cooling.heat_w, cooling.limit_w):
        load, most = apart(kw, cooling.heat_w, cooling.limit_w)
        sums = f"{kw(power.it_w)} x {power.diversity:g} = {load} > {most}: {too_much(cooling.heat_w, cooling.limit_w)}"
        loc = ("site", "cooling", "limit_w")
        hint = in_watts(cooling.heat_w, cooling.limit_w) or "a larger plant"
        yield Breach("COOL-005", loc, "more heat than the cooling plant takes", sums, hint)
