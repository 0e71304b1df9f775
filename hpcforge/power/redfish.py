"""A machine by Redfish (DMTF DSP0266): its system is read, reset, and told what to boot."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hpcforge.power import Boot, Device, JsonObject, Power, Reset
from hpcforge.power.service import RedfishService, link, mapping, text

SYSTEMS_S = 120.0  # for the search among several systems
_TARGETS: Mapping[Device, str] = {"network": "Pxe", "disk": "Hdd", "none": "None"}
_RESETS: Mapping[Reset, tuple[str, ...]] = {
    "on": ("On", "ForceOn"),
    "off": ("GracefulShutdown",),
    "hard-off": ("ForceOff",),
}
_STATES: Mapping[str, Power] = {"On": "on", "Off": "off", "PoweringOn": "changing", "PoweringOff": "changing"}
_APPLY_TIMES = ("OnReset", "Immediate")  # of settings: when the machine is reset next, or now


@dataclass(frozen=True)
class System:
    """A computer system's resource as it was read, or that of its settings."""

    path: str
    data: JsonObject
    etag: str | None


@dataclass(frozen=True)
class Systems:
    """Those of one controller: the machine, and others that belong to it, such as a GPU baseboard."""

    host: str | None  # the path
    others: tuple[str, ...] = ()


class Redfish(RedfishService):
    """A controller that talks Redfish; see `hpcforge.power.Controller`."""

    def power(self) -> Power:
        """Read the power state. Raises `BmcError`."""
        return _STATES.get(text(self.system().data, "PowerState"), "unknown")

    def reset(self, kind: Reset) -> None:
        """Ask for a change of power. Raises `BmcError`."""
        system = self.system()
        action = _reset_of(system.data)
        allowed, types = self._reset_types(action), _RESETS[kind]
        if allowed:
            types = tuple(name for name in types if name in allowed)
            if not types:
                raise self._error(f"it has no reset of type {' or '.join(_RESETS[kind])}", "answer")
        else:
            self._note("no-allowable-values")
        target = text(action, "target", 500) or f"{system.path.rstrip('/')}/Actions/ComputerSystem.Reset"
        self.send("POST", target, {"ResetType": types[0]})

    def _reset_types(self, action: JsonObject) -> Sequence[object]:
        """Return the types of reset that it lists, in the action or where that names; none if it lists none."""
        allowed = action.get("ResetType@Redfish.AllowableValues")
        if isinstance(allowed, list) and allowed:
            return allowed
        path = text(action, "@Redfish.ActionInfo", 500)
        parameters = self.get(path).data.get("Parameters") if path else None
        for parameter in parameters if isinstance(parameters, list) else ():
            if isinstance(parameter, dict) and text(parameter, "Name") == "ResetType":
                values = parameter.get("AllowableValues")
                return values if isinstance(values, list) else []
        return []

    def boot(self) -> Boot:
        """Read the override of the next boot. Raises `BmcError`."""
        override = mapping(self._override(self.system()).data, "Boot")
        enabled, target = text(override, "BootSourceOverrideEnabled"), text(override, "BootSourceOverrideTarget")
        if enabled == "Disabled":
            return Boot("none", once=False)
        device: Device = next((device for device, name in _TARGETS.items() if name == target), "none")
        if device != "none" and enabled == "Continuous":
            self._note("once-becomes-continuous")
        return Boot(device, once=enabled == "Once")

    def set_boot(self, device: Device) -> None:
        """Ask for an override of the next boot. Raises `BmcError`."""
        system = self.system()
        resource = self._override(system)
        override = mapping(resource.data, "Boot")
        boot = {
            "BootSourceOverrideTarget": _TARGETS[device],
            "BootSourceOverrideEnabled": "Disabled" if device == "none" else "Once",
        }
        modes = override.get("BootSourceOverrideMode@Redfish.AllowableValues")
        # The mode that it has, or its only one: firmware settings are not changed here.
        mode = text(override, "BootSourceOverrideMode") or (
            modes[0] if isinstance(modes, list) and len(modes) == 1 else ""
        )
        if isinstance(mode, str) and mode:
            boot["BootSourceOverrideMode"] = mode
        else:
            self._note("no-override-mode")
        body = {"Boot": boot, **self._apply_time(system, resource)}
        self.send("PATCH", resource.path, body, lambda: self._override(self.system()).etag)

    def _override(self, system: System) -> System:
        """Return the resource with the override: the system's settings where those have it, else the system."""
        path = link(mapping(mapping(system.data, "@Redfish.Settings"), "SettingsObject"))
        if path:
            settings = self._read(path)
            # Settings may be of other things alone, such as the boot order.
            if {"BootSourceOverrideTarget", "BootSourceOverrideEnabled"} & mapping(settings.data, "Boot").keys():
                self._note("settings-resource")
                return settings
        return system

    def _apply_time(self, system: System, resource: System) -> JsonObject:
        """Return the request that settings apply when the machine is reset, where a time can be asked for."""
        own = mapping(resource.data, "@Redfish.SettingsApplyTime")
        times = mapping(system.data, "@Redfish.Settings").get("SupportedApplyTimes")
        times = times or own.get("ApplyTime@Redfish.AllowableValues") or (own and _APPLY_TIMES)
        if resource.path == system.path or not isinstance(times, list | tuple) or not times:
            return {}
        time_ = next((name for name in _APPLY_TIMES if name in times), None)
        if time_ is None:
            raise self._error("its settings apply in a maintenance window alone, not at the next boot", "override")
        return {
            "@Redfish.SettingsApplyTime": {"@odata.type": "#Settings.v1_0_0.PreferredApplyTime", "ApplyTime": time_}
        }

    def system(self) -> System:
        """Read the machine's system. Raises `BmcError`."""
        if self.systems.host is None:
            raise self._error("it lists no system", "answer")
        return self._read(self.systems.host)

    @cached_property
    def systems(self) -> Systems:
        """The systems of this controller."""
        collection = link(mapping(self.root, "Systems"))
        paths = list(self.members(collection)) if collection else []
        if len(paths) < 2:
            return Systems(paths[0] if paths else None)
        self._note("several-systems")
        resources: dict[str, JsonObject] = {}
        until = time.monotonic() + SYSTEMS_S
        for path in paths:
            if time.monotonic() >= until:
                raise self._error(f"to read its {len(paths)} systems takes more than {SYSTEMS_S:g} s", "unreachable")
            resources[path] = self.get(path).data
        machines = {path: data for path, data in resources.items() if text(data, "SystemType") != "DPU"}
        hosts = [path for path, data in machines.items() if text(mapping(data, "Boot"), "BootSourceOverrideEnabled")]
        hosts = hosts or [path for path, data in machines.items() if _reset_of(data)]
        if len(hosts) != 1:
            names = ", ".join(path.rstrip("/").rpartition("/")[2] for path in (hosts or paths)[:8])
            which = (
                f"{len(hosts)} of its systems are machines"
                if hosts
                else "no system of it can be reset or has an override"
            )
            raise self._error(f"{which} ({names}): a node needs a controller of its own", "answer")
        return Systems(hosts[0], tuple(path for path in paths if path != hosts[0]))

    def _read(self, path: str) -> System:
        answer = self.get(path)
        return System(path, answer.data, answer.etag or text(answer.data, "@odata.etag", 200) or None)


def _reset_of(data: JsonObject) -> JsonObject:
    return mapping(mapping(data, "Actions"), "#ComputerSystem.Reset")
