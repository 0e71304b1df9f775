"""Operators' actions on one machine, each until it is confirmed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from hpcforge.metal.bmc import BmcError, Boot, Controller, Device, LostAnswerError, Power, Reset
from hpcforge.metal.bmc.quirk_table import Table, first, quirks

Verb = Literal["on", "off", "cycle", "status", "boot-once"]
_EVERY_S = 2.0  # pause between reads of a power state without a row in quirks.yaml


@dataclass(frozen=True)
class Wish:
    """A verb and its options."""

    verb: Verb
    hard: bool = False  # switch off at once, without the operating system
    device: Device = "network"  # device of boot-once
    then_on: bool = False  # with off: refused if the machine could not be switched on again
    limit_s: float = 180.0  # limit for the operating system to shut down, or for the machine to start


@dataclass(frozen=True)
class MachineState:
    """The present state of a machine."""

    power: Power
    boot: Boot
    notes: tuple[str, ...] = ()


def carry_out(controller: Controller, request: Wish, table: Table | None = None) -> MachineState:
    """Carry out a request and check its effect. Raises `BmcError`, with the last power state."""
    machine = _Machine(controller, table or quirks())
    try:
        return machine.carry_out(request)
    except BmcError as error:
        error.power = machine.last
        raise


def override_shown(controller: Controller, device: Device, table: Table) -> Boot:
    """Return the override of the next boot, read until it is this one or the time of its quirk is over."""
    quirk = first(table, "read-again", devices=device)
    wait_s, every_s = (quirk.wait_s, quirk.every_s) if quirk else (0.0, 0.0)
    until = time.monotonic() + wait_s
    boot = controller.boot()
    while boot.device != device and time.monotonic() < until:
        time.sleep(every_s)
        boot = controller.boot()
    return boot


class _Machine:
    def __init__(self, controller: Controller, table: Table) -> None:
        self.controller = controller
        self.table = table
        self.last: Power = "unknown"

    def power(self) -> Power:
        """Read the power state."""
        self.last = self.controller.power()
        return self.last

    def carry_out(self, request: Wish) -> MachineState:
        """Do it, as `carry_out` says."""
        if request.verb == "boot-once":
            return self.boot_once(request.device)
        if request.verb in ("off", "cycle"):
            self.become("off", request)
        if request.verb in ("on", "cycle"):
            self.become("on", request)
        power = self.power()
        if power == "unknown":
            raise BmcError("it reports no power state of Redfish or IPMI", "answer")
        return MachineState(power, self.controller.boot())

    def boot_once(self, device: Device) -> MachineState:
        """Set an override, and read it back; after a lost answer only the reading counts."""
        power, lost = self.power(), None
        try:
            self.controller.set_boot(device)
        except LostAnswerError as error:
            lost = error
        boot = override_shown(self.controller, device, self.table)
        if boot.device != device:
            message = f"it accepted the request to boot from {device}, but its next boot reads {boot.device}"
            hint = "choose the boot device in its firmware's settings, or update its controller"
            raise lost or BmcError(message, "override", hint)
        notes = () if boot.once or device == "none" else ("it boots that way until `boot-once --device none`",)
        return MachineState(power, boot, notes)

    def become(self, state: Literal["on", "off"], request: Wish) -> None:
        """Request a power state until the machine has it.

        An operating system gets one request and the whole time. A request with a lost answer is not repeated.
        """
        reset: Reset = "on" if state == "on" else "hard-off" if request.hard else "off"
        if self.power() == state:
            return
        if state == "off" and (request.then_on or request.verb == "cycle"):
            self.controller.check_reset("on")
        quirk = first(self.table, "repeat-reset", tries=reset)
        tries, every_s = (quirk.tries[reset], quirk.every_s) if quirk else (1, _EVERY_S)
        each_s = min(quirk.wait_s if quirk else 0.0, request.limit_s)
        for attempt in range(1, tries + 1):
            lost = self.ask(reset)
            if self.reaches(state, request.limit_s if lost or attempt == tries else each_s, every_s):
                return
            if lost:
                raise lost
        if reset == "off":
            raise BmcError(
                f"it is still {self.last} {request.limit_s:g} s after the shutdown request to its operating system",
                "effect",
                "read its console; --hard switches it off at once",
            )
        raise BmcError(f"it answers with success, and is still {self.last} after {tries} requests", "effect")

    def ask(self, reset: Reset) -> LostAnswerError | None:
        """Ask for a change of power; return the error of an answer that is lost."""
        try:
            self.controller.reset(reset)
        except LostAnswerError as error:
            return error
        return None

    def reaches(self, state: Power, within_s: float, every_s: float) -> bool:
        """Return whether the machine reaches this state in time."""
        until = time.monotonic() + within_s
        while self.power() != state:
            if time.monotonic() >= until:
                return False
            time.sleep(min(every_s, max(0.0, until - time.monotonic())))
        return True
