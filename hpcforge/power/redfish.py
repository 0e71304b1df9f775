"""A machine by Redfish (DMTF DSP0266): its system is read, reset, and told what to boot."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from hpcforge.power import BmcError, Boot, Device, JsonObject, Login, Power, Quirk, Reason, Reset, quirks
from hpcforge.power.https import HttpAnswer, exchange

ROOT = "/redfish/v1"
MOST_MEMBERS = 64  # of a collection; more are not read
SYSTEMS_S = 120.0  # for the search among several systems
_TARGETS: Mapping[Device, str] = {"network": "Pxe", "disk": "Hdd", "none": "None"}
_RESETS: Mapping[Reset, tuple[str, ...]] = {
    "on": ("On", "ForceOn"),
    "off": ("GracefulShutdown",),
    "hard-off": ("ForceOff",),
}
_STATES: Mapping[str, Power] = {"On": "on", "Off": "off", "PoweringOn": "changing", "PoweringOff": "changing"}


@dataclass(frozen=True)
class System:
    """A computer system's resource as it was read."""

    path: str
    data: JsonObject
    etag: str | None


class Redfish:
    """A controller that talks Redfish; see `hpcforge.power.Controller`."""

    def __init__(self, access: Login, table: Mapping[str, Quirk] | None = None, limit_s: float = math.inf) -> None:
        self.access = access
        self._limit_s, self._until_s = limit_s, time.monotonic() + limit_s  # of all that is asked
        self.quirks: dict[str, None] = {}  # in the order in which they were seen
        self._table = table or quirks()

    def power(self) -> Power:
        """Read the power state. Raises `BmcError`."""
        return _STATES.get(text(self.system().data, "PowerState"), "unknown")

    def reset(self, kind: Reset) -> None:
        """Ask for a change of power. Raises `BmcError`."""
        action = mapping(mapping(self.system().data, "Actions"), "#ComputerSystem.Reset")
        allowed = action.get("ResetType@Redfish.AllowableValues")
        wanted = _RESETS[kind]
        if isinstance(allowed, list):
            known = [name for name in wanted if name in allowed]
            if not known:
                raise self._error(f"it has no reset of type {' or '.join(wanted)}", "answer")
            wanted = tuple(known)
        else:
            self._note("no-allowable-values")
        target = self._path(text(action, "target", 500) or f"{self._system_path}/Actions/ComputerSystem.Reset")
        self._done(self._ask("POST", target, {"ResetType": wanted[0]}))

    def boot(self) -> Boot:
        """Read the override of the next boot. Raises `BmcError`."""
        said = mapping(self.system().data, "Boot")
        enabled, target = text(said, "BootSourceOverrideEnabled"), text(said, "BootSourceOverrideTarget")
        if enabled == "Disabled":
            return Boot("none", once=False)
        device: Device = next((device for device, name in _TARGETS.items() if name == target), "none")
        if device != "none" and enabled == "Continuous":
            self._note("once-becomes-continuous")
        return Boot(device, once=enabled == "Once")

    def set_boot(self, device: Device) -> None:
        """Ask for an override of the next boot. Raises `BmcError`."""
        system = self.system()
        said = mapping(system.data, "Boot")
        wanted = {
            "BootSourceOverrideTarget": _TARGETS[device],
            "BootSourceOverrideEnabled": "Disabled" if device == "none" else "Once",
        }
        mode = text(said, "BootSourceOverrideMode")
        if mode:
            wanted["BootSourceOverrideMode"] = mode  # the one it has: firmware settings are not changed here
        else:
            self._note("no-override-mode")
        answer = self._ask("PATCH", system.path, {"Boot": wanted})
        if answer.status in self._table["etag-required"].statuses:
            self._note("etag-required")
            answer = self._ask("PATCH", system.path, {"Boot": wanted}, self.system().etag or "*")
        self._done(answer)

    def system(self) -> System:
        """Read the machine's system. Raises `BmcError`."""
        path = self._system_path
        answer = self.get(path)
        return System(path, answer.data, answer.etag)

    def get(self, path: str) -> HttpAnswer:
        """Read a resource of this service. Raises `BmcError`."""
        answer = self._ask("GET", self._path(path))
        self._done(answer)
        return answer

    def members(self, path: str) -> Iterator[str]:
        """Yield the paths of a collection's members. Raises `BmcError`."""
        listed = self.get(path).data.get("Members")
        for member in (listed if isinstance(listed, list) else [])[:MOST_MEMBERS]:
            if isinstance(member, dict) and (found := text(member, "@odata.id", 500)):
                yield self._path(found)

    @cached_property
    def _system_path(self) -> str:
        paths = list(self.members(f"{ROOT}/Systems"))
        if len(paths) == 1:
            return paths[0]
        if not paths:
            raise self._error("it lists no system", "answer")
        self._note("several-systems")
        until = time.monotonic() + SYSTEMS_S
        for path in paths:
            if time.monotonic() >= until:
                raise self._error(f"to read its {len(paths)} systems takes more than {SYSTEMS_S:g} s", "unreachable")
            if text(mapping(self.get(path).data, "Boot"), "BootSourceOverrideEnabled"):
                return path
        raise self._error(f"none of its {len(paths)} systems has a boot override", "answer")

    def _path(self, path: str) -> str:
        """A path of this service, as a controller names it: another machine, or other requests, are refused."""
        if not path.startswith(f"{ROOT}/") or not path.isascii() or not path.isprintable() or " " in path:
            raise self._error("it names a resource outside its own service", "answer")
        return path

    def _ask(self, method: str, path: str, body: JsonObject | None = None, etag: str | None = None) -> HttpAnswer:
        """Ask, again and again while it says that it is not ready."""
        quirk = self._table["unavailable"]
        until = time.monotonic() + quirk.wait_s
        while True:
            if time.monotonic() >= self._until_s:
                raise self._error(f"its answers take more than {self._limit_s:g} s", "unreachable")
            answer = exchange(self.access, method, path, body, etag)
            if answer.status not in quirk.statuses or time.monotonic() >= until:
                return answer
            self._note("unavailable")
            time.sleep(quirk.every_s)

    def _done(self, answer: HttpAnswer) -> None:
        """Raise for an answer that is no success."""
        if answer.status < 300:
            return
        if answer.status in self._table["refused-login"].statuses:
            self._note("refused-login")
            user = f"user {self.access.user}" if self.access.password else "a request without a login"
            raise self._error(f"it refuses {user} (HTTP {answer.status})", "login")
        why = text(mapping(answer.data, "error"), "message", 200)
        raise self._error(f"HTTP {answer.status}" + (f": {why}" if why else ""), "answer")

    def _error(self, why: str, reason: Reason) -> BmcError:
        return BmcError(f"{self.access.address}: {why}", reason)

    def _note(self, quirk: str) -> None:
        self.quirks[quirk] = None


def text(data: JsonObject, key: str, most: int = 64) -> str:
    """Text that a controller says, without what could steer a terminal; "" where it says none."""
    value = data.get(key)
    if not isinstance(value, str):
        return ""
    return "".join(letter for letter in value[:most] if letter.isprintable()).strip()


def number(data: JsonObject, key: str) -> float | None:
    """A number from 0 to a million million that a controller says; None for anything else."""
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= 1e12 else None


def mapping(data: JsonObject, key: str) -> JsonObject:
    """An object in another; {} for anything else."""
    value = data.get(key)
    return value if isinstance(value, dict) else {}
