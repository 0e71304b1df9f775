"""Mounts in a plan."""

from __future__ import annotations

import pytest

from hpcforge.kinds.mounts import Mount
from hpcforge.kinds.resource import ActualState

SCRATCH = {"path": "/srv/fast-scratch", "what": "tmpfs", "type": "tmpfs", "options": "size=1M,mode=1777"}


WAS = {word: SCRATCH[word] for word in ("what", "type", "options")}


@pytest.mark.parametrize(
    ("found", "line"),
    [
        ({"exists": False}, "+ mount tmpfs (tmpfs) at /srv/fast-scratch  size=1M,mode=1777"),
        ({"exists": False, **WAS}, "+ mount tmpfs (tmpfs) at /srv/fast-scratch  size=1M,mode=1777"),
        (
            {"exists": True, **WAS, "options": "size=1M,ro"},
            "~ mount tmpfs (tmpfs) at /srv/fast-scratch  -ro +mode=1777",
        ),
        (
            {"exists": True, **WAS, "what": "head:/fast", "type": "nfs", "options": "size=1M,mode=1777,ro"},
            "~ mount tmpfs (tmpfs) at /srv/fast-scratch  head:/fast (nfs) until now -ro",
        ),
    ],
)
def test_a_plan_says_what_is_mounted_and_what_of_it_is_new(found: ActualState, line: str) -> None:
    assert Mount(**SCRATCH).line(found) == line  # type: ignore[arg-type]
