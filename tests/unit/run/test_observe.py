"""Answers of nodes to `observe`."""

from hpcforge.engines.tasks import Event
from hpcforge.plan.observation import Observation
from hpcforge.run import observe


def test_the_warnings_of_a_node_are_kept():
    seen = Observation("w02")
    for text in ("package source /etc/apt/sources.list:1: no answer", "another"):
        seen = observe._taken(seen, Event("w02", "observe:w02", "warning", {"event": "warning", "detail": text}))
    assert seen.warnings == ("package source /etc/apt/sources.list:1: no answer", "another")
