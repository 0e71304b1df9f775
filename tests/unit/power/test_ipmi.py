"""IPMI by ipmitool, against Debian's ipmi_sim."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcforge.power import BmcError, Boot, Login, quirks
from hpcforge.power.ipmi import Ipmi
from hpcforge.power.verbs import Wish, carry_out
from tests.support.fake_ipmi import PASSWORD, USER, serving

SHORT = {name: row.model_copy(update={"wait_s": row.wait_s and 0.3, "every_s": 0.1}) for name, row in quirks().items()}
ACCESS = Login("127.78.0.1", USER, PASSWORD, 21600, cipher_suite=3)


def test_power_and_boot(tmp_path: Path) -> None:
    with serving(tmp_path) as machine:
        bmc = Ipmi(ACCESS)
        assert carry_out(bmc, Wish("status")).power == "off"
        assert carry_out(bmc, Wish("on"), SHORT).power == "on"
        assert (machine / "power").read_text() == "1\n"
        assert carry_out(bmc, Wish("boot-once")).boot == Boot("network", once=True)
        assert "boot-flag-invalid" in bmc.quirks
        assert carry_out(bmc, Wish("boot-once", device="none")).boot == Boot("none", once=False)
        assert carry_out(bmc, Wish("off"), SHORT).power == "off"
        (machine / "dead").touch()
        with pytest.raises(BmcError, match="still off after 2 requests"):
            carry_out(bmc, Wish("on", limit_s=0.3), SHORT)


def test_a_wrong_password_is_an_error(tmp_path: Path) -> None:
    with serving(tmp_path), pytest.raises(BmcError, match="ipmitool: "):
        Ipmi(Login("127.78.0.1", USER, "wrong", 21600, cipher_suite=3)).power()


def test_the_password_is_in_no_argument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "ipmitool"
    fake.write_text('#!/bin/sh\necho "$@" > "$(dirname "$0")/words"\necho "Chassis Power is on $IPMITOOL_PASSWORD"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert PASSWORD in Ipmi(ACCESS)._ask("chassis", "power", "status")
    assert PASSWORD not in (tmp_path / "words").read_text()


def test_without_ipmitool_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BmcError) as raised:
        Ipmi(ACCESS).power()
    assert "apt-get install ipmitool" in raised.value.hint
