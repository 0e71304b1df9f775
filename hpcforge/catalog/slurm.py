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
# Text that Slurm takes in certain forms only: slurmctld does not start with another. Case does not count.
_FORMS: Mapping[str, tuple[str, str]] = {
    "cpubind": ("no|none|off|(?:socket|ldom|core|thread)s?", "none, socket, ldom, core or thread"),
    "defaulttime": (
        rf"-1|(?:[0-9]{{1,4}}-)?[0-9]{{1,9}}(?::[0-9]{{1,9}}){{0,2}}|{_UNLIMITED}",
        "a time such as 30 (minutes), 01:00:00 or 2-00:00:00",
    ),
    "exclusive": ("no|none|node|user|topo", "NO, NODE, USER or TOPO"),
    "oversubscribe": _SHARED,
    "overtimelimit": (f"[0-9]{{1,5}}|{_UNLIMITED}", "minutes, or UNLIMITED"),
    "preemptmode": (f"(?:{_MODE})(?:,(?:{_MODE})){{0,3}}", "OFF, CANCEL, REQUEUE or SUSPEND"),
    "selecttypeparameters": (
        "cr_(?:core|socket)(?:_memory)?",
        "CR_Core, CR_Core_Memory, CR_Socket or CR_Socket_Memory",
    ),
    "shared": _SHARED,
    "suspendtime": ("-1|[0-9]{1,10}|none|infinite", "seconds, or INFINITE"),
}


class SlurmRelease(BaseModel):
    """What a release takes in slurm.conf, spelled as its own tables have it; the case of names does not count."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str  # the package that it was read from, with its version
    settings: dict[str, Kind]
    partition_settings: dict[str, Kind]  # of lines that begin with PartitionName

    def knows(self, name: str) -> bool:
        """Whether it takes a setting of this name, in whatever case."""
        return kind_of(self.settings, name) is not None


def kind_of(settings: Settings, name: str) -> Kind | None:
    """The kind of a setting, in whatever case it is written; None: there is no such setting."""
    return next((kind for known, kind in settings.items() if known.lower() == name.lower()), None)


def expected(name: str, kind: Kind, value: str) -> str | None:
    """What Slurm takes for a setting of a kind; None where it takes this value."""
    text = value.lower()
    form, words = _FORMS.get(name.lower(), ("", ""))
    if form and kind == "text":
        return None if re.fullmatch(form, text) else words
    if kind == "boolean":
        return None if _BOOLEAN.fullmatch(text) else "YES or NO"
    if kind not in _BITS or re.fullmatch(_UNLIMITED, text):
        return None
    largest = 2 ** _BITS[kind] - 1
    number = _NUMBER.fullmatch(text)
    fits = number and not (number[2] and kind == "uint16")
    size = int(number[1], 0 if number[1].startswith("0x") else 10) * (1024 if number[2] else 1) if number else 0
    return None if fits and size <= largest else f"a whole number to {largest}, or UNLIMITED"
