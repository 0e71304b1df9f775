"""The limits of breakers, and their text. Pure."""

from __future__ import annotations

from math import isclose, sqrt

from hpcforge.blueprint.sections.hardware import Pdu
from hpcforge.blueprint.sections.site import Feed
from hpcforge.design.facility import units
from hpcforge.design.facility.design import PowerFeed
from hpcforge.design.facility.room import Rack, Room

_TOLERANCE = 0.05  # nominal voltages of one system are spelled 400, 415 or 208, 200


def pdu_volts(room: Room, rack: Rack, feed: str) -> float | None:
    """Return the voltage at a rack's PDU on a feed, V: the feed's, whatever the PDU is made for; None: not known.

    Line to line for three phases; for a PDU of one phase, that between its two connections. None also if the PDU does
    not fit the feed.
    """
    how = hangs(rack, room.feeds[feed])
    if how is None:
        return None
    return room.feeds[feed].volts / (sqrt(3) if how == "line-neutral" else 1)


def pdu_w(room: Room, rack: Rack, feed: str) -> float | None:
    """Return the continuous power of a rack's PDU on a feed, W; None if it is not known."""
    return None if room.derating is None else most_pdu_w(room, rack, feed)


def most_pdu_w(room: Room, rack: Rack, feed: str) -> float | None:
    """Return the same, but its rating where no derating is given."""
    pdu, volts = rack.pdu, pdu_volts(room, rack, feed)
    if pdu is None or volts is None or pdu.amps is None or pdu.phases is None:
        return None
    return units.breaker_w(volts, pdu.amps, pdu.phases, room.most_derating)


def pdu_terms(room: Room, rack: Rack, feed: str) -> str:
    """Return the terms of `most_pdu_w`."""
    pdu, volts = rack.pdu, pdu_volts(room, rack, feed)
    if pdu is None or volts is None or pdu.amps is None or pdu.phases is None:
        return "not known"
    return units.breaker_terms(volts, pdu.amps, pdu.phases, room.most_derating)


def pdus_known(room: Room, rack: Rack) -> bool:
    """Tell whether the capacity of each of a rack's PDUs is known."""
    return all(pdu_w(room, rack, feed) is not None for feed in rack.spec.feeds)


def ratings_known(room: Room, rack: Rack) -> bool:
    """Tell whether the rating of each of a rack's PDUs is known."""
    return all(most_pdu_w(room, rack, feed) is not None for feed in rack.spec.feeds)


def pdu_a(room: Room, rack: Rack) -> float | None:
    """Return the continuous current of each line of a PDU, A; None if it is not known."""
    return None if room.derating is None else most_pdu_a(room, rack)


def most_pdu_a(room: Room, rack: Rack) -> float | None:
    """Return the same, but its rating where no derating is given."""
    return None if rack.pdu is None or rack.pdu.amps is None else rack.pdu.amps * room.most_derating


def feed_w(room: Room, feed: Feed) -> float | None:
    """Return the continuous power of a feed, W: its limit or its breaker, after derating."""
    return None if room.derating is None else most_feed_w(room, feed)


def most_feed_w(room: Room, feed: Feed) -> float | None:
    """Return the same, but its limit or its breaker's rating where no derating is given."""
    if feed.limit_w is not None:
        return feed.limit_w * room.most_derating
    return units.breaker_w(feed.volts, feed.amps, feed.phases, room.most_derating) if feed.amps is not None else None


def feed_terms(room: Room, feed: Feed) -> str:
    """Return the terms of `most_feed_w`."""
    if feed.limit_w is not None:
        return f"{room.most_derating:g} x {units.kw(feed.limit_w)}"
    return units.breaker_terms(feed.volts, feed.amps or 0.0, feed.phases, room.most_derating)


def feed_a(room: Room, feed: Feed) -> float | None:
    """Return the continuous current of each line of a feed, A."""
    limit = feed_w(room, feed)
    return None if limit is None else limit / (feed.volts * (sqrt(3) if feed.phases == 3 else 1))


def outlet_volts(room: Room, rack: Rack, feed: str) -> float | None:
    """Return the voltage at the outlets of a rack's PDU on a feed, V."""
    pdu, volts = rack.pdu, pdu_volts(room, rack, feed)
    if pdu is None or volts is None or (pdu.phases == 3 and pdu.wiring is None):
        return None
    return volts / sqrt(3) if pdu.phases == 3 and pdu.wiring == "wye" else volts


def hangs(rack: Rack, feed: Feed) -> str | None:
    """Return how a rack's PDUs connect to a feed: all phases, line and neutral, or two lines; None: no fit."""
    return None if rack.pdu is None else fits(rack.pdu, feed)


def fits(pdu: Pdu, feed: Feed) -> str | None:
    """Return how a model of PDU connects to a feed: all, line-neutral or line-line; None: unknown, or no fit."""
    if pdu.volts is None or pdu.phases is None:
        return None
    if pdu.phases == feed.phases and isclose(pdu.volts, feed.volts, rel_tol=_TOLERANCE):
        return "all"
    if pdu.phases == 1 and feed.phases == 3:
        if isclose(pdu.volts, feed.volts / sqrt(3), rel_tol=_TOLERANCE):
            return "line-neutral"
        if isclose(pdu.volts, feed.volts, rel_tol=_TOLERANCE):
            return "line-line"
    return None


def power_feeds(room: Room) -> tuple[PowerFeed, ...]:
    """Return each feed with its limit and, by rack, the part of the rack's PDUs on it."""
    return tuple(
        PowerFeed(
            name,
            feed_w(room, feed),
            {
                rack.name: rack.spec.feeds.count(name) / len(rack.spec.feeds)
                for rack in room.racks.values()
                if name in rack.spec.feeds
            },
        )
        for name, feed in room.feeds.items()
    )
