"""Redfish against controllers that do each thing wrong that the table of quirks has, and worse."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hpcforge.metal.bmc import BmcError, Boot, Login, redfish
from hpcforge.metal.bmc.quirk_table import Quirk, quirks
from hpcforge.metal.bmc.redfish import Redfish
from hpcforge.metal.bmc.verbs import MachineState, Wish, carry_out
from tests.support.bmc_of_make import OF_MAKES
from tests.support.fake_bmc import PASSWORD, ROOT, SYSTEM, USER, FakeBmc, collection, serving

# The table with waits that a test has time for.
SHORT = {name: row.model_copy(update={"wait_s": row.wait_s and 0.3, "every_s": 0.05}) for name, row in quirks().items()}
# The same, where an override may read as before for longer than that on a busy machine.
PATIENT = {**SHORT, "late-override": SHORT["late-override"].model_copy(update={"wait_s": 20.0})}

SETTINGS = f"{SYSTEM}/Settings"
APPLY_TIME = {"@odata.type": "#Settings.v1_0_0.PreferredApplyTime"}


@contextmanager
def bmc(folder: Path, fake: FakeBmc, password: str = PASSWORD, pinned: str | None = "right") -> Iterator[Redfish]:
    with serving(folder, [fake]) as at:
        certificate = at.certificate if pinned == "right" else pinned
        yield Redfish(Login(at.addresses[0], USER, password, at.port, certificate), SHORT)


def done(controller: Redfish, wish: Wish, table: dict[str, Quirk] = SHORT) -> MachineState:
    return carry_out(controller, wish, table)


OF_SUMMARIES = ("decimal-memory", "processors-with-gpus")  # test_read_machine.py


@pytest.mark.parametrize(
    "quirk",
    sorted(
        name for name, row in quirks().items() if row.protocol == "redfish" and name not in (*OF_MAKES, *OF_SUMMARIES)
    ),
)
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
            table = PATIENT if quirk == "late-override" else SHORT
            booted = done(machine, Wish("boot-once"), table)
            assert booted.boot.device == "network"
            assert bool(booted.notes) == (quirk == "once-becomes-continuous")
            assert done(machine, Wish("on", limit_s=0.5)).power == "on"
            assert done(machine, Wish("boot-once", device="none"), table).boot == Boot("none", once=False)
        assert quirk in machine.quirks or quirk in ("no-effect", "late-override")
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


def test_an_override_of_the_settings_is_written_and_read_there(tmp_path: Path) -> None:
    fake = FakeBmc(does=("settings-resource",))
    with bmc(tmp_path, fake) as machine:
        assert done(machine, Wish("boot-once")).boot == Boot("network", once=True)
        assert fake.system()["Boot"]["BootSourceOverrideEnabled"] == "Disabled"  # until the next reset
        assert machine.boot() == Boot("network", once=True)
        done(machine, Wish("off", hard=True))
        done(machine, Wish("on"))
    assert [path for path, _ in fake.patches] == [SETTINGS]
    assert fake.resets == ["On"] and f"GET {SYSTEM}/ResetActionInfo" in fake.asked
    assert "no-allowable-values" not in machine.quirks


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        # Lenovo XCC: only the boot order; iDRAC 9: the mode and a UEFI target, and neither target nor enabled
        ({"Boot": {"BootOrder": ["Boot0003", "Boot0002"]}}, SYSTEM),
        ({"Boot": {"BootOrder": [], "BootSourceOverrideMode": None, "StopBootOnFault": None}}, SYSTEM),
        ({"Attributes": {}}, SYSTEM),
        ({"Boot": {"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None"}}, SETTINGS),
    ],
)
def test_settings_without_an_override_leave_it_to_the_system(tmp_path: Path, settings: object, path: str) -> None:
    fake = FakeBmc()
    fake.resources[SETTINGS] = settings
    fake.resources[SYSTEM] = {**fake.system(), "@Redfish.Settings": {"SettingsObject": {"@odata.id": SETTINGS}}}
    with bmc(tmp_path, fake) as machine:
        machine.set_boot("network")
    ((where, body),) = fake.patches
    assert where == path and "@Redfish.SettingsApplyTime" not in body


@pytest.mark.parametrize(
    ("times", "own", "chosen"),
    [
        (["Immediate", "OnReset"], {}, "OnReset"),
        (["Immediate", "AtMaintenanceWindowStart"], {}, "Immediate"),
        ([], {"ApplyTime": "Immediate", "ApplyTime@Redfish.AllowableValues": ["Immediate"]}, "Immediate"),
        ([], {"ApplyTime": "AtMaintenanceWindowStart"}, "OnReset"),
        ([], {}, None),
        ("OnReset", {}, None),
        (["AtMaintenanceWindowStart", "InMaintenanceWindowOnReset"], {}, ""),
    ],
)
def test_settings_apply_at_the_next_boot(tmp_path: Path, times: object, own: object, chosen: str | None) -> None:
    fake = FakeBmc()
    fake.resources[SETTINGS] = {"Boot": fake.boot(), "@Redfish.SettingsApplyTime": own}
    link = {"SettingsObject": {"@odata.id": SETTINGS}, "SupportedApplyTimes": times}
    fake.resources[SYSTEM] = {**fake.system(), "@Redfish.Settings": link}
    with bmc(tmp_path, fake) as machine:
        if chosen == "":
            with pytest.raises(BmcError, match="in a maintenance window alone") as raised:
                machine.set_boot("network")
            assert raised.value.reason == "override" and fake.patches == []
            return
        machine.set_boot("network")
    ((_, body),) = fake.patches
    assert body.get("@Redfish.SettingsApplyTime") == (chosen and {**APPLY_TIME, "ApplyTime": chosen})


def test_the_only_mode_of_an_override_is_named(tmp_path: Path) -> None:
    fake = FakeBmc()  # as a DGX H100: the mode is null, and one is allowed
    boot = {**fake.boot(), "BootSourceOverrideMode": None, "BootSourceOverrideMode@Redfish.AllowableValues": ["UEFI"]}
    fake.resources[SYSTEM] = {**fake.system(), "Boot": boot}
    with bmc(tmp_path, fake) as machine:
        machine.set_boot("network")
    assert fake.patches[0][1]["Boot"]["BootSourceOverrideMode"] == "UEFI"


def test_a_type_of_reset_that_is_missing_is_named(tmp_path: Path) -> None:
    fake = FakeBmc(does=("settings-resource",))
    parameters = [{"Name": "Delay"}, "odd", {"Name": "ResetType", "AllowableValues": ["ForceOn", "ForceOff"]}]
    fake.resources[f"{SYSTEM}/ResetActionInfo"] = {"Parameters": parameters}
    with bmc(tmp_path, fake) as machine:
        machine.reset("on")
        with pytest.raises(BmcError, match="it has no reset of type GracefulShutdown"):
            machine.reset("off")
    assert fake.resets == ["ForceOn"]


def test_the_controller_of_several_machines_is_refused(tmp_path: Path) -> None:
    fake = FakeBmc()
    fake.resources[f"{ROOT}/Systems"] = collection(SYSTEM, f"{ROOT}/Systems/2", f"{ROOT}/Systems/DPU")
    fake.resources[f"{ROOT}/Systems/DPU"] = {**fake.system(), "SystemType": "DPU"}
    fake.resources[f"{ROOT}/Systems/2"] = {"Name": "GPU baseboard"}
    with bmc(tmp_path, fake) as machine:
        assert machine.systems.host == SYSTEM
    fake.resources[f"{ROOT}/Systems/2"], fake.resources[SYSTEM] = {"Boot": {}}, {**fake.system(), "Boot": {}}
    with bmc(tmp_path, fake) as machine:
        assert machine.systems.host == SYSTEM  # the only one that can be reset
    fake.resources[f"{ROOT}/Systems/2"] = fake.resources[SYSTEM] = fake.system()
    with bmc(tmp_path, fake) as machine, pytest.raises(BmcError, match=r"2 of its systems are machines \(1, 2\)"):
        machine.power()
    fake.resources[f"{ROOT}/Systems"] = collection(f"{ROOT}/Systems/DPU", f"{ROOT}/Systems/DPU")
    with bmc(tmp_path, fake) as machine, pytest.raises(BmcError, match="none of its systems can be reset"):
        machine.power()
    fake.resources[f"{ROOT}/Systems"] = collection()
    with bmc(tmp_path, fake) as machine, pytest.raises(BmcError, match="it lists no system"):
        machine.power()
