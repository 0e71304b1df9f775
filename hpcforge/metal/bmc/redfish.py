"""A machine by Redfish (DMTF DSP0266): its system is read, reset, and told what to boot."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from hpcforge.metal.bmc import BmcError, Boot, Device, JsonObject, LostAnswerError, Power, Reset, lazy_property
from hpcforge.metal.bmc.makes import OF_MANAGER, Action, Make, Traits, actions, makes, matching
from hpcforge.metal.bmc.quirk_table import Quirk, fitting
from hpcforge.metal.bmc.service import RedfishService, link, links, mapping, printable, text

# A boot override: the request for it, and its reading, with the actions that makes.yaml has for the make.
_TARGETS: Mapping[Device, str] = {"network": "Pxe", "disk": "Hdd", "none": "None"}
_ENABLED, _TARGET, _MODE = "BootSourceOverrideEnabled", "BootSourceOverrideTarget", "BootSourceOverrideMode"
_APPLY_TIMES = ("OnReset", "Immediate")  # times at which settings apply: at the next reset, or now


def request(
    boot: JsonObject, device: Device, actions: Collection[Action], left_out: Collection[str] = ()
) -> dict[str, str]:
    """Return the request for an override to a resource with this `Boot`, without some properties."""
    sent = {_TARGET: _TARGETS[device], _ENABLED: "Disabled" if device == "none" else "Once"}
    if device == "none" and "keep-target" in actions:
        target = boot.get(_TARGET)
        sent[_TARGET] = target if isinstance(target, str) and target != "None" else _TARGETS["network"]
    mode = mode_of(boot) or ("UEFI" if "uefi-mode" in actions else "")
    if mode and "without-mode" not in actions:
        sent[_MODE] = mode  # its own mode: hpcforge does not change firmware settings here
    return {name: value for name, value in sent.items() if name not in left_out or name == _MODE}  # `mode` decides


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
    """Return when an override in a settings resource should apply; "": no choice; None: too late.

    `settings` is the system's description of that resource.
    """
    own = resource.get("@Redfish.SettingsApplyTime")
    times = settings.get("SupportedApplyTimes")
    if not times and isinstance(own, dict):
        times = own.get("ApplyTime@Redfish.AllowableValues") or (own and _APPLY_TIMES)
    if not isinstance(times, list | tuple) or not times:
        return ""
    return next((name for name in _APPLY_TIMES if name in times), None)


SYSTEMS_S = 120.0  # limit for the search among several systems
_RESETS: Mapping[Reset, tuple[str, ...]] = {
    "on": ("On", "ForceOn"),
    "off": ("GracefulShutdown",),
    "hard-off": ("ForceOff",),
}
_STATES: Mapping[str, Power] = {"On": "on", "Off": "off", "PoweringOn": "changing", "PoweringOff": "changing"}


@dataclass(frozen=True)
class System:
    """A computer system's resource as it was read, or that of its settings."""

    path: str
    data: JsonObject
    etag: str | None


@dataclass(frozen=True)
class Systems:
    """The systems of one controller: the machine, and others such as a GPU baseboard."""

    host: str | None  # path of the host's system
    others: tuple[str, ...] = ()


class Redfish(RedfishService):
    """A controller that talks Redfish; see `hpcforge.metal.bmc.Controller`."""

    _unnamed = ""  # path of settings that took an override although the system does not name them

    def power(self) -> Power:
        """Read the power state. Raises `BmcError`."""
        return _STATES.get(text(self.system().data, "PowerState"), "unknown")

    def reset(self, kind: Reset) -> None:
        """Ask for a change of power. Raises `BmcError`."""
        target, name = self._reset_request(kind)
        self.send("POST", target, {"ResetType": name})

    def check_reset(self, kind: Reset) -> None:
        """Raise `BmcError` where it lists its types of reset, and none of this kind."""
        self._reset_request(kind)

    def _reset_request(self, kind: Reset) -> tuple[str, str]:
        """Return the path and the type of a reset. Raises `BmcError`."""
        system = self.system()
        action = _reset_type(system.data)
        allowed, types = self._reset_types(action), _RESETS[kind]
        if allowed:
            types = tuple(name for name in types if name in allowed)
            if not types:
                raise self._error(f"it has no reset of type {' or '.join(_RESETS[kind])}", "answer")
        else:
            self._meets("assume-reset-types")
        target = text(action, "target", 500) or f"{system.path.rstrip('/')}/Actions/ComputerSystem.Reset"
        return target, types[0]

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
        boot = read(override, self.actions if text(override, "BootSourceOverrideTarget") == "UefiBootNext" else ())
        for quirk in fitting(self.table, "report-value") if boot.device != "none" else ():
            if any(text(override, name) in quirk.values for name in quirk.properties):
                self.note(quirk)
        return boot

    def set_boot(self, device: Device) -> None:
        """Ask for an override of the next boot. Raises `BmcError`."""
        system = self.system()
        resource = self._override(system)
        try:
            self._set_override(system, resource, device)
        except LostAnswerError:
            raise
        except BmcError as error:
            if error.reason != "answer" or "settings-sd" not in self.actions or resource.path != system.path:
                raise
            self._unnamed = f"{system.path.rstrip('/')}/SD"
            self._set_override(system, self._read(self._unnamed), device)

    def _set_override(self, system: System, resource: System, device: Device) -> None:
        """Write an override, again where it is refused during the power-on self-test of a make that does so."""
        boot = mapping(resource.data, "Boot")
        sent = request(boot, device, self.actions, self._left_out(boot))
        body = {"Boot": sent, **self._apply_time(system, resource)}
        began_s = time.monotonic()
        while True:
            try:
                etag_first = "if-match" in self.actions
                self.send("PATCH", resource.path, body, lambda: self._read(resource.path).etag, etag_first)
                return
            except BmcError as error:
                quirk = self._send_again(error)
                if quirk is None or time.monotonic() >= began_s + quirk.wait_s:
                    raise
            self.note(quirk)
            time.sleep(quirk.every_s)

    def _left_out(self, boot: JsonObject) -> Collection[str]:
        """Return the properties of an override that this resource does not take."""
        missing: set[str] = set()
        for quirk in fitting(self.table, "leave-out"):
            lacks = {name for name in quirk.properties if not (mode_of(boot) if name == _MODE else name in boot)}
            missing |= lacks
            if lacks:
                self.note(quirk)
        return missing

    def _send_again(self, error: BmcError) -> Quirk | None:
        """Return the quirk with which an override that was refused so is sent again; None for none."""
        for quirk in fitting(self.table, "send-again"):
            if any(quirk.message in message for message in error.details) and quirk.make_action in self.actions:
                return quirk
        return None

    def starts_by_uefi(self) -> bool:
        """Return whether its firmware starts by UEFI, as far as it reports that. Raises `BmcError`."""
        return mode_of(mapping(self.system().data, "Boot")) != "Legacy"

    def warnings(self) -> tuple[str, ...]:
        """Return what people should read before the machine boots from the network. Raises `BmcError`."""
        return tuple(row.warning for row in self.makes if row.warning)

    @lazy_property
    def actions(self) -> frozenset[Action]:
        """Return the actions for its make."""
        return actions(self.makes)

    @lazy_property
    def makes(self) -> tuple[Make, ...]:
        """Return the rows of makes.yaml that match it; the manager is read only where one may depend on it."""
        system, extensions = self.system().data, list(mapping(self.root, "Oem"))
        vendor = text(self.root, "Vendor") or (printable(extensions[0]) if len(extensions) == 1 else "")
        traits = Traits(vendor, text(self.root, "Product"), text(system, "Manufacturer"), text(system, "Model"))
        rows = matching(makes(), traits, OF_MANAGER)
        if all(OF_MANAGER.isdisjoint(row.match) for row in rows):
            return rows
        managers = chain(
            links(mapping(system, "Links").get("ManagedBy")), self.members(link(mapping(self.root, "Managers")))
        )
        manager = next(self.each(managers), {})
        firmware = text(manager, "FirmwareVersion")
        return matching(makes(), replace(traits, manager=text(manager, "Model"), firmware=firmware))

    def _override(self, system: System) -> System:
        """Return the resource with the override: the system's settings where those have it, else the system."""
        if self._unnamed:
            return self._read(self._unnamed)
        path = link(mapping(mapping(system.data, "@Redfish.Settings"), "SettingsObject"))
        if path:
            settings = self._read(path)
            # These settings may have other purposes only, such as the boot order.
            if any(self._meets("use-settings", properties=name) for name in mapping(settings.data, "Boot")):
                return settings
        return system

    def _apply_time(self, system: System, resource: System) -> JsonObject:
        """Return the request that settings apply at the next reset, if a time can be chosen."""
        if resource.path == system.path:
            return {}
        name = apply_time(mapping(system.data, "@Redfish.Settings"), resource.data)
        if name is None:
            raise self._error("its settings apply in a maintenance window alone, not at the next boot", "override")
        when = {"@odata.type": "#Settings.v1_0_0.PreferredApplyTime", "ApplyTime": name}
        return {"@Redfish.SettingsApplyTime": when} if name else {}

    def system(self) -> System:
        """Read the machine's system. Raises `BmcError`."""
        if self.systems.host is None:
            raise self._error("it lists no system", "answer")
        return self._read(self.systems.host)

    @lazy_property
    def systems(self) -> Systems:
        collection = link(mapping(self.root, "Systems"))
        paths = list(self.members(collection)) if collection else []
        if len(paths) < 2:
            return Systems(paths[0] if paths else None)
        self._meets("choose-system")
        resources: dict[str, JsonObject] = {}
        until = time.monotonic() + SYSTEMS_S
        for path in paths:
            if time.monotonic() >= until:
                raise self._error(f"to read its {len(paths)} systems takes more than {SYSTEMS_S:g} s", "unreachable")
            resources[path] = self.get(path).data
        machines = {path: data for path, data in resources.items() if text(data, "SystemType") != "DPU"}
        hosts = [path for path, data in machines.items() if text(mapping(data, "Boot"), "BootSourceOverrideEnabled")]
        hosts = hosts or [path for path, data in machines.items() if _reset_type(data)]
        if len(hosts) != 1:
            names = ", ".join(path.rstrip("/").rpartition("/")[2] for path in (hosts or paths)[:8])
            which = (
                f"{len(hosts)} of its systems are machines"
                if hosts
                else "none of its systems can be reset or has an override"
            )
            raise self._error(f"{which} ({names}): a node needs a controller of its own", "answer")
        return Systems(hosts[0], tuple(path for path in paths if path != hosts[0]))

    def _read(self, path: str) -> System:
        answer = self.get(path)
        return System(path, answer.data, answer.etag or text(answer.data, "@odata.etag", 200) or None)


def _reset_type(data: JsonObject) -> JsonObject:
    return mapping(mapping(data, "Actions"), "#ComputerSystem.Reset")
