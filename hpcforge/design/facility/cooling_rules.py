"""Rules about heat and air, rack by rack and model by model. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from hpcforge.blueprint import hostlist
from hpcforge.design.facility.loads import LoadedRack
from hpcforge.design.facility.power_rules import above, too_much
from hpcforge.design.facility.rack_rules import fold_racks, power_terms
from hpcforge.design.facility.room import NodeKind, Room
from hpcforge.design.facility.rules import Breach, not_checked
from hpcforge.design.facility.units import airflow_m3_h, apart, kw, m3_h

Breaches = Iterator[Breach]


def cooling_breaches(room: Room, loaded: Iterable[LoadedRack]) -> Breaches:
    """Yield what rules say of heat and air."""
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
    """Heat that is taken from a rack, W: its own limit, else the site's."""
    own = loaded_rack.rack.spec.cooling_limit_w
    return own if own is not None or room.site is None else room.site.cooling.rack_limit_w


def _heat(room: Room, loaded_rack: LoadedRack) -> Breaches:
    if room.site is None or not loaded_rack.items:
        return
    limit, heat = heat_limit_w(room, loaded_rack), loaded_rack.load.power_w
    method = room.site.cooling.method or "a method that is not given"
    if limit is None:
        missing = f"RACKS: what {method} takes from a rack is not given"
        yield not_checked("COOL-001", ("site", "cooling"), missing, "rack_limit_w under site.cooling")
    elif above(heat, limit):
        said, most = apart(kw, heat, limit)
        sums = f"{power_terms(loaded_rack)} = {said} of heat > {most} that {method} takes: {too_much(heat, limit)}"
        own = loaded_rack.rack.spec.cooling_limit_w is not None
        where = (*loaded_rack.rack.loc, "cooling_limit_w") if own else ("site", "cooling", "rack_limit_w")
        yield Breach("COOL-001", where, "RACKS: more heat than is carried away", sums, "fewer nodes in the rack")


def _air(room: Room, loaded_rack: LoadedRack) -> Breaches:
    cooling = room.site.cooling if room.site else None
    if cooling is None or cooling.method != "air" or not loaded_rack.items:
        return
    if cooling.rise_k is None or cooling.rack_airflow_m3_h is None:
        missing = "rise_k" if cooling.rise_k is None else "rack_airflow_m3_h"
        yield not_checked("COOL-004", ("site", "cooling"), f"RACKS: no {missing} is given")
        return
    air, limit = airflow_m3_h(loaded_rack.load.power_w, cooling.rise_k), cooling.rack_airflow_m3_h
    if above(air, limit):
        said, most = apart(m3_h, air, limit)
        sums = f"{kw(loaded_rack.load.power_w)} / (1.2 kg/m3 x 1,005 J/(kg K) x {cooling.rise_k:g} K) = {said} > {most}"
        where = ("site", "cooling", "rack_airflow_m3_h")
        yield Breach("COOL-004", where, "RACKS: too little air", sums, "more air, or a larger rise")


def _inlet(room: Room, kind: NodeKind, names: str) -> Breaches:
    cooling = room.site.cooling if room.site else None
    if cooling is None or kind.server.cooling == "liquid":
        return
    if cooling.inlet_c is None:
        yield not_checked("COOL-002", ("site", "cooling"), "no inlet_c is given")
    elif kind.server.inlet_max_c is None:
        message = f"{names}: no published inlet temperature of {kind.model}"
        yield not_checked("COOL-002", kind.loc(), message)
    elif cooling.inlet_c > kind.server.inlet_max_c:
        sums = f"{cooling.inlet_c:g} C > {kind.server.inlet_max_c:g} C of {kind.model}"
        yield Breach("COOL-002", ("site", "cooling", "inlet_c"), f"{names}: the air is too warm", sums, "cooler air")


def _liquid(room: Room, kind: NodeKind, names: str) -> Breaches:
    method = room.site.cooling.method if room.site else None
    if kind.server.cooling == "liquid" and method is None:
        yield not_checked("COOL-003", ("site", "cooling"), f"{names}: no cooling method is given")
    elif kind.server.cooling == "liquid" and method != "direct-liquid":
        sums = f"{kind.model} is cooled by liquid, the method of the site is {method}"
        hint = "choose the air-cooled model, or bring liquid to the racks"
        yield Breach("COOL-003", kind.loc(), f"{names}: no liquid at the racks", sums, hint)
    elif kind.server.cooling is None:
        yield not_checked("COOL-003", kind.loc(), f"{names}: not published how {kind.model} is cooled")
