"""Limits of breakers and feeds, and how PDUs hang on feeds."""

from __future__ import annotations

from math import sqrt

import pytest

from hpcforge.blueprint.sections.hardware import Pdu
from hpcforge.blueprint.sections.site import Feed
from hpcforge.design.facility import limits
from tests.unit.design.facility.designs import CASES, loaded

ROOM = loaded(CASES / "valid.yaml").placed.room
RACK = ROOM.racks["r1"]
WYE = Feed(volts=400, phases=3, limit_w=50_000)


@pytest.mark.parametrize(
    ("volts", "phases", "feed", "how"),
    [
        (400, 3, WYE, "all"),
        (415, 3, WYE, "all"),  # of one system
        (208, 3, WYE, None),
        (230, 1, WYE, "line-neutral"),
        (400, 1, WYE, "line-line"),
        (120, 1, WYE, None),
        (230, 1, Feed(volts=230, phases=1), "all"),
        (400, 3, Feed(volts=400, phases=1), None),
        (None, 3, WYE, None),
        (400, None, WYE, None),
    ],
)
def test_a_pdu_hangs_on_a_feed_by_voltage_and_phases(
    volts: float | None, phases: int | None, feed: Feed, how: str | None
) -> None:
    assert limits.fits(Pdu(volts=volts, phases=phases), feed) == how


def test_a_pdu_carries_its_breaker_after_derating() -> None:
    """40 A of three phases at 400 V, of which 0.8 may be used."""
    assert limits.pdu_w(ROOM, RACK, "A") == pytest.approx(0.8 * sqrt(3) * 400 * 40)
    assert limits.pdu_a(ROOM, RACK) == pytest.approx(32)
    assert limits.outlet_volts(ROOM, RACK, "A") == pytest.approx(400 / sqrt(3))
    assert limits.pdus_known(ROOM, RACK) and limits.ratings_known(ROOM, RACK)


@pytest.mark.parametrize(
    ("feed", "most_w"),
    [
        (Feed(volts=400, phases=3, limit_w=50_000), 40_000),
        (Feed(volts=230, phases=1, amps=16), 0.8 * 230 * 16),
        (Feed(volts=400, phases=3), None),
    ],
)
def test_a_feed_carries_its_limit_or_its_breaker(feed: Feed, most_w: float | None) -> None:
    limit = limits.feed_w(ROOM, feed)
    assert limit == (most_w and pytest.approx(most_w))
    amps = limits.feed_a(ROOM, feed)
    assert amps == (most_w and pytest.approx(most_w / feed.volts / (sqrt(3) if feed.phases == 3 else 1)))


def test_without_derating_a_limit_is_not_known_and_the_rating_is() -> None:
    assert ROOM.site is not None
    site = ROOM.site.model_copy(update={"power": ROOM.site.power.model_copy(update={"derating": None})})
    room = type(ROOM)(ROOM.blueprint.model_copy(update={"site": site}), ROOM.catalog, ROOM.kinds, ROOM.racks, {})
    assert (limits.pdu_w(room, RACK, "A"), limits.pdu_a(room, RACK), limits.feed_w(room, WYE)) == (None, None, None)
    assert limits.most_pdu_w(room, RACK, "A") == pytest.approx(sqrt(3) * 400 * 40)
    assert limits.most_feed_w(room, WYE) == 50_000
    assert not limits.pdus_known(room, RACK) and limits.ratings_known(room, RACK)


def test_feeds_have_their_share_of_each_racks_pdus() -> None:
    assert [(feed.name, feed.limit_w, feed.shares) for feed in limits.power_feeds(ROOM)] == [
        (name, 40_000, {"r1": 0.5, "r2": 0.5}) for name in ("A", "B")
    ]
