"""A machine by Redfish, and by ipmitool where its make is known for boot overrides that Redfish does not take.

Redfish is asked first, always: a later firmware may be right. Once it has refused an override or not kept it, ipmitool
sets it, and switches the machine too, since a controller may keep IPMI's boot flags only for IPMI's own power commands.
What `makes.yaml` does not name is never asked by IPMI, which has no certificates.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from hpcforge.metal.bmc import BmcError, Boot, Device, Login, LostAnswerError, Power, Reset
from hpcforge.metal.bmc.ipmi import Ipmi
from hpcforge.metal.bmc.quirk_table import Quirk, Table, fitting, quirks
from hpcforge.metal.bmc.redfish import Redfish
from hpcforge.metal.bmc.verbs import override_shown

IPMI_PORT = 623
_REFUSED = ("answer", "override")


class RedfishOrIpmi:
    """A controller that talks Redfish, and some IPMI; see `hpcforge.metal.bmc.Controller`."""

    def __init__(self, access: Login, table: Table | None = None, ipmi_port: int = IPMI_PORT) -> None:
        self._table = table or quirks()
        self._redfish = Redfish(access, self._table)
        self._ipmi: Ipmi | None = None  # None: Redfish is enough
        self._ipmi_port = ipmi_port
        self._uefi = True
        self._reason = "it forgets one"

    @property
    def quirks(self) -> Collection[str]:
        """Return its observed faults, by the names of quirks.yaml."""
        return (*self._redfish.quirks, *(self._ipmi.quirks if self._ipmi else ()))

    def power(self) -> Power:
        """Read the power state. Raises `BmcError`."""
        return self._redfish.power()

    def reset(self, kind: Reset) -> None:
        """Ask for a change of power. Raises `BmcError`."""
        (self._ipmi or self._redfish).reset(kind)

    def check_reset(self, kind: Reset) -> None:
        """Raise `BmcError` where it lists its changes of power, and none of this kind."""
        (self._ipmi or self._redfish).check_reset(kind)

    def boot(self) -> Boot:
        """Read the override of the next boot. Raises `BmcError`."""
        return self._ipmi.boot() if self._ipmi else self._redfish.boot()

    def set_boot(self, device: Device) -> None:
        """Ask for an override of the next boot. Raises `BmcError`."""
        if self._ipmi is None and (quirk := self._refusal(device)):
            self._ipmi = self._by_ipmi()
            self._redfish.note(quirk)
        if self._ipmi is not None:
            try:
                self._ipmi.set_boot(device)
            except BmcError as error:
                hint = error.hint or "allow IPMI over LAN in the controller's settings"
                raise BmcError(f"no boot override by Redfish ({self._reason}); {error}", error.reason, hint) from None
        elif device == "none" and self._may_use_ipmi():
            self._end_earlier_override()

    def _refusal(self, device: Device) -> Quirk | None:
        """Ask by Redfish; return the quirk for which it is for ipmitool now, None for none."""
        quirk = self._may_use_ipmi()
        if quirk:
            self._uefi = self._redfish.starts_by_uefi()  # read before a request that may change the answer
        try:
            self._redfish.set_boot(device)
        except BmcError as error:
            if error.reason not in _REFUSED or not quirk:
                raise
            if isinstance(error, LostAnswerError) and self._override_reads(device):
                return None
            self._reason = str(error).removeprefix(f"{self._redfish.access.address}: ")
            return quirk
        return quirk if quirk and not self._override_reads(device) else None

    def _may_use_ipmi(self) -> Quirk | None:
        """Return the quirk for which ipmitool may set an override of this make; None for none."""
        rows = fitting(self._table, "use-ipmi")
        return next((quirk for quirk in rows if quirk.make_action in self._redfish.actions), None)

    def _override_reads(self, device: Device) -> bool:
        return override_shown(self._redfish, device, self._table).device == device

    def _end_earlier_override(self) -> None:
        """End what another run may have set by ipmitool; where nothing answers to IPMI, none did."""
        try:
            self._by_ipmi().set_boot("none")
        except BmcError as error:
            if error.reason != "unreachable":
                raise

    def _by_ipmi(self) -> Ipmi:
        return Ipmi(replace(self._redfish.access, port=self._ipmi_port), uefi=self._uefi, table=self._table)
