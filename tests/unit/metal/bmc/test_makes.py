"""The table of makes: which row is whose, and that each action is needed by a controller that does as its row says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from hpcforge.metal.bmc import BmcError, Boot, Login, redfish
from hpcforge.metal.bmc.makes import EFFECTS, Action, Make, Traits, actions, makes, matching, page
from hpcforge.metal.bmc.quirk_table import quirks
from hpcforge.metal.bmc.redfish import Redfish
from hpcforge.metal.bmc.verbs import Wish, carry_out
from tests.support.bmc_of_make import MANAGER, BmcOfMake
from tests.support.fake_bmc import PASSWORD, ROOT, USER, serving

SHORT = {name: row.model_copy(update={"wait_s": row.wait_s and 1.0, "every_s": 0.02}) for name, row in quirks().items()}
REPOSITORY = Path(__file__).parents[4]
_DELL = ("Dell", "Integrated Dell Remote Access Controller", "Dell Inc.")
_GEN10 = "ProLiant DL385 Gen10 Plus v2"
# By row: what such a controller says of itself. From recordings in NVIDIA/libredfish, tests/mockups (iDRAC 9, iLO 5,
# XCC, SYS-821GE, GB200, GH200, DGX H100); from the threads that the rows name; the rest by their makers' pattern.
EXAMPLES = {
    "Dell iDRAC 8": Traits(*_DELL, "PowerEdge R730", "13G Monolithic", "2.60.60.60"),
    "Dell iDRAC 9": Traits(*_DELL, "PowerEdge R750", "15G Monolithic", "7.10.30.00"),
    "Dell PowerEdge XE9680": Traits(*_DELL, "PowerEdge XE9680", "16G Monolithic", "7.20.10.05"),
    "Dell iDRAC 10": Traits(*_DELL, "PowerEdge R6715", "17G Monolithic", "1.20.80.50"),
    "HPE iLO 5": Traits("HPE", _GEN10, "HPE", _GEN10, "iLO 5", "iLO 5 v2.72"),
    "HPE iLO 6": Traits("HPE", "ProLiant DL360 Gen11", "HPE", "ProLiant DL360 Gen11", "iLO 6", "iLO 6 v1.55"),
    "HPE ProLiant DL380a Gen11, iLO 6 1.58 to 1.72": Traits(
        "HPE", "ProLiant DL380a Gen11", "HPE", "ProLiant DL380a Gen11", "iLO 6", "iLO 6 v1.58"
    ),
    "Lenovo XCC, XCC2 and XCC3": Traits(
        "Lenovo", "", "Lenovo", "ThinkSystem SR670 V2", "Lenovo XClarity Controller", "TGBT42S 2.83"
    ),
    "Lenovo TSM (ThinkSystem SR635, SR655; AMI)": Traits(
        "AMI", "AMI Redfish Server", "Lenovo", "ThinkSystem SR655", "TSM", "3.16"
    ),
    "Supermicro X11 to X14, H11 to H14": Traits("Supermicro", "", "Supermicro", "SYS-821GE-TNHR", "ASPEED", "11.01.01"),
    "Supermicro AS-1015CS-TNR (H13)": Traits("Supermicro", "", "Supermicro", "AS -1015CS-TNR-EU", "ASPEED", "01.02.03"),
    "NVIDIA GB200 (OpenBMC)": Traits("NVIDIA", "GB200 NVL", "", "", "OpenBmc", "GB200Nvl-24.12-8"),
    "NVIDIA GH200 and NVLink switch trays (OpenBMC)": Traits("NVIDIA", "P3809", "", "", "OpenBmc", "GH200-24.05-2"),
    "NVIDIA DGX H100 (AMI)": Traits("AMI", "AMI Redfish Server", "NVIDIA", "DGXH100", "77171220", "23.11.20"),
    "AMI MegaRAC": Traits("AMI", "AMI Redfish Server", "ASUSTeK COMPUTER INC.", "RS500A-E12", "AMI", "1.2.3"),
    "Gigabyte (MegaRAC)": Traits("", "", "GIGABYTE", "R282-Z93", "AST2500", "12.84.01"),
    "ASRock Rack": Traits("", "", "ASRockRack", "ROMED8HM3", "AST2500", "1.04.00"),
    "Intel OpenBMC": Traits("", "", "Intel Corporation", "M50CYP2SBSTD", "OpenBmc", "2.86"),
    "Cisco CIMC": Traits("", "", "Cisco Systems Inc.", "UCSC-C220-M5SX", "CIMC", "4.1(3b)"),
    "Huawei iBMC and xFusion": Traits("", "", "Huawei", "2288H V5", "iBMC", "3.31"),
}


@pytest.mark.parametrize("row", makes(), ids=lambda row: row.make)
def test_each_row_is_matched_by_its_controller(row: Make) -> None:
    assert row in matching(makes(), EXAMPLES[row.make])
    assert row.actions or row.notes
    for source in (*row.actions.values(), *(note.source for note in row.notes)):
        assert source.startswith("https://")
    shown = [source for action, source in row.actions.items() if action in ("ipmi", "warn")]
    assert all(any(note.source == source for note in row.notes) for source in shown), "the plan has no reason"


def test_no_row_is_for_a_controller_that_is_not_in_it() -> None:
    assert matching(makes(), Traits("hpcforge tests", "", "hpcforge tests", "Test 1U", "", "")) == ()
    assert {row.make for row in matching(makes(), EXAMPLES["HPE iLO 6"])} == {"HPE iLO 6"}
    for firmware, by_ipmi in (("iLO 6 v1.57", False), ("iLO 6 v1.72", True), ("iLO 6 v1.73", False)):
        traits = Traits("HPE", "", "HPE", "ProLiant DL380a Gen11", "iLO 6", firmware)
        assert ("ipmi" in actions(matching(makes(), traits))) == by_ipmi
    assert set(EXAMPLES) == {row.make for row in makes()}


def test_each_action_has_an_effect_and_a_row() -> None:
    assert set(get_args(Action)) == set(EFFECTS) == {action for row in makes() for action in row.actions}


def test_a_reason_is_in_the_warning_of_its_make() -> None:
    warnings = {row.make: row.warning for row in makes() if row.warning}
    assert set(warnings) == {row.make for row in makes() if {"ipmi", "warn"} & row.actions.keys()}
    assert "ipmitool sets it" in warnings["Supermicro AS-1015CS-TNR (H13)"]
    assert "UEFI HTTP" in warnings["Dell PowerEdge XE9680"]


def test_the_published_page_is_current(golden: Callable[[Path, str], None]) -> None:
    golden(REPOSITORY / "docs" / "controllers.md", "\n".join(page(makes())) + "\n")


def bmc_of(row: Make) -> BmcOfMake:
    """A controller that this row and others match, and that needs all which they do."""
    traits = EXAMPLES[row.make]
    return BmcOfMake(traits=traits, needs=actions(matching(makes(), traits)) - {"ipmi", "warn"})


@pytest.mark.parametrize("row", makes(), ids=lambda row: row.make)
def test_a_controller_of_each_make_boots_from_the_network_once(tmp_path: Path, row: Make) -> None:
    fake = bmc_of(row)
    with serving(tmp_path, [fake]) as at:
        machine = Redfish(Login(at.addresses[0], USER, PASSWORD, at.port, at.certificate), SHORT)
        assert row in machine.makes and machine.actions >= fake.needs
        assert carry_out(machine, Wish("boot-once"), SHORT).boot == Boot("network", once=True)
        assert carry_out(machine, Wish("on"), SHORT).power == "on"
        assert carry_out(machine, Wish("boot-once"), SHORT).boot.device == "network"
        assert carry_out(machine, Wish("boot-once", device="none"), SHORT).boot == Boot("none", once=False)
        assert ("refused-in-post" in machine.quirks) == ("retry-in-post" in fake.needs)
        assert machine.warnings() == tuple(found.warning for found in machine.makes if found.warning)


@pytest.mark.parametrize("row", [row for row in makes() if bmc_of(row).needs], ids=lambda row: row.make)
def test_none_of_them_does_without_its_row(tmp_path: Path, row: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redfish, "makes", lambda: ())
    with serving(tmp_path, [bmc_of(row)]) as at:
        machine = Redfish(Login(at.addresses[0], USER, PASSWORD, at.port, at.certificate), SHORT)
        with pytest.raises(BmcError):
            carry_out(machine, Wish("boot-once"), SHORT)
            carry_out(machine, Wish("boot-once", device="none"), SHORT)


@pytest.mark.parametrize("action", sorted(set(get_args(Action)) - {"ipmi", "warn"}))
def test_each_action_alone_is_what_its_controller_needs(
    tmp_path: Path, action: Action, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Make(make="M", match={"vendor": "V"}, actions={action: "https://example.org"})
    monkeypatch.setattr(redfish, "makes", lambda: (row,))
    with serving(tmp_path, [BmcOfMake(traits=Traits("V"), needs=frozenset((action,)))]) as at:
        machine = Redfish(Login(at.addresses[0], USER, PASSWORD, at.port, at.certificate), SHORT)
        assert carry_out(machine, Wish("boot-once"), SHORT).boot == Boot("network", once=True)
        assert carry_out(machine, Wish("boot-once", device="none"), SHORT).boot == Boot("none", once=False)


def test_a_self_test_that_does_not_end_is_an_error_in_time(tmp_path: Path) -> None:
    fake = bmc_of(next(row for row in makes() if row.make == "HPE iLO 6"))
    fake.in_post = 1_000_000
    with serving(tmp_path, [fake]) as at:
        machine = Redfish(Login(at.addresses[0], USER, PASSWORD, at.port, at.certificate), SHORT)
        with pytest.raises(BmcError, match="UnableToModifyDuringSystemPOST"):
            carry_out(machine, Wish("boot-once"), SHORT)
    assert "refused-in-post" in machine.quirks


def test_a_make_is_not_read_where_only_power_is(tmp_path: Path) -> None:
    fake = bmc_of(next(row for row in makes() if row.make == "HPE iLO 5"))
    with serving(tmp_path, [fake]) as at:
        carry_out(Redfish(Login(at.addresses[0], USER, PASSWORD, at.port, at.certificate), SHORT), Wish("status"))
    assert not any("Managers" in asked for asked in fake.asked)


def test_a_manager_that_cannot_be_read_matches_no_row_about_it(tmp_path: Path) -> None:
    fake = BmcOfMake(traits=EXAMPLES["HPE iLO 6"], resources={MANAGER: None, f"{ROOT}/Managers": None})
    with serving(tmp_path, [fake]) as at:
        assert Redfish(Login(at.addresses[0], USER, PASSWORD, at.port, at.certificate), SHORT).makes == ()
