"""The table of what controllers do wrong: each row says all of it, and has a fake that does it."""

from __future__ import annotations

from pathlib import Path

from hpcforge.power import quirks

SUPPORT = Path(__file__).parents[2] / "support"
SHOWN_OTHERWISE = {"unavailable": "busy_s"}  # it ends after a while


def test_each_quirk_has_a_fake_controller() -> None:
    fakes = (SUPPORT / "fake_bmc.py").read_text()
    for name, row in quirks().items():
        assert row.seen and row.then and row.source
        if row.protocol == "redfish":
            assert SHOWN_OTHERWISE.get(name, f'"{name}"') in fakes or name == "once-becomes-continuous"


def test_waits_are_of_those_that_wait() -> None:
    assert {name for name, row in quirks().items() if row.wait_s} == {"unavailable", "no-effect"}
