"""The host's setting that containers need, as long as a lab exists: they share its kernel."""

from __future__ import annotations

import json
from pathlib import Path

from hpcforge.atomic import write_atomically
from hpcforge.host.paths import STATE
from hpcforge.lab.names import lab_names

# systemd in a node uses about 8 instances: the kernel's default of 128 ends at the 17th node.
_INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")
_WANTED = 4096


def raise_limit() -> None:
    """Allow enough inotify instances for many nodes. Call under the host lock; doing it again is harmless."""
    current = int(_INSTANCES.read_text())
    if current >= _WANTED:
        return
    # Recorded before the change, so that a crash in between loses nothing. A record from before a reboot may be out of
    # date; the present value is then the host's own.
    write_atomically(_record(), json.dumps({"boot_id": _boot_id(), "before": current, "set": _WANTED}))
    _INSTANCES.write_text(str(_WANTED))


def restore_limit() -> None:
    """Restore the limit if no lab is left and no other program changed it. Call under the host lock."""
    if lab_names() or not _record().exists():
        return
    record = json.loads(_record().read_text())
    if record["boot_id"] == _boot_id() and int(_INSTANCES.read_text()) == record["set"]:
        _INSTANCES.write_text(str(record["before"]))
    _record().unlink()


def _record() -> Path:
    return STATE / "inotify.json"


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
