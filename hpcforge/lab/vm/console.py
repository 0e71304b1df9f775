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
# A host that is busy holds a processor up, too, and lets it go on; the kernel tells every 20 to 30 s how long it was.
_STUCK = re.compile(r"soft lockup - CPU#\d+ stuck for (\d+)s!")
_STUCK_S = 100
_SHOWN = 200  # characters of a line


def gave_up(text: str) -> str:
    """The line in which a machine says that it will not come up; "" where it has not said so."""
    lines = (line.strip()[:_SHOWN] for line in text.splitlines())
    return next((line for line in lines if any(words in line for words in _LAST_WORDS)), "")


def hangs(text: str) -> str:
    """The line in which a kernel says that a processor has done nothing else for 100 s; "" where it has not said so."""
    lines = (line.strip()[:_SHOWN] for line in text.splitlines())
    return next((line for line in lines for told in _STUCK.findall(line) if int(told) >= _STUCK_S), "")
