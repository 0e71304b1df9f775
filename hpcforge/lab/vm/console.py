"""What a machine's console says, as far as it matters to who waits for the machine. Pure."""

from __future__ import annotations

import re

# After any of these nothing follows: the kernel's own, initramfs-tools' before and at its shell, systemd's.
_LAST_WORDS = (
    "Kernel panic - not syncing",
    "Dropping to a shell!",
    "No init found.",
    "(initramfs)",
    "You are in emergency mode",
)
_KERNELS = re.compile(r"\[ *\d+\.\d+\] ")
_SHOWN = 200  # characters of a line


def gave_up(text: str) -> str:
    """The line in which a machine says that it will not come up; "" where it has not said so."""
    lines = (line.strip()[:_SHOWN] for line in text.splitlines())
    return next((line for line in lines if any(words in line for words in _LAST_WORDS)), "")


def has_begun(text: str) -> bool:
    """Whether a program runs in a machine, or it gave up: something is said that is not its kernel's, or its last."""
    whole = text.rpartition("\n")[0]
    said = [line for line in whole.splitlines() if line.strip() and not _KERNELS.match(line)]
    return bool(said or gave_up(text))
