"""Redfish against controllers that do each thing wrong that the table of quirks has, and worse."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hpcforge.power import https
from hpcforge.power.controller import Access, BmcError, Boot
from hpcforge.power.quirks import Quirk, quirks
from hpcforge.power.redfish import Redfish
from hpcforge.power.verbs import Done, Wish, carry_out
from tests.support.fake_bmc import PASSWORD, USER, FakeBmc, serving

# The table with waits that a test has time for.
SHORT = {name: row.model_copy(update={"wait_s": row.wait_s and 0.3, "every_s": 0.05}) for name, row in quirks().items()}


@contextmanager
def bmc(folder: Path, fake: FakeBmc, password: str = PASSWORD, pinned: str | None = "right") -> Iterator[Redfish]:
    with serving(folder, [fake]) as at:
        certificate = at.certificate if pinned == "right" else pinned
        yield Redfish(Access(at.addresses[0], USER, password, at.port, certificate), SHORT)


def done(controller: Redfish, wish: Wish, table: dict[str, Quirk] = SHORT) -> Done:
    return carry_out(controller, wish, table)


def test_power_goes_on_and_off_and_is_seen(tmp_path: Path) -> None:
    fake = FakeBmc()
    with bmc(tmp_path, fake) as machine:
        assert done(machine, Wish("status")).power == "off"
        assert done(machine, Wish("on")).power == "on"
        assert done(machine, Wish("on")).power == "on"
        assert done(machine, Wish("cycle")).power == "on"
        assert done(machine, Wish("off", hard=True)).power == "off"
    assert fake.resets == ["On", "GracefulShutdown", "On", "ForceOff"]  # nothing where it is so already


def test_a_machine_that_does_not_shut_down_is_named_and_not_forced(tmp_path: Path) -> None:
    fake = FakeBmc(on=True, shuts_down=False)
    with bmc(tmp_path, fake) as machine, pytest.raises(BmcError, match="is still on") as raised:
        done(machine, Wish("off", limit_s=0.2))
    assert fake.resets == ["GracefulShutdown"]
    assert "--hard" in raised.value.hint


@pytest.mark.parametrize("quirk", sorted(name for name, row in quirks().items() if row.protocol == "redfish"))
def test_each_quirk(tmp_path: Path, quirk: str) -> None:
    fake = FakeBmc(does=(quirk,))
    if quirk == "unavailable":
        fake.busy_until_s = time.monotonic() + 0.2
    with bmc(tmp_path, fake) as machine:
        if quirk == "refused-login":
            with pytest.raises(BmcError, match="refuses user admin"):
                done(machine, Wish("status"))
            assert len(fake.asked) == 1  # another try could lock the account
        else:
            booted = done(machine, Wish("boot-once"))
            assert booted.boot.device == "network"
            assert bool(booted.notes) == (quirk == "once-becomes-continuous")
            assert done(machine, Wish("on", limit_s=0.5)).power == "on"
            assert done(machine, Wish("boot-once", device="none")).boot == Boot("none", once=False)
        assert quirk in machine.quirks or quirk == "no-effect"
    if quirk == "no-effect":
        assert fake.resets == ["On", "On"]


def test_a_success_that_never_becomes_true_is_a_failure(tmp_path: Path) -> None:
    with bmc(tmp_path, FakeBmc(does=("never-any-effect",))) as machine:
        why = "answers with success, and is still off after 2 requests"
        with pytest.raises(BmcError, match=why):
            done(machine, Wish("on", limit_s=0.3))
    with bmc(tmp_path, FakeBmc(does=("forgets-the-override",))) as machine:
        why = "asked to boot from network, and reads none"
        with pytest.raises(BmcError, match=why):
            done(machine, Wish("boot-once"))


def test_503_for_longer_than_we_wait(tmp_path: Path) -> None:
    fake = FakeBmc(busy_until_s=time.monotonic() + 60)
    with bmc(tmp_path, fake) as machine, pytest.raises(BmcError, match="HTTP 503"):
        done(machine, Wish("status"))


@pytest.mark.parametrize(
    ("does", "why"),
    [
        ("answers-too-much", "more than 1048576 bytes"),
        ("answers-nonsense", "not JSON"),
        ("answers-too-deep", "not JSON"),
        ("breaks-off", "not an HTTP answer"),
        ("trickles", "no whole answer within 0.5 s"),
        ("sends-elsewhere", "outside its own service"),
    ],
)
def test_liars_fail_alone_and_in_time(tmp_path: Path, does: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(https, "EXCHANGE_S", 0.5)
    with bmc(tmp_path, FakeBmc(does=(does,))) as machine, pytest.raises(BmcError, match=why):
        done(machine, Wish("on"))


def test_the_password_goes_to_no_other_certificate(tmp_path: Path) -> None:
    fake = FakeBmc()
    for pinned, why in (("0" * 64, "another certificate"), (None, "not recorded")):
        with bmc(tmp_path, fake, pinned=pinned) as machine, pytest.raises(BmcError, match=why) as raised:
            done(machine, Wish("status"))
        assert raised.value.reason == "certificate"
    assert fake.asked == []


def test_any_certificate_will_do_where_the_site_says_so(tmp_path: Path) -> None:
    with serving(tmp_path, [FakeBmc()]) as at:
        access = Access(at.addresses[0], USER, PASSWORD, at.port, None, verified=False)
        assert Redfish(access, SHORT).power() == "off"
        assert https.certificate(access) == at.certificate
    assert PASSWORD not in repr(access)
    with pytest.raises(BmcError, match="no connection") as raised:
        Redfish(access, SHORT).power()
    assert raised.value.reason == "unreachable"
