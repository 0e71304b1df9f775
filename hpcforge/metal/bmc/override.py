"""A boot override: what is sent for it, and what it reads as, by what makes.yaml has of the make. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hpcforge.metal.bmc import Boot, Device, JsonObject
from hpcforge.metal.bmc.makes import Action

_TARGETS: Mapping[Device, str] = {"network": "Pxe", "disk": "Hdd", "none": "None"}
_ENABLED, _TARGET, _MODE = "BootSourceOverrideEnabled", "BootSourceOverrideTarget", "BootSourceOverrideMode"
_APPLY_TIMES = ("OnReset", "Immediate")  # of settings: when the machine is reset next, or now
NAMES = frozenset((_ENABLED, _TARGET))  # where a resource has one of them, an override goes to it


def request(boot: JsonObject, device: Device, actions: Collection[Action]) -> dict[str, str]:
    """Return what is sent for an override to a resource whose `Boot` reads so."""
    sent = {_TARGET: _TARGETS[device], _ENABLED: "Disabled" if device == "none" else "Once"}
    if device == "none" and "keep-target" in actions:
        target = boot.get(_TARGET)
        sent[_TARGET] = target if isinstance(target, str) and target != "None" else _TARGETS["network"]
    mode = mode_of(boot) or ("UEFI" if "uefi-mode" in actions else "")
    if mode and "without-mode" not in actions:
        sent[_MODE] = mode  # the one it has: firmware settings are not changed here
    return sent


def read(boot: JsonObject, actions: Collection[Action]) -> Boot:
    """Return what an override reads as."""
    enabled, target = boot.get(_ENABLED), boot.get(_TARGET)
    if enabled == "Disabled":
        return Boot("none", once=False)
    if target == "UefiBootNext" and "uefi-boot-next" in actions:
        return Boot("network", once=enabled == "Once")
    device: Device = next((device for device, name in _TARGETS.items() if name == target), "none")
    return Boot(device, once=enabled == "Once")


def mode_of(boot: JsonObject) -> str:
    """Return the mode of an override, the only one that it allows where it names none, or ""."""
    mode, allowed = boot.get(_MODE), boot.get(f"{_MODE}@Redfish.AllowableValues")
    if isinstance(mode, str) and mode in ("UEFI", "Legacy"):
        return mode
    only = allowed[0] if isinstance(allowed, list) and len(allowed) == 1 else ""
    return only if only in ("UEFI", "Legacy") else ""


def apply_time(settings: JsonObject, resource: JsonObject) -> str | None:
    """Return when an override in a settings resource should apply; "": that cannot be asked for; None: too late.

    `settings` is what the system says of that resource.
    """
    own = resource.get("@Redfish.SettingsApplyTime")
    times = settings.get("SupportedApplyTimes")
    if not times and isinstance(own, dict):
        times = own.get("ApplyTime@Redfish.AllowableValues") or (own and _APPLY_TIMES)
    if not isinstance(times, list | tuple) or not times:
        return ""
    return next((name for name in _APPLY_TIMES if name in times), None)
