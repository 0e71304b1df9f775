"""What apt would remove, as it says on Debian 12, and by what this machine's own apt says."""

import subprocess

import pytest

from hpcforge.node import observe
from hpcforge.node.package_manager import Foreseen
from hpcforge.node.package_manager.apt import simulation as apt_simulation

SAYS = """\
The following packages will be REMOVED:
  systemd-timesyncd
Remv systemd-timesyncd [252.39-1~deb12u2]
Purg old:i386 [1]
Inst chrony (4.3-2+deb12u3 Debian:12.15/oldstable [amd64])
Conf chrony (4.3-2+deb12u3 Debian:12.15/oldstable [amd64])
"""
_HOLDER = """\
import fcntl, time
lock = open("/var/lib/dpkg/lock-frontend", "w")
fcntl.lockf(lock, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


def test_what_goes_by_what_apt_says():
    assert apt_simulation.leaving(SAYS) == {"systemd-timesyncd", "old"}
    assert apt_simulation.leaving("Inst chrony (4.3)\n") == frozenset()


def test_names_of_unknown_packages():
    lines = ["E: Unable to locate package nonexistent-foo", "E: Package 'slurm-llnl' has no installation candidate"]
    assert apt_simulation.unknown(lines) == {"nonexistent-foo", "slurm-llnl"}


def test_a_package_that_no_source_has_is_not_judged():
    found = apt_simulation.foresee(["hpcforge-nosuchpackage"])
    assert found == Foreseen({}, frozenset({"hpcforge-nosuchpackage"}))


def test_nothing_is_locked_and_nothing_goes_for_what_is_there():
    """With dpkg's lock held by somebody else, as it may be whenever a plan looks."""
    with subprocess.Popen(["python3", "-c", _HOLDER], stdout=subprocess.PIPE) as held:
        try:
            assert held.stdout
            assert held.stdout.readline()
            assert apt_simulation.foresee(["dpkg", "apt"]) == Foreseen({}, frozenset())
        finally:
            held.kill()


@pytest.mark.parametrize(("packages", "removes"), [(["chrony"], ["systemd-timesyncd"]), (["ntpsec"], []), ([], [])])
def test_a_role_is_told_of_what_goes_for_its_own(packages, removes):
    foreseen = {"removes": {"systemd-timesyncd": ["chrony"]}, "unforeseen": frozenset({"nosuch"})}
    told = observe._removals_for({"role": "time", "packages": packages}, foreseen)
    assert [one["name"] for one in told["removes"]] == removes
    assert told["unforeseen"] == []
