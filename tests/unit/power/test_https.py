"""Answers of controllers that lie, hang or are other ones: bounded, and no password for a wrong certificate."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.power import BmcError, Login, https
from hpcforge.power.redfish import Redfish
from hpcforge.power.verbs import Wish
from tests.support.fake_bmc import PASSWORD, USER, FakeBmc, serving
from tests.unit.power.test_redfish import SHORT, bmc, done


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
        access = Login(at.addresses[0], USER, PASSWORD, at.port, None, verified=False)
        assert Redfish(access, SHORT).power() == "off"
        assert https.certificate(access) == at.certificate
    assert PASSWORD not in repr(access)
    with pytest.raises(BmcError, match="no connection") as raised:
        Redfish(access, SHORT).power()
    assert raised.value.reason == "unreachable"
