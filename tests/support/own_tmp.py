"""A /tmp of a test's own, in a mount namespace: what users leave there must not be this machine's."""

import shlex
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def own_tmp() -> str:
    """The shell commands that mount it; this checkout stays where it is, also where that is below /tmp."""
    if not _ROOT.is_relative_to("/tmp"):
        return "mount -t tmpfs none /tmp"
    root = shlex.quote(str(_ROOT))
    keep = f"mount -t tmpfs none /mnt && mkdir /mnt/kept && mount --bind {root} /mnt/kept"
    return f"{keep} && mount -t tmpfs none /tmp && mkdir -p {root} && mount --bind /mnt/kept {root}"
