"""The table of what controllers do wrong: each row says all of it, and has a fake that does it."""

from __future__ import annotations

from pathlib import Path

from hpcforge.metal.bmc import quirks
from tests.support.bmc_of_make import OF_MAKES

SUPPORT = Path(__file__).parents[3] / "support"
SHOWN_OTHERWISE = {
    "unavailable": "busy_s",
    **dict.fromkeys(OF_MAKES, "FakeBmc"),
}  # it ends after a while; test_makes.py


def test_each_quirk_has_a_fake_controller() -> None:
    fakes = (SUPPORT / "fake_bmc.py").read_text()
    for name, row in quirks().items():
        assert row.seen and row.then and row.source
        if row.protocol == "redfish":
            assert SHOWN_OTHERWISE.get(name, f'"{name}"') in fakes or name == "once-becomes-continuous"


def test_waits_are_of_those_that_wait() -> None:
    assert {name for name, row in quirks().items() if row.wait_s} == {
        "unavailable",
        "no-effect",
        "refused-in-post",
        "late-override",
    }
