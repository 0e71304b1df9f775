"""Forms of the kernel's lines on errors of NVSwitches, with their sources; places, links and numbers are ours."""

from __future__ import annotations

import json
from typing import NamedTuple


class Form(NamedTuple):
    """A form of line: what follows the switch, the error's number, and its kind; "" where no error is to be read."""

    line: str
    kind: str = ""  # fatal, other
    number: int = 0


PLACE = "0000:a3:00"
_AT = f"nvidia-nvswitch2: SXid (PCI:{PLACE}.0): "
_NINE = ", ".join(["0x00000500"] * 9)
# Sources. guide: NVIDIA Fabric Manager user guide, "Runtime NVSwitch and GPU Errors" and "Error Handling". driver:
# NVIDIA/open-gpu-kernel-modules, src/common/nvswitch/kernel (error_nvswitch.h and .c, intr_nvswitch.h, and callers of
# NVSWITCH_PRINT_SXID for heat and registers). gpud: leptonai/gpud, pull request 338 and components/accelerator/nvidia.
# red hat: access.redhat.com/solutions/6619941. nvtrust: NVIDIA/nvtrust, issue 124 (driver 570). sentinel: tests of
# NVIDIA/NVSentinel.
FORMS = {
    "red hat: a link went down": Form(f"{_AT}20034, Fatal, Link 17 LTSSM Fault Up", "fatal", 20034),
    "red hat: its severity": Form(f"{_AT}20034, Severity 1 Engine instance 17 Sub-engine instance 00", "fatal", 20034),
    "gpud: its data": Form(f"{_AT}20034, Data {{{_NINE}}}"),
    "guide: not fatal": Form(f"{_AT}28006, Non-fatal, Link 41 MC TS crumbstore MCTO (First)", "other", 28006),
    "guide: the same word otherwise": Form(f"{_AT}28006, Non-Fatal, Link 41 MC TS crumbstore MCTO", "other", 28006),
    "guide: severity of one": Form(f"{_AT}28006, Severity 0 Engine instance 41 Sub-engine instance 00"),
    "guide: data of eight words (older driver)": Form(f"{_AT}28006, Data {{{_NINE[:-12]}}}"),
    "nvtrust: ignored by NVIDIA": Form(f"{_AT}22013, Non-fatal, Link 00 Minion Link DLREQ interrupt", "other", 22013),
    "gpud: a GPU stalls": Form(f"{_AT}12028, Non-fatal, Link 32 egress non-posted PRIV error (First)", "other", 12028),
    "guide: access denied": Form(f"{_AT}11004, Non-fatal, Link 40 ingress invalid ACL (First)", "other", 11004),
    "sentinel: a timeout": Form(f"{_AT}24007, Fatal, Link 28 sourcetrack timeout error (First)", "fatal", 24007),
    "sentinel: an error rate": Form(f"{_AT}20009, Non-fatal, Link 04 RX Short Error Rate", "other", 20009),
    "driver: no link": Form(f"{_AT}10003, Fatal, unhandled interrupt in _nvswitch_service_npg(812)", "fatal", 10003),
    "driver: register, not fatal": Form(f"{_AT}10001, Non-fatal, PRI error, instance=3, chiplet=1", "other", 10001),
    "driver: register, fatal": Form(f"{_AT}10002, Fatal, PRI timeout, instance=0, chiplet=2", "fatal", 10002),
    "driver: corrected on a link": Form(f"{_AT}11012, Correctable, Link 09 ingress header ECC (First)", "other", 11012),
    "driver: corrected": Form(f"{_AT}10004, Correctable, thermal alert: throttling enabled.", "other", 10004),
    "driver: heat, no severity": Form(
        f"{_AT}10004, NVSWITCH Temperature 96C | TSENSE WARN Threshold 95C", "other", 10004
    ),
    "driver: shutdown": Form(f"{_AT}10006, TSENSE OVERT Threshold reached. Shutting Down", "fatal", 10006),
    "driver: unreadable": Form(f"{_AT}10007, IO failure", "fatal", 10007),
    "driver: five digits at least": Form(f"{_AT}00042, Fatal, Link 01 unknown", "fatal", 42),
    "twelve switches": Form(f"nvidia-nvswitch11: SXid (PCI:{PLACE}.0): 23001, Fatal, Link 02 x", "fatal", 23001),
    # What is none: of a user, or garbled.
    "within another line": Form(f"traps: x[7] says {_AT}20034, Fatal, Link 17 LTSSM Fault Up"),
    "a program of that name": Form("nvidia-nvswitch[77]: segfault at 0 ip 0 sp 0 error 4: SXid (PCI:0): 20034, Fatal"),
    "no number": Form(f"{_AT}garbled, Fatal"),
    "too long a number": Form(f"{_AT}20034200342003420034, Fatal, Link 17"),
    "no place": Form("nvidia-nvswitch2: SXid (PCI:::::::): 20034, Fatal, Link 17"),
    "no end": Form(f"nvidia-nvswitch2: SXid (PCI:{'0' * 100_000}"),
    "Xid": Form("NVRM: Xid (PCI:0000:3b:00): 74, pid=1, NVLink: fatal error detected on link 6"),
}


def entry(message: object, time_s: float = 1000, uptime_s: float = 100) -> str:
    """A message as journalctl prints it in JSON; one that is not text is a list of bytes there."""
    times = {"__REALTIME_TIMESTAMP": str(int(time_s * 1e6)), "__MONOTONIC_TIMESTAMP": str(int(uptime_s * 1e6))}
    return json.dumps({**times, "MESSAGE": message})
