"""What a machine's console says for good."""

from __future__ import annotations

import pytest

from hpcforge.lab.vm.machines import console_has_begun, gave_up

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


STUCK = """\
[    0.044000] tsc: Unable to calibrate against PIT
[   48.821449] watchdog: BUG: soft lockup - CPU#1 stuck for 45s! [migration/1:20]

"""


def test_a_machine_has_begun_when_somebody_other_than_its_kernel_says_something() -> None:
    assert not console_has_begun("")
    assert not console_has_begun(STUCK)
    assert not console_has_begun(f"{STUCK}[   50.")  # the rest of the line is to come
    assert console_has_begun(f"{STUCK}Loading, please wait...\n")
    assert console_has_begun(f"{STUCK}[   50.2] Kernel panic - not syncing: VFS: Unable to mount root fs\n")
