"""Parameters of the kernel in a plan."""

from __future__ import annotations

import pytest

from hpcforge.kinds.resource import ActualState
from hpcforge.kinds.sysctls import Sysctl


@pytest.mark.parametrize(
    ("state", "line"),
    [
        ({"exists": True, "value": "0"}, "~ sysctl vm.swappiness = 10  (0 on the node)"),
        ({"exists": True, "value": "10"}, "~ sysctl vm.swappiness = 10  (until the node restarts)"),
        ({"exists": False, "value": None}, "~ sysctl vm.swappiness = 10"),
    ],
)
def test_a_plan_says_which_value_a_node_has_now_or_would_lose(state: ActualState, line: str) -> None:
    assert Sysctl("vm.swappiness", "10").line(state) == line
