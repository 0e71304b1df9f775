"""IPMI by ipmitool, against Debian's ipmi_sim."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcforge.metal.bmc import BmcError, Boot, Login
from hpcforge.metal.bmc.ipmi import Ipmi
from hpcforge.metal.bmc.quirk_table import quirks
from hpcforge.metal.bmc.verbs import Wish, carry_out
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


def _recorded(folder: Path, monkeypatch: pytest.MonkeyPatch, refuses: str = "nothing") -> Path:
    """Put an ipmitool first that writes its words down, and fails on those that have `refuses`."""
    fake = folder / "ipmitool"
    fake.write_text(
        f'#!/bin/sh\ncase "$*" in *"{refuses}"*) echo refused >&2; exit 1 ;; esac\necho "$@" >> {folder}/words\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder / "words"


def test_an_override_lasts_until_a_turn_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags that end after 60 s are gone when a node that waits for its turn is switched on."""
    words = _recorded(tmp_path, monkeypatch)
    Ipmi(ACCESS).set_boot("network")
    assert [line.partition(" -E ")[2] for line in words.read_text().splitlines()] == [
        "raw 0x00 0x08 0x03 0x08",
        "chassis bootdev pxe",
    ]
    words.unlink()
    Ipmi(ACCESS).set_boot("none")
    assert words.read_text().endswith("-E chassis bootdev none\n") and words.read_text().count("\n") == 1


def test_a_controller_that_ends_its_flags_is_named_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = _recorded(tmp_path, monkeypatch, refuses="0x03 0x08")
    bmc = Ipmi(ACCESS)
    bmc.set_boot("network")
    assert words.read_text().endswith("-E chassis bootdev pxe\n")
    assert list(bmc.quirks) == ["boot-flags-expire"]


def test_uefi_boots_by_flags_for_one_boot(tmp_path: Path) -> None:
    with serving(tmp_path):
        bmc = Ipmi(ACCESS, uefi=True)
        assert carry_out(bmc, Wish("boot-once")).boot == Boot("network", once=True)
        assert carry_out(bmc, Wish("boot-once", device="disk")).boot == Boot("disk", once=True)
        assert carry_out(bmc, Wish("boot-once", device="none")).boot == Boot("none", once=False)


def test_uefi_is_in_what_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = _recorded(tmp_path, monkeypatch)
    Ipmi(ACCESS, uefi=True).set_boot("network")
    assert words.read_text().splitlines()[1].endswith("raw 0x00 0x08 0x05 0xa0 0x04 0x00 0x00 0x00")
