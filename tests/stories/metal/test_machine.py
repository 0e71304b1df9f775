"""Machines without an operating system become a cluster: QEMU without KVM, BIOS and UEFI, alone and three at once."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hpcforge.cli.exit_codes import Exit
from hpcforge.metal.install import PHASES
from tests.support.fake_bmc import SYSTEM
from tests.support.metal_machines import BRIDGE, COMMON, ONE, THREE, Machine, image_of, metal, wait_for_ssh
from tests.support.pxe_client import dhcp_server

pytestmark = [pytest.mark.lab, pytest.mark.metal]

SITES, OWN = "10.99.78.2", "hf-metal-d"
MIB = 1 << 20
TWO = f"""{COMMON}
nodes:
  w1: {{functions: [head], hardware: rehearsal-node, addresses: 10.99.78.11}}
  w2: {{functions: [worker], hardware: rehearsal-node, addresses: 10.99.78.12}}
overrides:
  w1: {{memory_gib: 1, reason: "the host has little"}}
  w2: {{memory_gib: 1, reason: "the host has little"}}
"""
# A site's own partition, and two of which one lies below the other.
MIRRORED = f"""{COMMON}
nodes:
  w1:
    functions: [head, worker]
    hardware: rehearsal-node
    addresses: 10.99.78.11
    system_disk: {{drives: 2, partitions_gib: {{/var: 3, /var/log: 1, /scratch: 2}}}}
overrides: {{w1: {{memory_gib: 1, reason: "the host has little"}}}}
"""


@contextmanager
def sites_dhcp(folder: Path, machines: Sequence[Machine]) -> Iterator[None]:
    """A site's own server on the machines' network, which knows nothing of network boot."""
    try:
        for line in (f"netns add {OWN}", f"link add {OWN} type veth peer name net netns {OWN}",
                     f"link set {OWN} master {BRIDGE} up", f"-n {OWN} address add {SITES}/24 dev net",
                     f"-n {OWN} link set net up"):  # fmt: skip
            subprocess.run(["ip", *line.split()], check=True)
        hosts = "".join(f"dhcp-host={one.mac},10.99.78.1{one.number}\n" for one in machines)
        with dhcp_server(OWN, "net", f"dhcp-range=10.99.78.200,10.99.78.220,1h\n{hosts}", folder) as check:
            yield
            check()
    finally:
        subprocess.run(["ip", "netns", "del", OWN], check=False)


def times(events: Sequence[dict[str, Any]], began_s: float) -> str:
    """Return a table of seconds: each machine's phases, when ssh answered and its last role was done."""
    lines = [f"{'node':<6}" + "".join(f"{name:>10}" for name in (*PHASES, "to ssh", "roles at"))]
    for event in (event for event in events if event["event"] == "installed"):
        phases = event["phases_s"]
        ended_s = max(one["time_s"] for one in events if one["event"] == "settled" and one["node"] == event["node"])
        numbers = (*(phases[name] for name in PHASES), sum(phases.values()), ended_s - began_s)
        lines.append(f"{event['node']:<6}" + "".join(f"{number:>10.0f}" for number in numbers))
    lines.append(f"tested at {events[-1]['time_s'] - began_s:.0f} s")
    return "\n".join(lines)


def test_apply_makes_a_cluster_of_a_machine_and_of_the_next_with_its_name(tmp_path: Path) -> None:
    with metal(tmp_path, [Machine(tmp_path)], ONE) as there:
        image = image_of(there)
        install = ("--install", "w1", "--image", image)
        said = there.hpcforge("plan", "SITE", *install, code=2)
        assert "install  w1\n" in said and "writes a blank disk; nothing is written where none is blank" in said
        there.hpcforge("apply", "SITE", *install, "--yes")
        assert there.ssh("hostname && sudo -n id -u && systemctl is-system-running") == "w1\n0\nrunning\n"
        assert there.ssh("id -u; id -g") == "1900\n1900\n"  # as the blueprint has it
        assert there.ssh("sinfo -h -o %T") == "idle\n"
        assert there.ssh("cd / && sudo -u ada srun -n 2 hostname") == "w1\nw1\n"
        assert "not installed: its host key is recorded" in there.hpcforge("plan", "SITE", *install)
        there.hpcforge("nodes", "replace", "SITE", "w1", "--same-machine", "--yes")
        assert "ssh answers at 10.99.78.11" in there.hpcforge("apply", "SITE", *install, "--yes", code=4)
        said = there.hpcforge("apply", "SITE", *install, "--wipe", "w1=OTHER", "--yes", code=5)
        assert "an earlier installation is on vda (serial number QM0001)" in said
        there.hpcforge("apply", "SITE", *install, "--wipe", "w1=QM0001", "--yes")
        assert there.ssh("sinfo -h -o %T") == "idle\n"


def test_a_controller_with_settings_installs_and_one_without_an_override_is_named_within_one_boot(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path, does=("settings-resource", "several-systems", "redirects"))
    with metal(tmp_path, [machine], ONE) as there:
        install = ("apply", "SITE", "--install", "w1", "--image", image_of(there), "--yes")
        began_s = time.monotonic()
        there.hpcforge(*install)
        print(f"installed, with all roles: {(time.monotonic() - began_s) / 60:.1f} minutes", flush=True)
        assert there.ssh("sinfo -h -o %T") == "idle\n"
        assert {path for path, _ in there.bmcs[0].patches} == {f"{SYSTEM}/Settings"}
        there.hpcforge("nodes", "replace", "SITE", "w1", "--same-machine", "--yes")
        again, starts = (*install, "--wipe", "w1=QM0001"), machine.started
        there.bmcs[0].does = (*machine.does, "forgets-the-override")
        assert "accepted the request to boot from network, but its next boot" in there.hpcforge(*again, code=5)
        there.bmcs[0].does = (*machine.does, "forgets-when-off")
        assert "lost the request to boot from the network when it was switched off" in there.hpcforge(*again, code=5)
        assert machine.started == starts
        there.bmcs[0].does, machine.overrides = machine.does, False
        began_s = time.monotonic()
        assert "it started from its own disk" in there.hpcforge(*again, code=5)
        print(f"named: {time.monotonic() - began_s:.0f} s", flush=True)
        assert machine.started == starts + 1


def test_a_machine_with_uefi_that_tries_the_network_first_starts_from_its_disk(tmp_path: Path) -> None:
    with metal(tmp_path, [Machine(tmp_path, uefi=True, network_first=True)], ONE) as there:
        there.hpcforge("apply", "SITE", "--install", "w1", "--image", image_of(there), "--yes")
        assert there.ssh("test -d /sys/firmware/efi && sinfo -h -o %T") == "idle\n"


def test_three_machines_at_once_become_a_cluster_that_adds_up(tmp_path: Path) -> None:
    machines = [Machine(tmp_path, 1), Machine(tmp_path, 2, uefi=True), Machine(tmp_path, 3, uefi=True)]
    with metal(tmp_path, machines, THREE) as there:
        image, began_s = image_of(there, "w[1-3]"), time.time()
        events = there.events("apply", "SITE", "--install", "w[1-3]", "--image", image, "--yes")
        print(times(events, began_s), flush=True)
        (test,) = events[-1]["tests"]["reached"]
        assert test["verdict"]["status"] == "passed" and events[-1]["exit"] == 0
        assert there.ssh("sinfo -h -o '%D %T'") == "3 idle\n"
        assert there.ssh("test -d /sys/firmware/efi && hostname", "w3") == "w3\n"


def test_roles_of_the_controller_do_not_wait_for_a_machine_that_takes_long(tmp_path: Path) -> None:
    machines = [Machine(tmp_path, 1), Machine(tmp_path, 2, tests_itself_s=120.0)]
    with metal(tmp_path, machines, TWO) as there:
        image, began_s = image_of(there, "w[1-2]"), time.time()
        events = there.events("apply", "SITE", "--install", "w[1-2]", "--image", image, "--yes")
        print(times(events, began_s), flush=True)
        done_s = [event["time_s"] for event in events if event["event"] == "settled" and event["node"] == "w1"]
        (there_s,) = [event["time_s"] for event in events if event.get("text") == "w2: ssh answers"]
        print(f"{sum(at < there_s for at in done_s)} of {len(done_s)} roles of w1 were done when w2 was installed")
        assert min(done_s) < there_s
        assert there.ssh("sinfo -h -o '%D %T'") == "1 idle\n"


def test_a_system_on_two_mirrored_disks_starts_when_one_of_them_is_gone(tmp_path: Path) -> None:
    """With the kernel for real machines. The second disk is the one that is left."""
    machine = Machine(tmp_path, disks=(0, 1))
    with metal(tmp_path, [machine], MIRRORED) as there:
        install = ("--install", "w1", "--image", image_of(there, kernel="--metal"))
        assert "writes 2 blank disks of one size (RAID 1)" in there.hpcforge("plan", "SITE", *install, code=2)
        there.hpcforge("apply", "SITE", *install, "--yes")
        assert there.ssh("sinfo -h -o %T") == "idle\n"
        mounts = dict(line.split() for line in there.ssh("findmnt -n -l -o TARGET,SOURCE -t ext4").splitlines())
        assert set(mounts) == {"/", "/scratch", "/var", "/var/log"}
        assert all(source.startswith("/dev/md") for source in mounts.values())
        assert there.ssh("stat -c %a /tmp /var/tmp && uname -r").split()[:2] == ["1777", "1777"]
        assert there.ssh("grep -c 'raid1.*\\[2\\]\\|UU' /proc/mdstat") != "0\n"
        there.hpcforge("power", "off", "SITE", "w1", "--hard", "--force", "w1", "--yes")
        (tmp_path / "disk-1.qcow2").unlink()  # an empty one takes its place
        machine.disks = (1, 0)
        there.hpcforge("power", "on", "SITE", "w1", "--yes")
        wait_for_ssh("10.99.78.11")
        assert there.ssh("grep -c '_U' /proc/mdstat") == "4\n"
        # As docs/bare-metal.md has it: the tables and boot loaders, then each array.
        there.ssh("sudo dd if=/dev/vda of=/dev/vdb bs=1M count=66 && sudo udevadm settle")
        there.ssh("for n in 3 4 5 6; do sudo mdadm /dev/md/system$((n-3)) --add /dev/vdb$n || exit; done")
        until = time.monotonic() + 600
        while there.ssh("grep -c UU /proc/mdstat || true") != "4\n":
            assert time.monotonic() < until
            time.sleep(5)


def test_a_cut_off_installation_is_named_and_the_next_try_takes_its_own_disk(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    with metal(tmp_path, [machine], ONE) as there:
        install = ("--install", "w1", "--image", image_of(there))

        log = tmp_path / "nginx-dies"
        with log.open("w") as err, there.start("apply", "SITE", *install, "--yes", err=err) as running:
            machine.wait_until_written(50 * MIB)
            os.kill(int(Path("/run/hpcforge-netboot/metal/nginx.pid").read_text()), signal.SIGKILL)
            running.communicate()
        assert running.returncode == Exit.ERROR and "nginx has ended" in log.read_text(), log.read_text()
        assert "w1: cut off while disk QM0001 was written; again: " in log.read_text()
        assert "it was cut off" in there.hpcforge("netboot", "status", "SITE", code=Exit.FAILED)
        # Nothing is left that would install it unasked, and its half-written disk is not taken for a blank one.
        said = there.hpcforge("apply", "SITE", *install, "--yes", code=5)
        assert "every disk has data: vda (serial number QM0001)" in said

        lost = threading.Thread(target=machine.lose_power, args=(300 * MIB,))
        lost.start()
        said = there.hpcforge("apply", "SITE", *install, "--wipe", "w1=QM0001", "--yes")
        lost.join()
        assert "power was lost, or it was reset; it is tried again" in said
        assert there.ssh("sinfo -h -o %T") == "idle\n"


def test_beside_a_sites_own_dhcp_server_machines_are_installed_by_hand(tmp_path: Path) -> None:
    """OVMF's own network boot; QEMU's for BIOS is iPXE, and finds its script at once."""
    machines = [Machine(tmp_path, 1), Machine(tmp_path, 2, uefi=True)]
    with metal(tmp_path, machines, TWO) as there, sites_dhcp(tmp_path, machines):
        image, both = image_of(there, "w[1-2]"), "w[1-2]"
        serve = ("netboot", "serve", "SITE", "--image", image, "--key", str(tmp_path / "ssh.pub"))
        assert "another DHCP server answers" in there.hpcforge(*serve, code=1)
        said = there.by_hand(image, both, "10.99.78.11", "10.99.78.12", options=["--proxy-dhcp"])
        assert said.count("installed") == 2, said
        assert there.ssh("hostname && test ! -d /sys/firmware/efi") == "w1\n"
        assert there.ssh("hostname && test -d /sys/firmware/efi", "w2") == "w2\n"
