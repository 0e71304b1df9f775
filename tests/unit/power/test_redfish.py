"""Redfish against controllers that do each thing wrong that the table of quirks has, and worse."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hpcforge.power import BmcError, Boot, Login, Quirk, quirks, redfish
from hpcforge.power.redfish import Redfish
from hpcforge.power.verbs import MachineState, Wish, carry_out
from tests.support.fake_bmc import PASSWORD, USER, FakeBmc, serving

# The table with waits that a test has time for.
SHORT = {name: row.model_copy(update={"wait_s": row.wait_s and 0.3, "every_s": 0.05}) for name, row in quirks().items()}


@contextmanager
def bmc(folder: Path, fake: FakeBmc, password: str = PASSWORD, pinned: str | None = "right") -> Iterator[Redfish]:
    with serving(folder, [fake]) as at:
        certificate = at.certificate if pinned == "right" else pinned
        yield Redfish(Login(at.addresses[0], USER, password, at.port, certificate), SHORT)


def done(controller: Redfish, wish: Wish, table: dict[str, Quirk] = SHORT) -> MachineState:
    return carry_out(controller, wish, table)


@pytest.mark.parametrize("quirk", sorted(name for name, row in quirks().items() if row.protocol == "redfish"))
def test_each_quirk(tmp_path: Path, quirk: str) -> None:
    fake = FakeBmc(does=(quirk,))
    if quirk == "unavailable":
        fake.busy_s = 0.2
    with bmc(tmp_path, fake) as machine:
        if quirk == "refused-login":
            with pytest.raises(BmcError, match="refuses user admin"):
                done(machine, Wish("status"))
            assert len(fake.logins) == 1  # another try could lock the account
        else:
            booted = done(machine, Wish("boot-once"))
            assert booted.boot.device == "network"
            assert bool(booted.notes) == (quirk == "once-becomes-continuous")
            assert done(machine, Wish("on", limit_s=0.5)).power == "on"
            assert done(machine, Wish("boot-once", device="none")).boot == Boot("none", once=False)
        assert quirk in machine.quirks or quirk == "no-effect"
    if quirk == "no-effect":
        assert fake.resets == ["On", "On"]


def test_503_for_longer_than_we_wait(tmp_path: Path) -> None:
    fake = FakeBmc(busy_s=60.0)
    with bmc(tmp_path, fake) as machine, pytest.raises(BmcError, match="HTTP 503"):
        done(machine, Wish("status"))


def test_a_search_among_systems_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redfish, "SYSTEMS_S", 0.0)
    fake = FakeBmc(does=("several-systems",))
    with bmc(tmp_path, fake) as machine, pytest.raises(BmcError, match="its 2 systems takes more than 0 s"):
        done(machine, Wish("status"))
