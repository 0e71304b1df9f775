"""Rules about the power of racks: PDUs, phases, outlets, and the loss of a feed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from hpcforge.blueprint.hostlist import fold
from hpcforge.blueprint.sections.hardware import Outlet
from hpcforge.design.facility import limits
from hpcforge.design.facility.layout import Filling, Item
from hpcforge.design.facility.loads import LoadedRack, Loads, rack_load
from hpcforge.design.facility.rack_rules import fold_racks, power_terms
from hpcforge.design.facility.room import Rack, Room
from hpcforge.design.facility.rules import Breach, not_checked
from hpcforge.design.facility.units import amperes, apart, kw, line_amps

Breaches = Iterator[Breach]
_SLACK = 1e-9  # of rounding in sums of equal shares


def power_breaches(room: Room, loaded: Iterable[LoadedRack]) -> Breaches:
    """Yield the breaches of racks and their PDUs."""
    loaded = tuple(loaded)
    yield from _feeds(room, [loaded_rack.rack for loaded_rack in loaded])
    yield from fold_racks(room, loaded, (_fits, _pdu, _survives, _supplies, _rack, _outlets, _volts, _balance))


def above(value: float, limit: float) -> bool:
    """Tell whether a sum of equal shares is above a limit."""
    return value > limit * (1 + _SLACK)


def in_watts(load: float, limit: float) -> str | None:
    """Return the hint for a limit in kilowatts; None for one that may be in watts."""
    kilo = 1000
    return f"did you mean {limit * kilo:.0f}? It is in watts" if limit < kilo and load <= 2 * limit * kilo else None


def too_much(value: float, limit: float) -> str:
    """Return the excess: `4.0 kW (11 %) too much`."""
    part = f" ({(value - limit) / limit:.0%})" if limit else ""
    return f"{kw(value - limit)}{part.replace('%', ' %')} too much"


def _is_odd(name: str, room: Room, racks: Iterable[Rack]) -> bool:
    """Tell whether a feed differs: no PDU on it fits, several racks have one, and all other feeds fit them."""
    on_it = [rack for rack in racks if name in rack.spec.feeds and rack.pdu and rack.pdu.volts and rack.pdu.phases]
    others = {rack.name: [feed for feed in rack.spec.feeds if feed != name] for rack in on_it}
    return len(on_it) > 1 and all(
        limits.hangs(rack, room.feeds[name]) is None
        and others[rack.name]
        and all(limits.hangs(rack, room.feeds[other_feed]) for other_feed in others[rack.name])
        for rack in on_it
    )


def _feeds(room: Room, racks: Sequence[Rack]) -> Breaches:
    """Report feeds without a fitting PDU once, and not at each rack."""
    for name, feed in room.feeds.items():
        if _is_odd(name, room, racks):
            on_it = [rack for rack in racks if name in rack.spec.feeds]
            peer = next(feed_name for feed_name in on_it[0].spec.feeds if feed_name != name)
            like = room.feeds[peer]
            sums = f"{feed.volts:g} V, phases: {feed.phases}, where feed {peer} has {like.volts:g} V, {like.phases}"
            key = "volts" if feed.phases == like.phases else "phases"
            message = f"no PDU on feed {name} fits it: those of racks {fold([rack.name for rack in on_it])}"
            hint = f"as feed {peer}, `{key}: {getattr(like, key):g}`; or other PDUs"
            yield Breach("POWER-014", ("site", "feeds", name, key), message, sums, hint)


def _fits(room: Room, loaded_rack: LoadedRack) -> Breaches:
    rack, pdu = loaded_rack.rack, loaded_rack.rack.pdu
    if pdu is None or pdu.volts is None or pdu.phases is None:
        return
    for index, name in enumerate(rack.spec.feeds):
        feed = room.feeds[name]
        if limits.hangs(rack, feed) is None and not _is_odd(name, room, room.racks.values()):
            sums = f"{pdu.volts:g} V, phases: {pdu.phases}, but the feed has {feed.volts:g} V, phases: {feed.phases}"
            loc = (*rack.loc, "feeds", index)
            fitting = [model for model, candidate in room.catalog.pdus.items() if limits.fits(candidate, feed)]
            hint = f"a PDU that fits: {', '.join(fitting)}" if fitting else "a PDU for this voltage, under `parts.pdus`"
            yield Breach("POWER-014", loc, f"RACKS: {rack.spec.pdu} does not fit feed {name}", sums, hint)


def _misfits(room: Room, rack: Rack) -> bool:
    """Tell whether a PDU of a rack does not fit its feed: other rules then skip it."""
    is_known = rack.pdu is not None and rack.pdu.volts is not None and rack.pdu.phases is not None
    return is_known and any(limits.hangs(rack, room.feeds[feed]) is None for feed in rack.spec.feeds)


def _all_feeds(room: Room, loaded_rack: LoadedRack) -> Breaches:
    """Check PDUs and their phases with all feeds."""
    rack, feeds = loaded_rack.rack, loaded_rack.rack.spec.feeds
    if not feeds or _misfits(room, rack):
        return
    loc = (*rack.loc, "pdu")
    if not limits.ratings_known(room, rack):
        yield not_checked("POWER-001", loc, f"RACKS: no published rating of {rack.spec.pdu}")
        return
    bounds = [limits.most_pdu_w(room, rack, feed) or 0.0 for feed in feeds]
    heaviest = max(range(len(feeds)), key=lambda pdu: loaded_rack.load.pdu_w[pdu] / bounds[pdu])
    load, limit = loaded_rack.load.pdu_w[heaviest], bounds[heaviest]
    if above(load, limit):
        load_kw, most = apart(kw, load, limit)
        sums = f"{load_kw} > {most} = {limits.pdu_terms(room, rack, feeds[heaviest])}: {too_much(load, limit)}"
        message = f"RACKS: the PDU on feed {feeds[heaviest]} is overloaded"
        yield Breach("POWER-001", loc, message, sums, "larger PDUs, more PDUs, or fewer nodes in the rack")
    elif (phase := _overloaded(room, loaded_rack, loaded_rack.load.phases)) is not None:
        message = f"RACKS: a phase of the PDU on feed {feeds[phase[0]]} is overloaded"
        terms = _phase_terms(room, loaded_rack, *phase[1:])
        yield Breach("POWER-002", loc, message, terms, "larger PDUs, or another number of nodes in the rack")
    elif room.derating is None:
        missing = "RACKS: the derating of breakers is not set"
        yield not_checked("POWER-001", loc, missing, "derating under site.power: 0.8 under NEC")
    elif rack.pdu and rack.pdu.phases == 3 and rack.pdu.wiring is None:
        yield not_checked("POWER-002", loc, f"RACKS: no published wiring of {rack.spec.pdu}")


def _overloaded(room: Room, loaded_rack: LoadedRack, loads: Loads) -> tuple[int, int, float] | None:
    """Return the phase of a PDU that is farthest above its current: PDU, phase, A."""
    limit = limits.most_pdu_a(room, loaded_rack.rack)
    overloads = [
        (amps, pdu, line) for pdu, line, amps in pdu_amps(room, loaded_rack, loads) if limit and above(amps, limit)
    ]
    if not overloads:
        return None
    amps, pdu, line = max(overloads)
    return pdu, line, amps


def pdu_amps(room: Room, loaded_rack: LoadedRack, loads: Loads) -> Iterator[tuple[int, int, float]]:
    """Yield PDU, line and current, A, if the loads of phases are known."""
    pdu = loaded_rack.rack.pdu
    if pdu is None or (pdu.phases == 3 and pdu.wiring is None):
        return
    for index, (feed, phases) in enumerate(zip(loaded_rack.rack.spec.feeds, loads, strict=True)):
        volts = limits.pdu_volts(room, loaded_rack.rack, feed)
        for line, amps in enumerate(line_amps(phases, volts, pdu.wiring) if volts else ()):
            yield index, line, amps


def _phase_terms(room: Room, loaded_rack: LoadedRack, line: int, amps: float) -> str:
    limit = limits.most_pdu_a(room, loaded_rack.rack) or 0.0
    load_kw, most = apart(amperes, amps, limit)
    rated = loaded_rack.rack.pdu.amps if loaded_rack.rack.pdu and loaded_rack.rack.pdu.amps else 0.0
    over = amperes(amps - limit, 2)
    return f"L{line + 1} {load_kw} > {most} = {room.most_derating:g} x {rated:g} A: {over} too much"


def _one_feed_lost(room: Room, loaded_rack: LoadedRack) -> Breaches:
    rack = loaded_rack.rack
    if not surviving(room) or not rack.spec.feeds or not limits.ratings_known(room, rack):
        return
    loss = worst_loss(room, loaded_rack)
    if loss is None:
        return
    lost, sums = loss
    message = f"RACKS: PDUs do not carry the rack when feed {lost} is lost"
    hint = "one more feed, larger PDUs, or fewer nodes in the rack"
    yield Breach("POWER-003", (*rack.loc, "feeds"), message, sums, hint)


def carries(room: Room, rack: Rack, items: Iterable[Item]) -> bool:
    """Tell whether PDUs, their phases and outlets carry these items, by the known facts."""
    present = tuple(items)
    loaded_rack = LoadedRack(rack, present, rack_load(rack, present))
    rules = (_all_feeds, _one_feed_lost, _outlets)
    return all(breach.judged != "error" for rule in rules for breach in rule(room, loaded_rack))


def _pdu(room: Room, loaded_rack: LoadedRack) -> Breaches:
    yield from _with_order(room, loaded_rack, _all_feeds(room, loaded_rack))


def _survives(room: Room, loaded_rack: LoadedRack) -> Breaches:
    yield from _with_order(room, loaded_rack, _one_feed_lost(room, loaded_rack))


def _with_order(room: Room, loaded_rack: LoadedRack, breaches: Breaches) -> Breaches:
    """Return as hint another order of the rack's nodes, if one is enough."""
    for breach in breaches:
        order = better_order(room, loaded_rack) if breach.code in ("POWER-002", "POWER-003") else None
        yield replace(breach, hint=order) if order else breach


def better_order(room: Room, loaded_rack: LoadedRack) -> str | None:
    """Return a hint to exchange two nodes or move one, so that PDUs carry a rack; None if neither is enough."""
    rack, items = loaded_rack.rack, loaded_rack.items
    nodes = [index for index, item in enumerate(items) if item.kind == "node"]
    for first, second in combinations(nodes, 2):
        upper, lower = items[first], items[second]
        if upper.height == lower.height and upper.node is not lower.node:
            changed = {first: replace(upper, u=lower.u), second: replace(lower, u=upper.u)}
            if carries(room, rack, (changed.get(index, item) for index, item in enumerate(items))):
                return f"another order of nodes: exchange those at units {upper.u} and {lower.u}"
    filling = Filling(rack)
    for item in items:
        filling.put(item)
    for index in nodes:
        for u in filling.gaps(items[index].height):
            moved = replace(items[index], u=u)
            if carries(room, rack, (*items[:index], moved, *items[index + 1 :])):
                return f"another order of nodes: move the one at unit {items[index].u} to unit {u}"
    return None


def surviving(room: Room) -> bool:
    """Tell whether the site must survive the loss of any one feed."""
    return room.site is not None and room.site.power.survive == "any-one-feed"


def worst_loss(room: Room, loaded_rack: LoadedRack) -> tuple[str, str] | None:
    """Return the loss of a feed that a rack's PDUs do not carry, and the arithmetic; None: they carry every loss."""
    rack, feeds, losses = loaded_rack.rack, loaded_rack.rack.spec.feeds, []
    bounds = [limits.most_pdu_w(room, rack, feed) or 0.0 for feed in feeds]
    for lost, loads in loaded_rack.load.lost.items():
        remaining = [index for index, feed in enumerate(feeds) if feed != lost]
        capacity_w = sum(bounds[index] for index in remaining)
        carried = sum(map(sum, loads))
        fullest = max(remaining, key=lambda index: sum(loads[index]) / bounds[index], default=None)
        if remaining and above(carried, capacity_w):
            load_kw, bound = apart(kw, carried, capacity_w)
            prefix = f"{power_terms(loaded_rack)} = " if not above(loaded_rack.load.power_w, carried) else ""
            terms = _remaining_terms(room, rack, lost)
            sums = f"{prefix}{load_kw} on RACKS > {bound} = {terms}: {too_much(carried, capacity_w)}"
            losses.append((carried - capacity_w, lost, sums))
        elif fullest is not None and above(most := sum(loads[fullest]), bounds[fullest]):
            load_kw, bound = apart(kw, most, bounds[fullest])
            terms = limits.pdu_terms(room, rack, feeds[fullest])
            sums = f"{load_kw} on one PDU > {bound} = {terms}: {too_much(most, bounds[fullest])}"
            losses.append((most - bounds[fullest], lost, sums))
        elif phase := _overloaded(room, loaded_rack, loads):
            losses.append((0.0, lost, _phase_terms(room, loaded_rack, *phase[1:])))
    worst = max(losses, key=lambda entry: entry[0], default=None)
    return (worst[1], worst[2]) if worst else None


def _remaining_terms(room: Room, rack: Rack, lost: str) -> str:
    """Return `2 feeds x 0.8 x ...`, or `4 PDUs on 2 feeds x 0.8 x ...`; one term for each voltage of feeds."""
    feeds_by_terms: dict[str, list[str]] = {}
    for feed in rack.spec.feeds:
        if feed != lost:
            feeds_by_terms.setdefault(limits.pdu_terms(room, rack, feed), []).append(feed)
    return " + ".join(f"{_pdus_on(feeds)} x {terms}" for terms, feeds in feeds_by_terms.items())


def _pdus_on(feeds: list[str]) -> str:
    count = f"{len(set(feeds))} feed{'s' * (len(set(feeds)) != 1)}"
    return count if len(feeds) == len(set(feeds)) else f"{len(feeds)} PDUs on {count}"


def _supplies(room: Room, loaded_rack: LoadedRack) -> Breaches:
    """Check the remaining supplies of machines when a feed is lost."""
    if not surviving(room) or not loaded_rack.rack.spec.feeds:
        return
    loc = (*loaded_rack.rack.loc, "feeds")
    feeds = ", ".join(dict.fromkeys(loaded_rack.rack.spec.feeds))
    entries = {
        (loaded_rack.items[entry.index].load.label, entry.feed, entry.left, entry.needed): entry
        for entry in loaded_rack.load.stranded
    }
    for (label, lost, remaining, needed), entry in entries.items():
        sums = f"{remaining} of {entry.count} supplies on other feeds than {lost} < {needed} needed; feeds {feeds}"
        message = f"RACKS: {label} does not survive the loss of feed {lost}"
        yield Breach("POWER-004", loc, message, sums, "spread its supplies over more feeds")
    for label in loaded_rack.load.supplies_unknown:
        yield not_checked("POWER-004", loc, f"no published supplies (count, needed) of {label}")


def _rack(_: Room, loaded_rack: LoadedRack) -> Breaches:
    limit, load = loaded_rack.rack.spec.limit_w, loaded_rack.load.power_w
    loc = (*loaded_rack.rack.loc, "limit_w")
    if limit is not None and above(load, limit):
        load_kw, most = apart(kw, load, limit)
        sums = f"{power_terms(loaded_rack)} = {load_kw} > {most}: {too_much(load, limit)}"
        hint = in_watts(load, limit) or "fewer nodes in the rack"
        yield Breach("POWER-007", loc, "RACKS: above the rack's power limit", sums, hint)
    elif limit is None and loaded_rack.items:
        yield not_checked("POWER-007", loaded_rack.rack.loc, "RACKS: limit_w is not set")


_PLUGS: dict[str, tuple[Outlet, ...]] = {
    "c14": ("c13", "c15", "c13-c19"),
    "c16": ("c15",),
    "c20": ("c19", "c13-c19"),
    "c22": ("c21",),
}


def _outlets(_: Room, loaded_rack: LoadedRack) -> Breaches:
    rack = loaded_rack.rack
    if rack.pdu is None or not rack.spec.feeds or not loaded_rack.items:
        return
    loc = (*rack.loc, "pdu")
    if rack.pdu.outlets is None:
        yield not_checked("POWER-008", loc, f"no published outlets of {rack.spec.pdu}")
        return
    for index, inlets in enumerate(loaded_rack.load.inlets):
        lacking = outlets_lacking(inlets, rack.pdu.outlets)
        if lacking:
            available = ", ".join(f"{count} {kind}" for kind, count in rack.pdu.outlets.items())
            sums = " and ".join(f"{inlets[kind]} {kind} inlets" for kind in lacking) + f" on {available}"
            message = f"RACKS: too few outlets on the PDU on feed {rack.spec.feeds[index]}"
            yield Breach("POWER-008", loc, message, sums, "a PDU with other outlets, or more PDUs")
            break
    for label in loaded_rack.load.inlets_unknown:
        yield not_checked("POWER-008", loc, f"no published inlets of {label}")


def outlets_lacking(inlets: Mapping[str, int], outlets: Mapping[Outlet, int]) -> tuple[str, ...]:
    """Return the kinds of inlet without an outlet; those with the fewest choices are plugged first."""
    free = dict(outlets)
    lacking = []
    for inlet, count in sorted(inlets.items(), key=lambda entry: len(_PLUGS.get(entry[0], ()))):
        unplugged = count
        for outlet in _PLUGS.get(inlet, ()):
            used = min(unplugged, free.get(outlet, 0))
            free[outlet] = free.get(outlet, 0) - used
            unplugged -= used
        if unplugged:
            lacking.append(inlet)
    return tuple(lacking)


def _volts(room: Room, loaded_rack: LoadedRack) -> Breaches:
    rack = loaded_rack.rack
    at = {feed: limits.outlet_volts(room, rack, feed) for feed in rack.spec.feeds}
    supplies = {item.load.label: item.load.psu for item in loaded_rack.items}
    for volts, feed in {volts: feed for feed, volts in reversed(at.items()) if volts is not None}.items():
        for label, psu in supplies.items():
            if psu is None or psu.volts_min is None or psu.volts_max is None:
                continue
            if not psu.volts_min <= round(volts) <= psu.volts_max:
                feed_volts = room.feeds[feed].volts
                root = f" = {feed_volts:g} V / sqrt(3)" if volts < feed_volts else ""
                sums = f"{volts:.0f} V{root} is outside {psu.volts_min:g} to {psu.volts_max:g} V"
                message = f"RACKS: the supplies of {label} do not take the voltage of {rack.spec.pdu} on feed {feed}"
                yield Breach("POWER-009", (*rack.loc, "pdu"), message, sums, "a PDU of another voltage or wiring")


def _balance(room: Room, loaded_rack: LoadedRack) -> Breaches:
    allowed = room.site.power.phase_imbalance if room.site else None
    if allowed is None or not loaded_rack.rack.spec.feeds:
        return
    worst = (0.0, 0, "")
    for index, phases in enumerate(loaded_rack.load.phases):
        mean = sum(phases) / len(phases)
        off = max((abs(load - mean) / mean for load in phases), default=0.0) if mean else 0.0
        worst = max(worst, (off, index, ", ".join(kw(load) for load in phases)))
    off, index, loads = worst
    if above(off, allowed):
        sums = f"{loads}: {off:.0%} from their mean > {allowed:.0%}".replace("%", " %")
        message = f"RACKS: the phases of the PDU on feed {loaded_rack.rack.spec.feeds[index]} are not balanced"
        loc = ("site", "power", "phase_imbalance")
        yield Breach("POWER-010", loc, message, sums, "move plugs to other outlets")
