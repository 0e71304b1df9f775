"""Prevention of service starts during the installation of packages: nothing runs before it is configured.

Debian's maintainer scripts call /usr/sbin/policy-rc.d. hpcforge replaces it during the transaction and then restores
the old one, also after a killed run: the next run recognizes hpcforge's by its mark.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

POLICY = Path("/usr/sbin/policy-rc.d")
MARK = "# put here by hpcforge while it installs packages; the next `hpcforge apply` removes it if it was left"

# It allows to stop services, and to restart running ones: an upgraded package must not leave its old daemon running.
SCRIPT = f"""#!/bin/sh
{MARK}
[ "$1" = --quiet ] && shift
case "$2" in
stop) exit 0 ;;
*restart* | *reload*) systemctl is-active --quiet -- "$1" && exit 0 ;;
esac
exit 101
"""


@contextlib.contextmanager
def held(policy: Path = POLICY) -> Iterator[None]:
    """Prevent service starts during a `with` block."""
    saved = _saved(policy)
    if not _ours(policy):
        if os.path.lexists(policy):
            with contextlib.suppress(FileNotFoundError):
                saved.unlink()  # from a run that was killed before hpcforge's was in place
            os.link(policy, saved, follow_symlinks=False)
        _put(policy)
    try:
        yield
    finally:
        release(policy)


def release(policy: Path = POLICY) -> None:
    """Restore the old policy; do nothing if the present one is not hpcforge's."""
    if not _ours(policy):
        return
    saved = _saved(policy)
    if os.path.lexists(saved):
        saved.replace(policy)
    else:
        policy.unlink()


def _saved(policy: Path) -> Path:
    return policy.with_name(policy.name + ".hpcforge-saved")


def _ours(policy: Path) -> bool:
    try:
        return MARK in policy.read_text("utf-8", "replace")
    except OSError:
        return False


def _put(policy: Path) -> None:
    temporary = policy.with_name(policy.name + ".hpcforge-new")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o755)
    with os.fdopen(fd, "w") as file:
        file.write(SCRIPT)
        os.fchmod(fd, 0o755)
        os.fsync(fd)
    temporary.replace(policy)
