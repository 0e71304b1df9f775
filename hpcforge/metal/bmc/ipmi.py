"""A machine by IPMI over LAN, with ipmitool. There are no certificates: the inventory must select it.

ipmitool gets the password in its environment, never in its arguments, which every user of this machine can read.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from hpcforge.metal.bmc import BmcError, Boot, Device, Login, Power, Reason, Reset
from hpcforge.metal.bmc.quirk_table import Table, fitting, quirks

_LIMIT_S = 30.0
_RESETS: Mapping[Reset, str] = {"on": "on", "off": "soft", "hard-off": "off"}
_DEVICES: Mapping[Device, str] = {"network": "pxe", "disk": "disk", "none": "none"}
# Set System Boot Options (IPMI 2.0, 28.12): keeps the flags of the next boot longer than 60 s; and flags for one boot
# by UEFI, which `bootdev` has only as an option that some controllers do not support.
_KEEP_FLAGS = ("raw", "0x00", "0x08", "0x03", "0x08")
_BY_UEFI = ("raw", "0x00", "0x08", "0x05", "0xa0")
_UEFI_DEVICES: Mapping[Device, str] = {"network": "0x04", "disk": "0x08"}
_SAID: Mapping[str, Device] = {"Force PXE": "network", "Force Boot from default Hard-Drive": "disk"}


class Ipmi:
    """A controller that talks IPMI; see `hpcforge.metal.bmc.Controller`."""

    def __init__(self, access: Login, *, uefi: bool = False, table: Table | None = None) -> None:
        self.access = access
        self._table = table or quirks()
        self._uefi = uefi  # True: its firmware starts by UEFI; False: as the firmware is set
        self.quirks: dict[str, None] = {}

    def power(self) -> Power:
        """Read the power state. Raises `BmcError`."""
        answer = self._ask("chassis", "power", "status").strip().lower()
        return "on" if answer.endswith("is on") else "off" if answer.endswith("is off") else "unknown"

    def reset(self, kind: Reset) -> None:
        """Ask for a change of power. Raises `BmcError`."""
        self._ask("chassis", "power", _RESETS[kind])

    def check_reset(self, kind: Reset) -> None:
        """Do nothing: IPMI lists no changes of power."""

    def boot(self) -> Boot:
        """Read the override of the next boot. Raises `BmcError`."""
        lines = [line.strip().lstrip("- ") for line in self._ask("chassis", "bootparam", "get", "5").splitlines()]
        chosen = next((line.partition(":")[2].strip() for line in lines if line.startswith("Boot Device Selector")), "")
        device = _SAID.get(chosen, "none")
        for quirk in fitting(self._table, "report-missing") if device != "none" else ():
            if quirk.line not in lines:
                self.quirks[quirk.name] = None
        return Boot(device, once=device != "none" and "Options apply to only next boot" in lines)

    def set_boot(self, device: Device) -> None:
        """Ask for an override of the next boot. Raises `BmcError`."""
        if device != "none":
            try:
                self._ask(*_KEEP_FLAGS)
            except BmcError as error:
                if error.reason != "answer":
                    raise
                self.quirks |= dict.fromkeys(quirk.name for quirk in fitting(self._table, "accept-short-flags"))
        if self._uefi and device in _UEFI_DEVICES:
            self._ask(*_BY_UEFI, _UEFI_DEVICES[device], "0x00", "0x00", "0x00")
        else:
            self._ask("chassis", "bootdev", _DEVICES[device])

    def _ask(self, *words: str) -> str:
        access = self.access
        argv = ["ipmitool", "-I", "lanplus", "-C", str(access.cipher_suite), "-H", access.address]
        argv += ["-p", str(access.port), "-U", access.user, "-E", *words]
        own = {"IPMITOOL_PASSWORD": access.password, "IPMI_PASSWORD": access.password, "LC_ALL": "C"}
        try:
            process = subprocess.run(
                argv,
                env={**os.environ, **own},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LIMIT_S,
                check=False,
            )
        except FileNotFoundError:
            raise BmcError("ipmitool is not installed here", "answer", "apt-get install ipmitool") from None
        except subprocess.TimeoutExpired:
            raise BmcError(f"{access.address}: no answer to IPMI within {_LIMIT_S:g} s", "unreachable") from None
        if process.returncode:
            message = process.stderr.decode("utf-8", "replace").strip()[:200] or f"exit status {process.returncode}"
            reason: Reason = "unreachable" if "Unable to establish" in message else "answer"
            raise BmcError(f"{access.address}: ipmitool: {message}", reason)
        return process.stdout.decode("utf-8", "replace")
