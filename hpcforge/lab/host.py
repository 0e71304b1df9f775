"""What a lab needs of the host."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from hpcforge.lab.commands import PATH
from hpcforge.lab.errors import LabError
from hpcforge.lab.kinds import LabBackend

# Package -> a program it brings; of every lab, whatever its nodes are.
_PACKAGES = {
    "apt-cacher-ng": "apt-cacher-ng",
    "iproute2": "ip",
    "openssh-client": "ssh-keygen",
    "util-linux": "setpriv",
}


def host_packages(kind: LabBackend) -> dict[str, str]:
    """The Debian packages that a host of such labs needs, and a program that each brings."""
    return {**kind.PACKAGES, **_PACKAGES}


def missing_host_packages(kind: LabBackend) -> tuple[str, ...]:
    """Those of them that are not installed here."""
    return tuple(package for package, brings in host_packages(kind).items() if not _there(brings))


def _there(brings: str) -> bool:
    return Path(brings).exists() if brings.startswith("/") else shutil.which(brings, path=PATH) is not None


def require_root() -> None:
    """`LabError` unless we are root."""
    if os.geteuid() != 0:
        raise LabError("this needs root: it mounts file systems and starts containers", "run the same with sudo")


def require_programs(kind: LabBackend) -> None:
    """Check the host's programs. Raises `LabError` with the missing packages."""
    if missing := missing_host_packages(kind):
        raise LabError(
            f"this host lacks packages for labs: {', '.join(missing)}",
            f"apt-get install --no-install-recommends {' '.join(missing)}",
        )
