"""What a lab needs of the host, and what it changes there for as long as any lab is up."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from hpcforge.atomic import write_atomically
from hpcforge.lab.commands import PATH
from hpcforge.lab.errors import LabError
from hpcforge.lab.places import STATE, lab_names

# Package -> a program it brings.
_PACKAGES = {
    "mmdebstrap": "mmdebstrap",
    "systemd-container": "systemd-nspawn",
    "apt-cacher-ng": "apt-cacher-ng",
    "debian-archive-keyring": "/usr/share/keyrings/debian-archive-keyring.gpg",
    "iproute2": "ip",
    "openssh-client": "ssh-keygen",
    "util-linux": "unshare",
}

# systemd in a node takes about 8 instances, so the kernel's default of 128 ends at the 17th node.
_INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
_INOTIFY_WANTED = 4096


def required_host_packages() -> tuple[str, ...]:
    """The Debian packages that a host of labs needs."""
    return tuple(_PACKAGES)


def missing_host_packages() -> tuple[str, ...]:
    """Those of them that are not installed here."""
    return tuple(package for package, brings in _PACKAGES.items() if not _there(brings))


def _there(brings: str) -> bool:
    return Path(brings).exists() if brings.startswith("/") else shutil.which(brings, path=PATH) is not None


def require_root() -> None:
    """`LabError` unless we are root."""
    if os.geteuid() != 0:
        raise LabError("a lab needs root: it mounts file systems and starts containers", "run the same with sudo")


def require_programs() -> None:
    """`LabError` naming the packages that are missing."""
    if missing := missing_host_packages():
        raise LabError(
            f"this host lacks what a lab is made of: {', '.join(missing)}",
            f"apt-get install --no-install-recommends {' '.join(missing)}",
        )


def raise_inotify_limit() -> None:
    """Allow enough inotify instances for many nodes. Call under the host lock; doing it again is harmless."""
    current = int(_INOTIFY.read_text())
    if current >= _INOTIFY_WANTED:
        return
    # Written down before the change, so that a crash in between loses nothing. A value noted before a reboot may be
    # out of date; the one we see now is then the host's own.
    write_atomically(_record(), json.dumps({"boot_id": _boot_id(), "before": current, "set": _INOTIFY_WANTED}))
    _INOTIFY.write_text(str(_INOTIFY_WANTED))


def restore_inotify_limit() -> None:
    """Put the limit back if no lab is left and nobody else changed it since. Call under the host lock."""
    if lab_names() or not _record().exists():
        return
    record = json.loads(_record().read_text())
    if record["boot_id"] == _boot_id() and int(_INOTIFY.read_text()) == record["set"]:
        _INOTIFY.write_text(str(record["before"]))
    _record().unlink()


def _record() -> Path:
    return STATE / "inotify.json"


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
