"""Settings of slurm.conf as data: a release of Slurm is a file, `slurm/RELEASE.yaml`, made by a tool. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

Kind = Literal["text", "boolean", "uint16", "uint32", "uint64"]
Settings = Mapping[str, Kind]

_UNLIMITED = "unlimited|infinite"
_NUMBER = re.compile("(0x[0-9a-f]{1,16}|[0-9]{1,20})(k?)")
_BOOLEAN = re.compile("yes|no|true|false|1|0|up|down")
_BITS: Mapping[Kind, int] = {"uint16": 16, "uint32": 32, "uint64": 64}
_MODE = "off|cancel|requeue|suspend|on|cluster|gang|within|priority"
_SHARED = ("no|exclusive|(?:yes|force)(?::[1-9][0-9]{0,4})?", "NO, EXCLUSIVE, YES, FORCE, or a number too, as FORCE:4")
_LEVEL = (
    "[0-9]{1,2}|quiet|fatal|error|info|verbose|debug[2-5]?",
    "quiet, fatal, error, info, verbose, or debug to debug5",
)
_PRIVATE = "accounts?|cloud|events?|jobs?|nodes?|partitions?|reservations?|usage|users?"
# Settings whose text must have a certain form, in any case: slurmctld does not start with another one. Sources:
# slurm.conf(5) and read_config.c of Slurm 22.05 to 24.11. Slurm ignores other words of PrivateData. Lists with further
# words, such as DebugFlags or most plugins, are checked by slurmctld on the head.
_FORMS: Mapping[str, tuple[str, str]] = {
    "cpubind": ("no|none|off|(?:socket|ldom|core|thread)s?", "none, socket, ldom, core or thread"),
    "defaulttime": (
        rf"-1|(?:[0-9]{{1,4}}-)?[0-9]{{1,9}}(?::[0-9]{{1,9}}){{0,2}}|{_UNLIMITED}",
        "a time such as 30 (minutes), 01:00:00 or 2-00:00:00",
    ),
    "enforcepartlimits": ("all|any|no|yes|up|down|true|false|1|0", "ALL, ANY or NO"),
    "exclusive": ("no|none|node|user|topo", "NO, NODE, USER or TOPO"),
    "oversubscribe": _SHARED,
    "overtimelimit": (f"[0-9]{{1,5}}|{_UNLIMITED}", "minutes, or UNLIMITED"),
    "preemptmode": (f"(?:{_MODE})(?:,(?:{_MODE})){{0,3}}", "OFF, CANCEL, REQUEUE or SUSPEND"),
    "preempttype": (
        "preempt/(?:none|partition_prio|qos)",
        "preempt/none, preempt/partition_prio or preempt/qos",
    ),
    "prioritytype": ("priority/(?:basic|multifactor)", "priority/basic or priority/multifactor"),
    "privatedata": (
        f"none|all|(?:{_PRIVATE})(?:,(?:{_PRIVATE})){{0,8}}",
        "some of accounts, cloud, events, jobs, nodes, partitions, reservations, usage and users, with commas between",
    ),
    "schedulertype": ("sched/(?:backfill|builtin)", "sched/backfill or sched/builtin"),
    "selecttypeparameters": (
        "cr_(?:core|socket)(?:_memory)?",
        "CR_Core, CR_Core_Memory, CR_Socket or CR_Socket_Memory",
    ),
    "shared": _SHARED,
    "slurmctlddebug": _LEVEL,
    "slurmctldsyslogdebug": _LEVEL,
    "slurmddebug": _LEVEL,
    "slurmdsyslogdebug": _LEVEL,
    "suspendtime": ("-1|[0-9]{1,10}|none|infinite", "seconds, or INFINITE"),
}
# Numbers with narrower limits in slurmctld than their kind has.
_FIRST_AND_LAST: Mapping[str, tuple[int, int]] = {"firstjobid": (1, 2**32 - 1), "maxarraysize": (0, 4_000_001)}


class SlurmRelease(BaseModel):
    """The settings of a release in slurm.conf, spelled as in its own tables; case does not matter."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str  # the package that was read, with its version
    settings: dict[str, Kind]
    partition_settings: dict[str, Kind]  # parameters of lines that begin with PartitionName

    def knows(self, name: str) -> bool:
        """Return whether it has a setting of this name, in any case."""
        return kind_of(self.settings, name) is not None


def kind_of(settings: Settings, name: str) -> Kind | None:
    """Return the kind of a setting, in any case; None: there is no such setting."""
    return next((kind for setting, kind in settings.items() if setting.lower() == name.lower()), None)


def expected(name: str, kind: Kind, value: str) -> str | None:
    """Return what Slurm takes for a setting of a kind; None where it takes this value."""
    text = value.lower()
    form, words = _FORMS.get(name.lower(), ("", ""))
    if form and kind == "text":
        return None if re.fullmatch(form, text) else words
    if kind == "boolean":
        return None if _BOOLEAN.fullmatch(text) else "YES or NO"
    bounds = _FIRST_AND_LAST.get(name.lower())
    if kind not in _BITS or (not bounds and re.fullmatch(_UNLIMITED, text)):
        return None
    least, largest = bounds or (0, 2 ** _BITS[kind] - 1)
    number = _NUMBER.fullmatch(text)
    fits = number and not (number[2] and kind == "uint16")
    size = int(number[1], 0 if number[1].startswith("0x") else 10) * (1024 if number[2] else 1) if number else 0
    if fits and least <= size <= largest:
        return None
    return f"a whole number from {least} to {largest}" if bounds else f"a whole number to {largest}, or UNLIMITED"


def preemption_mistake(kind: str, mode: str) -> tuple[str, str] | None:
    """Return how PreemptType and PreemptMode, in lower case, contradict each other, and what to write; else None."""
    words = {*mode.split(",")}
    acts = words & {"cancel", "requeue", "suspend"}
    if words == {"suspend"}:
        return "PreemptMode SUSPEND needs GANG", "use SUSPEND,GANG, or REQUEUE or CANCEL"
    if kind == "preempt/none" and acts:
        message = f"PreemptMode {mode.upper()} needs a PreemptType other than preempt/none"
        return message, "add `PreemptType: preempt/partition_prio` or preempt/qos, or remove PreemptMode"
    if kind in ("preempt/partition_prio", "preempt/qos") and not acts:
        return f"{kind} needs a PreemptMode that is not OFF", "add `PreemptMode: REQUEUE`, or CANCEL or SUSPEND,GANG"
    return None
