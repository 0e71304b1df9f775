"""Power feeds as roles see them. Pure."""

from __future__ import annotations

from hpcforge.cluster.model import PowerFeed
from hpcforge.facility import limits
from hpcforge.facility.room import Room


def power_feeds(room: Room) -> tuple[PowerFeed, ...]:
    """Each feed with its limit and, by rack, the part of the rack's PDUs that hang on it."""
    return tuple(
        PowerFeed(
            name,
            limits.feed_w(room, feed),
            {
                rack.name: rack.spec.feeds.count(name) / len(rack.spec.feeds)
                for rack in room.racks.values()
                if name in rack.spec.feeds
            },
        )
        for name, feed in room.feeds.items()
    )
