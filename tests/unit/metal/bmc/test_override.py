"""What is sent for a boot override, and what one reads as."""

from __future__ import annotations

import pytest

from hpcforge.metal.bmc import Boot, JsonObject
from hpcforge.metal.bmc.makes import Action
from hpcforge.metal.bmc.redfish import apply_time, mode_of, read, request

UEFI = {"BootSourceOverrideMode": "UEFI", "BootSourceOverrideTarget": "None", "BootSourceOverrideEnabled": "Disabled"}
ONCE = {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}
END = {"BootSourceOverrideTarget": "None", "BootSourceOverrideEnabled": "Disabled"}


@pytest.mark.parametrize(
    ("actions", "current", "device", "sent"),
    [
        ((), UEFI, "network", {**ONCE, "BootSourceOverrideMode": "UEFI"}),
        ((), {}, "network", ONCE),
        (("without-mode",), UEFI, "network", ONCE),
        (("uefi-mode",), {"BootSourceOverrideMode": None}, "network", {**ONCE, "BootSourceOverrideMode": "UEFI"}),
        (("uefi-mode",), {"BootSourceOverrideMode": "Legacy"}, "none", {**END, "BootSourceOverrideMode": "Legacy"}),
        ((), {}, "none", END),
        (("keep-target",), ONCE, "none", {**END, "BootSourceOverrideTarget": "Pxe"}),
        (("keep-target",), {"BootSourceOverrideTarget": "Hdd"}, "none", {**END, "BootSourceOverrideTarget": "Hdd"}),
        (("keep-target",), END, "none", {**END, "BootSourceOverrideTarget": "Pxe"}),
    ],
)
def test_a_request_has_what_the_make_takes(
    actions: tuple[Action, ...], current: JsonObject, device: str, sent: JsonObject
) -> None:
    assert request(current, device, actions) == sent  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("actions", "boot", "found"),
    [
        ((), {**ONCE}, Boot("network", once=True)),
        ((), {**ONCE, "BootSourceOverrideEnabled": "Continuous"}, Boot("network", once=False)),
        ((), {**ONCE, "BootSourceOverrideEnabled": "Disabled"}, Boot("none", once=False)),
        ((), {**ONCE, "BootSourceOverrideTarget": "UefiBootNext"}, Boot("none", once=True)),
        (("uefi-boot-next",), {**ONCE, "BootSourceOverrideTarget": "UefiBootNext"}, Boot("network", once=True)),
        ((), {"BootSourceOverrideTarget": ["Pxe"], "BootSourceOverrideEnabled": 7}, Boot("none", once=False)),
    ],
)
def test_an_override_reads_as_the_device_that_boots(actions: tuple[Action, ...], boot: JsonObject, found: Boot) -> None:
    assert read(boot, actions) == found


def test_a_mode_is_one_of_the_standard_or_none() -> None:
    allowed = "BootSourceOverrideMode@Redfish.AllowableValues"
    assert [mode_of(boot) for boot in ({"BootSourceOverrideMode": mode} for mode in ("UEFI", "Legacy", "x", 3))] == [
        "UEFI", "Legacy", "", "",
    ]  # fmt: skip
    assert mode_of({allowed: ["UEFI"]}) == "UEFI"
    assert mode_of({allowed: ["UEFI", "Legacy"]}) == mode_of({allowed: [7]}) == mode_of({allowed: "UEFI"}) == ""


@pytest.mark.parametrize(
    ("settings", "resource", "time"),
    [
        ({}, {}, ""),
        ({"SupportedApplyTimes": ["Immediate", "OnReset"]}, {}, "OnReset"),
        ({"SupportedApplyTimes": ["Immediate"]}, {}, "Immediate"),
        ({"SupportedApplyTimes": ["AtMaintenanceWindowStart"]}, {}, None),
        ({"SupportedApplyTimes": "OnReset"}, {}, ""),
        ({}, {"@Redfish.SettingsApplyTime": {"ApplyTime@Redfish.AllowableValues": ["Immediate"]}}, "Immediate"),
        ({}, {"@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}}, "OnReset"),
        ({}, {"@Redfish.SettingsApplyTime": ["OnReset"]}, ""),
    ],
)
def test_settings_apply_at_the_next_start(settings: JsonObject, resource: JsonObject, time: str | None) -> None:
    assert apply_time(settings, resource) == time
