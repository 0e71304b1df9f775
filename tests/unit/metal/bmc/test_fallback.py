"""Boot overrides by ipmitool where a make's Redfish takes none, against a Redfish fake and ipmi_sim at one address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcforge.metal.bmc import BmcError, Boot, Login
from hpcforge.metal.bmc.fallback import RedfishOrIpmi
from hpcforge.metal.bmc.makes import Action, Traits
from hpcforge.metal.bmc.quirk_table import quirks
from hpcforge.metal.bmc.redfish import Redfish
from hpcforge.metal.bmc.verbs import Wish, carry_out
from tests.support import fake_bmc, fake_ipmi
from tests.support.bmc_of_make import BmcOfMake

SHORT = {name: row.model_copy(update={"wait_s": row.wait_s and 1.0, "every_s": 0.02}) for name, row in quirks().items()}
KNOWN = Traits("HPE", "", "HPE", "ProLiant DL380a Gen11", "iLO 6", "iLO 6 v1.58")
OTHER = Traits("HPE", "", "HPE", "ProLiant DL360 Gen11", "iLO 6", "iLO 6 v1.58")
_PORT = 21600


@dataclass
class Both:
    """A controller with both protocols; `ipmi` is the folder of its IPMI side."""

    redfish: BmcOfMake
    ipmi: Path
    login: Login

    def controller(self) -> RedfishOrIpmi:
        """What a run has of it."""
        return RedfishOrIpmi(self.login, SHORT, _PORT)

    def next_boot(self) -> str:
        """What its IPMI side boots from next."""
        return (self.ipmi / "boot").read_text().strip()


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Both:
    monkeypatch.setattr(fake_bmc, "PASSWORD", fake_ipmi.PASSWORD)  # of both protocols
    return Both(BmcOfMake(traits=KNOWN, needs=frozenset({"ipmi"})), tmp_path / "ipmi", Login("", "", ""))


@contextmanager
def serving(both: Both, folder: Path, *, ipmi: bool = True) -> Iterator[Both]:
    both.ipmi.mkdir()
    with fake_bmc.serving(folder, [both.redfish], "127.77.9") as at:
        both.login = Login(at.addresses[0], "admin", fake_ipmi.PASSWORD, at.port, at.certificate, cipher_suite=3)
        if not ipmi:
            yield both
            return
        with fake_ipmi.serving(both.ipmi, at.addresses[0], _PORT):
            yield both


def test_what_redfish_refuses_ipmitool_sets_and_then_switches(both: Both, tmp_path: Path) -> None:
    with serving(both, tmp_path):
        machine = both.controller()
        assert carry_out(machine, Wish("boot-once"), SHORT).boot == Boot("network", once=True)
        assert "override-by-ipmi" in machine.quirks and both.next_boot() == "pxe"
        machine.reset("on")
        assert (both.ipmi / "power").read_text() == "1\n" and both.redfish.resets == []
        assert carry_out(machine, Wish("boot-once", device="none"), SHORT).boot == Boot("none", once=False)
        assert both.next_boot() == "none"


def test_what_redfish_forgets_ipmitool_sets(both: Both, tmp_path: Path) -> None:
    both.redfish.needs, both.redfish.does = frozenset(), ("forgets-the-override",)
    with serving(both, tmp_path):
        machine = both.controller()
        assert carry_out(machine, Wish("boot-once"), SHORT).boot == Boot("network", once=True)
    assert "override-by-ipmi" in machine.quirks


def test_a_later_firmware_that_takes_it_is_not_asked_by_ipmi(both: Both, tmp_path: Path) -> None:
    both.redfish.needs = frozenset()
    with serving(both, tmp_path):
        machine = both.controller()
        assert carry_out(machine, Wish("boot-once"), SHORT).boot == Boot("network", once=True)
        assert "override-by-ipmi" not in machine.quirks and both.next_boot() == "none"
        assert carry_out(machine, Wish("on"), SHORT).power == "on" and both.redfish.resets == ["On"]


def test_another_run_ends_what_ipmitool_set(both: Both, tmp_path: Path) -> None:
    with serving(both, tmp_path):
        both.controller().set_boot("network")
        assert both.next_boot() == "pxe"
        both.redfish.needs = frozenset()  # Redfish takes the request to end an override that it never had
        carry_out(both.controller(), Wish("boot-once", device="none"), SHORT)
        assert both.next_boot() == "none"


@pytest.mark.parametrize("needs", [frozenset[Action](), frozenset[Action]({"ipmi"})])
def test_without_ipmi_over_lan_an_end_is_an_end(
    both: Both, tmp_path: Path, needs: frozenset[Action], monkeypatch: pytest.MonkeyPatch
) -> None:
    both.redfish.needs = needs
    monkeypatch.setattr("hpcforge.metal.bmc.ipmi._LIMIT_S", 0.5)
    with serving(both, tmp_path, ipmi=False):
        if needs:  # the reason of the plan, and how it came out
            with pytest.raises(BmcError, match=r"HTTP 400 .*Unsupported.*; 127.77.9.1: no answer to IPMI") as raised:
                both.controller().set_boot("network")
            assert "allow IPMI over LAN" in raised.value.hint
        else:
            assert carry_out(both.controller(), Wish("boot-once", device="none"), SHORT).boot.device == "none"


def test_a_make_without_the_row_is_never_asked_by_ipmi(both: Both, tmp_path: Path) -> None:
    both.redfish.traits = OTHER
    with serving(both, tmp_path):
        machine = both.controller()
        with pytest.raises(BmcError, match="UnsupportedOperation"):
            machine.set_boot("network")
        assert both.next_boot() == "none"


def test_a_refused_login_is_not_tried_by_ipmi(both: Both, tmp_path: Path) -> None:
    """The second protocol counts as another try of the same account."""
    with serving(both, tmp_path):
        both.redfish.does = ("refused-login",)
        machine = both.controller()
        with pytest.raises(BmcError, match="refuses user admin"):
            machine.set_boot("network")
        assert both.next_boot() == "none"


def test_the_reason_is_there_before_anything_is_changed(both: Both, tmp_path: Path) -> None:
    with serving(both, tmp_path):
        (warning,) = Redfish(both.login).warnings()
    assert "ipmitool sets it" in warning and "UnsupportedOperation" in warning
    assert both.redfish.sent == []
