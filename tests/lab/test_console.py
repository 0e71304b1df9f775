"""What a machine's console says for good."""

from __future__ import annotations

import pytest

from hpcforge.lab.vm.console import gave_up, hangs

BOOTS = """\
[    0.000000] Linux version 6.1.0-40-cloud-amd64
Begin: Running /scripts/init-premount ... done.
[    9.100000] systemd[1]: Starting emergency.service would be another matter
Debian GNU/Linux 12 head ttyS0
"""


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("[    4.2] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)\n[    4.3] CPU: 0\n",
         "[    4.2] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)"),
        ("ALERT!  /dev/vda does not exist.  Dropping to a shell!\n\n(initramfs) ",
         "ALERT!  /dev/vda does not exist.  Dropping to a shell!"),
        ("mount: mounting /dev/vda on /root failed\nNo init found. Try passing init= bootarg.\n\n(initramfs) ",
         "No init found. Try passing init= bootarg."),
        ("\n\n(initramfs) ", "(initramfs)"),
        ("You are in emergency mode. After logging in, type x\r\nCannot open access to console\r\n",
         "You are in emergency mode. After logging in, type x"),
    ],
)  # fmt: skip
def test_one_that_gave_up_says_so_in_a_line(said: str, line: str) -> None:
    assert gave_up(BOOTS + said) == line


def test_one_that_boots_has_not() -> None:
    assert gave_up("") == gave_up(BOOTS) == ""


def test_a_line_without_an_end_is_cut() -> None:
    assert len(gave_up("(initramfs)" * 10_000)) == 200


STUCK = "[  %d.8] watchdog: BUG: soft lockup - CPU#1 stuck for %ds! [migration/1:20]\n"


def test_a_kernel_that_is_stuck_for_long_says_so_in_a_line() -> None:
    assert hangs(BOOTS + STUCK % (48, 45) + STUCK % (76, 71)) == gave_up(STUCK % (112, 105)) == ""
    assert hangs(BOOTS + STUCK % (76, 71) + STUCK % (112, 105)) == (STUCK % (112, 105)).strip()
