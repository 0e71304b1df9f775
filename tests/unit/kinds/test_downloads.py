"""Downloads in a plan."""

from __future__ import annotations

import pytest

from hpcforge.kinds.downloads import Download
from hpcforge.kinds.resource import ActualState

DIGEST, OTHER = "ab" * 32, "cd" * 32
WHEEL = Download("/opt/wheel", "http://10.0.0.1/wheel", DIGEST, 1000, "0644")


@pytest.mark.parametrize(
    ("state", "line"),
    [
        ({"exists": False}, "+ download /opt/wheel  0644 (SHA-256 abababababab)"),
        ({"exists": True, "digest": OTHER, "mode": "0644"}, "~ download /opt/wheel  0644 (SHA-256 abababababab)"),
        ({"exists": True, "digest": DIGEST, "mode": "0600"}, "~ download /opt/wheel  0600 -> 0644 root:root"),
    ],
)
def test_a_plan_says_what_is_fetched_or_which_rights_change(state: ActualState, line: str) -> None:
    assert WHEEL.line(state) == line


@pytest.mark.parametrize(
    ("digest", "written", "drifted"),
    [
        (OTHER, OTHER, False),  # as hpcforge put it: another file is pinned now
        (OTHER, DIGEST, True),
        (None, DIGEST, True),
        (OTHER, None, False),
    ],
)
def test_a_download_drifts_when_others_change_it(digest: str | None, written: str | None, drifted: bool) -> None:
    state = {"exists": digest is not None, "digest": digest, "written": written}
    assert (WHEEL.drifted(state), WHEEL.input_changed(state)) == (drifted, not drifted)
