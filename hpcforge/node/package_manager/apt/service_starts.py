"""Holding back service starts while packages are installed: nothing runs before it is configured.

Debian's maintainer scripts ask /usr/sbin/policy-rc.d. Ours is put there for the time of the transaction and what was
there is put back, also after a run that was killed: the next one finds our mark.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

POLICY = Path("/usr/sbin/policy-rc.d")
MARK = "# put here by hpcforge while it installs packages; the next `hpcforge apply` removes it if it was left"

# Stopping is allowed, and so is restarting what runs: an upgraded package must not leave its old daemon behind.
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
    """Hold service starts for the time of a `with` block."""
    saved = _saved(policy)
    if not _ours(policy):
        if os.path.lexists(policy):
            with contextlib.suppress(FileNotFoundError):
                saved.unlink()  # of a run that was killed before ours was in place
            os.link(policy, saved, follow_symlinks=False)
        _put(policy)
    try:
        yield
    finally:
        release(policy)


def release(policy: Path = POLICY) -> None:
    """Put back what was there; nothing happens where the policy is not ours."""
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
