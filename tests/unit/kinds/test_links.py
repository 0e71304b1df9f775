"""Symbolic links in a plan."""

from __future__ import annotations

import pytest

from hpcforge.kinds.links import Link
from hpcforge.kinds.resource import ActualState


@pytest.mark.parametrize(
    ("state", "line"),
    [
        ({"exists": False, "target": None}, "+ link /bin/x -> /opt/x"),
        ({"exists": True, "target": None}, "~ link /bin/x -> /opt/x"),
        ({"exists": True, "target": "/old"}, "~ link /bin/x -> /opt/x  (to /old on the node)"),
    ],
)
def test_a_plan_says_where_a_link_leads_and_led(state: ActualState, line: str) -> None:
    assert Link("/bin/x", "/opt/x").line(state) == line
