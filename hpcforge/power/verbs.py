"""What people ask for, on one machine, until it is seen to be so."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hpcforge.power import BmcError, Boot, Controller, Device, Power, Quirk, Reset, quirks

Verb = Literal["on", "off", "cycle", "status", "boot-once"]


@dataclass(frozen=True)
class Wish:
    """A verb and its options."""

    verb: Verb
    hard: bool = False  # off at once, not by the operating system
    device: Device = "network"  # of boot-once
    limit_s: float = 180.0  # within which the operating system has to shut down, or a machine to come on


@dataclass(frozen=True)
class MachineState:
    """How it is now."""

    power: Power
    boot: Boot
    notes: tuple[str, ...] = ()


def carry_out(controller: Controller, wish: Wish, table: Mapping[str, Quirk] | None = None) -> MachineState:
    """Do what is asked for and see that it is so. Raises `BmcError`."""
    table = table or quirks()
    if wish.verb == "boot-once":
        return _boot_once(controller, wish.device)
    if wish.verb in ("off", "cycle"):
        _become(controller, "off", "hard-off" if wish.hard else "off", wish.limit_s, table["no-effect"])
    if wish.verb in ("on", "cycle"):
        _become(controller, "on", "on", wish.limit_s, table["no-effect"])
    state = MachineState(controller.power(), controller.boot())
    if state.power == "unknown":
        raise BmcError("it tells no power state that Redfish or IPMI has", "answer")
    return state


def _boot_once(controller: Controller, device: Device) -> MachineState:
    controller.set_boot(device)
    now = controller.boot()
    if now.device != device:
        why = f"it took the request to boot from {device}, and forgot it: its next boot reads {now.device}"
        raise BmcError(why, "override", "choose the boot device in its firmware's settings, or update its controller")
    notes = () if now.once or device == "none" else ("it boots that way until `boot-once --device none`",)
    return MachineState(controller.power(), now, notes)


def _become(controller: Controller, wanted: Power, reset: Reset, limit_s: float, no_effect: Quirk) -> None:
    """Ask for a power state until it is there. An operating system is asked once, and has all the time."""
    if controller.power() == wanted:
        return
    tries = 1 if reset == "off" else no_effect.tries
    each_s = limit_s if tries == 1 else min(no_effect.wait_s, limit_s)
    for attempt in range(tries):
        controller.reset(reset)
        last = attempt == tries - 1
        if _seen(controller, wanted, limit_s if last else each_s, no_effect.every_s):
            return
    state = controller.power()
    if reset == "off":
        raise BmcError(
            f"it is still {state} {limit_s:g} s after its operating system was asked to shut down",
            "effect",
            "look at its console; --hard switches it off at once",
        )
    raise BmcError(f"it answers with success, and is still {state} after {tries} requests", "effect")


def _seen(controller: Controller, wanted: Power, within_s: float, every_s: float) -> bool:
    until = time.monotonic() + within_s
    while True:
        if controller.power() == wanted:
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(min(every_s, max(0.0, until - time.monotonic())))
