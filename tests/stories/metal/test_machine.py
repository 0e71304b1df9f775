"""Machines without an operating system become a cluster: QEMU without KVM, BIOS and UEFI, alone and three at once.

The controller is a program of the tests that starts and ends QEMU; all else is what a site has: discover, plan, apply
and `nodes replace`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpcforge.cli.exit_codes import Exit
from hpcforge.run.install import ssh_answers
from tests.support.fake_bmc import FakeBmc, serving
from tests.support.metal_site import MetalSite, metal_site
from tests.support.pxe_client import dhcp_server
from tests.support.said import end_of

pytestmark = [pytest.mark.lab, pytest.mark.metal]

SERVER, BRIDGE, TAP = "10.99.78.1", "hf-metal-b", "hf-metal-t"
SITES, OWN = "10.99.78.2", "hf-metal-d"
MIB = 1 << 20
OVMF = Path("/usr/share/OVMF/OVMF_CODE_4M.fd"), Path("/usr/share/OVMF/OVMF_VARS_4M.fd")  # of Debian's package ovmf
COMMON = """
schema: 1
name: metal
domain: metal.example.org
inventory: machines.yaml
access: {user: ops}
networks: {cluster: {cidr: 10.99.78.0/24}}
services: {dns: {on: w1}, time: {on: w1}}
software: {os: {name: debian, release: "12"}}
rollout: {confirm_wait: 10min}
users: {ada: {uid: 2001}}
slurm:
  controller: w1
  reserve: {cores: 0, memory_gib: 0}
  enforce: []
  partitions: {main: {nodes: all, default: true}}
"""
ONE = f"""{COMMON}
nodes: {{w1: {{functions: [head, worker], hardware: rehearsal-node, addresses: 10.99.78.11}}}}
overrides: {{w1: {{memory_gib: 1, reason: "the host has little"}}}}
"""
TWO = f"""{COMMON}
nodes:
  w1: {{functions: [head], hardware: rehearsal-node, addresses: 10.99.78.11}}
  w2: {{functions: [worker], hardware: rehearsal-node, addresses: 10.99.78.12}}
overrides:
  w1: {{memory_gib: 1, reason: "the host has little"}}
  w2: {{memory_gib: 1, reason: "the host has little"}}
"""
# After the last role ranks on all three add numbers through Slurm: apply does that by itself.
THREE = f"""{COMMON}
nodes:
  w1:     {{functions: [head, worker], hardware: rehearsal-node, addresses: 10.99.78.11}}
  w[2-3]: {{functions: [worker], hardware: rehearsal-node, addresses: "10.99.78.[12-13]"}}
overrides:
  w1: {{memory_gib: 1, reason: "the host has little"}}
  w2: {{memory_gib: 1, reason: "the host has little"}}
  w3: {{memory_gib: 1, reason: "the host has little"}}
roles: {{openmpi: {{enabled: true, compilers: false}}}}
acceptance: {{run_as: ada, tests: {{mpi_allreduce: {{nodes: all}}}}}}
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
PHASES = ("power", "firmware", "kernel", "install", "start")


@dataclass
class Machine:
    """A machine with empty disks of 10 GB. `network_first`: its firmware tries the network again at each reset.

    `tests_itself_s`: how long its firmware takes before it boots anything.
    """

    folder: Path
    number: int = 1
    uefi: bool = False
    network_first: bool = False
    tests_itself_s: float = 0.0
    disks: int = 1
    process: subprocess.Popen[bytes] | None = None
    started: int = 0
    timer: threading.Timer | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def mac(self) -> str:
        return f"02:00:00:79:08:{10 + self.number:02x}"

    @property
    def tap(self) -> str:
        return f"{TAP}{self.number}"

    def changed(self, bmc: FakeBmc) -> None:
        """Follow the controller."""
        self.end()
        if bmc.on:
            network = bmc.target == "Pxe"
            self.timer = threading.Timer(self.tests_itself_s, lambda: self._boot(network, bmc))
            self.timer.start()

    def _boot(self, network: bool, bmc: FakeBmc) -> None:
        with self.lock:
            if bmc.on and self.process is None:
                self._start(network)

    def _start(self, network: bool) -> None:
        self.started += 1
        once = network and not self.network_first
        first, *further = (self._disk(number) for number in range(self.disks))
        places = {"disk": 1 + network, "net": 2 - network}
        order = {name: f",bootindex={place}" for name, place in places.items()}
        process = subprocess.Popen(
            ["qemu-system-x86_64", "-machine", "pc", "-accel", "tcg,thread=multi,tb-size=256", "-cpu", "Nehalem",
             "-m", "1400", "-smp", "2", *self._firmware(), *(["-no-reboot"] if once else []),
             *first[:2], "-device", f"{first[2]}{order['disk']}",
             *(word for drive in further for word in (*drive[:2], "-device", f"{drive[2]},bootindex=3")),
             "-netdev", f"tap,id=n0,ifname={self.tap},script=no,downscript=no",
             "-device", f"virtio-net-pci,netdev=n0,mac={self.mac}{order['net']}",
             "-object", "rng-random,id=r0,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=r0",
             "-display", "none", "-serial", f"file:{self.folder}/console-{self.number}-{self.started}"],
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        self.process = process
        if once:
            threading.Thread(target=self._reset, args=(process,), daemon=True).start()

    def _disk(self, number: int) -> tuple[str, str, str]:
        disk = self.folder / f"disk-{self.number}{'-abc'[number] if number else ''}.qcow2"
        if not disk.exists():
            subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(disk), "10G"], check=True)
        serial = f"QM00{number}{self.number}"
        return (
            "-drive",
            f"file={disk},if=none,id=d{number},cache=unsafe",
            f"virtio-blk-pci,drive=d{number},serial={serial}",
        )

    def _reset(self, process: subprocess.Popen[bytes]) -> None:
        """Start from the disk when the machine resets: an override holds for one boot, of which OVMF knows nothing."""
        process.wait()
        with self.lock:
            if self.process is process:
                self._start(network=False)

    def _firmware(self) -> list[str]:
        if not self.uefi:
            return []
        settings = self.folder / f"settings-{self.number}.fd"
        if not settings.exists():
            shutil.copyfile(OVMF[1], settings)
        return ["-drive", f"if=pflash,format=raw,readonly=on,file={OVMF[0]}",
                "-drive", f"if=pflash,format=raw,file={settings}",
                "-fw_cfg", "name=opt/org.tianocore/IPv6Support,string=no"]  # fmt: skip

    def wait_until_written(self, size: int) -> None:
        """Return when its first disk has so many bytes."""
        until = time.monotonic() + 600
        disk = self.folder / f"disk-{self.number}.qcow2"
        while not disk.exists() or disk.stat().st_blocks * 512 < size:
            assert time.monotonic() < until
            time.sleep(0.2)

    def lose_power(self, size: int) -> None:
        """Lose it while the disk is written, and start from the network again when it returns."""
        self.wait_until_written(size)
        self.end()
        with self.lock:
            self._start(network=True)

    def end(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        with self.lock:
            process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()


def wait_for_ssh(*addresses: str) -> None:
    """Of machines that get no more than that; slow firmware tries much before its disk."""
    until = time.monotonic() + 900
    while not all(map(ssh_answers, addresses)):
        assert time.monotonic() < until
        time.sleep(2)


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


@contextmanager
def network(machines: Sequence[Machine]) -> Iterator[None]:
    try:
        for words in (("link", "add", BRIDGE, "type", "bridge"), ("address", "add", f"{SERVER}/24", "dev", BRIDGE),
                      ("link", "set", BRIDGE, "up")):  # fmt: skip
            subprocess.run(["ip", *words], check=True)
        for machine in machines:
            subprocess.run(["ip", "tuntap", "add", machine.tap, "mode", "tap"], check=True)
            subprocess.run(["ip", "link", "set", machine.tap, "master", BRIDGE, "up"], check=True)
        yield
    finally:
        for name in (*(machine.tap for machine in machines), BRIDGE):
            subprocess.run(["ip", "link", "del", name], check=False)


@dataclass
class Metal:
    """A site of machines, as its operator has it."""

    folder: Path
    site: MetalSite
    controllers: tuple[str, ...]  # their addresses

    def start(self, *words: str, err: Any) -> subprocess.Popen[str]:
        own = {"XDG_STATE_HOME": str(self.folder / "state"), "HPCFORGE_IDENTITY": str(self.folder / "key")}
        said = [str(self.site.blueprint) if word == "SITE" else word for word in words]
        argv = [sys.executable, "-m", "hpcforge", *said]
        return subprocess.Popen(
            argv, env={**os.environ, **own}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, text=True
        )

    def hpcforge(self, *words: str, code: int = 0) -> str:
        began = time.monotonic()
        running = self.start(*words, err=subprocess.PIPE)
        out, err = running.communicate()
        all_of_it = err + out
        print(f"$ hpcforge {' '.join(words)}   {time.monotonic() - began:.0f} s\n{end_of(all_of_it)}", flush=True)
        assert running.returncode == code, all_of_it
        return all_of_it

    def events(self, *words: str) -> list[dict[str, Any]]:
        """What an apply tells as JSON."""
        said = self.folder / "said"
        with said.open("w") as err, self.start(*words, "--json", err=err) as running:
            assert running.stdout is not None
            found = [json.loads(line) for line in running.stdout]
        assert running.returncode == 0, said.read_text()
        return found

    def ssh(self, command: str, node: str = "w1") -> str:
        """What a command prints there; the host key must be the one that the inventory has."""
        keys = yaml.safe_load(self.site.inventory.read_text())["nodes"][node]["host_keys"]
        address, known = f"10.99.78.1{node[1:]}", self.folder / "known"
        known.write_text("".join(f"{address} {host_key}\n" for host_key in keys))
        argv = ["ssh", "-i", str(self.folder / "ssh"), "-o", f"UserKnownHostsFile={known}",
                "-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes", f"ops@{address}", command]  # fmt: skip
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


@contextmanager
def metal(folder: Path, machines: Sequence[Machine], blueprint: str) -> Iterator[Metal]:
    bmcs = [FakeBmc(f"MACHINE{one.number}", (one.mac,), 1.4, changed=one.changed) for one in machines]
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "ssh")], check=True)
    try:
        with network(machines), serving(folder, bmcs) as at:
            site = metal_site(folder, at, known=False)
            site.blueprint.write_text(blueprint)
            site.inventory.write_text(f"{site.inventory.read_text()}access: {{key: ssh}}\n")
            yield Metal(folder, site, at.addresses)
    finally:
        for machine in machines:
            machine.end()
        for path in sorted(folder.glob("console-*")):
            print(f"--- {path.name}\n{path.read_text('utf-8', 'replace')[-1500:]}")


def image_of(there: Metal, nodes: str = "w1", kernel: str = "--disk") -> str:
    there.hpcforge("discover", "SITE", *there.controllers, "--trust-new", "--assign", nodes)
    there.hpcforge("image", "build", "SITE", kernel)
    listed = there.hpcforge("image", "list").splitlines()
    return next(line.split()[0] for line in listed if str(there.site.blueprint) in line)


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
        assert there.ssh("sinfo -h -o %T") == "idle\n"
        assert there.ssh("cd / && sudo -u ada srun -n 2 hostname") == "w1\nw1\n"
        assert "not installed: its host key is recorded" in there.hpcforge("plan", "SITE", *install)
        there.hpcforge("nodes", "replace", "SITE", "w1", "--same-machine", "--yes")
        assert "ssh answers at 10.99.78.11" in there.hpcforge("apply", "SITE", *install, "--yes", code=4)
        said = there.hpcforge("apply", "SITE", *install, "--wipe", "w1=OTHER", "--yes", code=5)
        assert "an earlier installation is on vda (serial number QM0001)" in said
        there.hpcforge("apply", "SITE", *install, "--wipe", "w1=QM0001", "--yes")
        assert there.ssh("sinfo -h -o %T") == "idle\n"


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
    machine = Machine(tmp_path, disks=2)
    with metal(tmp_path, [machine], MIRRORED) as there:
        install = ("--install", "w1", "--image", image_of(there, kernel="--metal"))
        assert "writes 2 blank disks of one size (RAID 1)" in there.hpcforge("plan", "SITE", *install, code=2)
        there.hpcforge("apply", "SITE", *install, "--yes")
        assert there.ssh("sinfo -h -o %T") == "idle\n"
        mounts = there.ssh("findmnt -n -l -o TARGET,SOURCE --type ext4").split()
        assert mounts[::2] == ["/", "/scratch", "/var", "/var/log"] and all("/dev/md" in one for one in mounts[1::2])
        assert there.ssh("stat -c %a /tmp /var/tmp && uname -r").split()[:2] == ["1777", "1777"]
        assert there.ssh("grep -c 'raid1.*\\[2\\]\\|UU' /proc/mdstat") != "0\n"
        there.hpcforge("power", "off", "SITE", "w1", "--hard", "--force", "w1")
        (tmp_path / "disk-1.qcow2").unlink()  # an empty one takes its place
        there.hpcforge("power", "on", "SITE", "w1")
        wait_for_ssh("10.99.78.11")
        assert there.ssh("grep -c '_U' /proc/mdstat") == "4\n"


def test_a_cut_off_installation_is_named_and_the_next_try_takes_its_own_disk(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    with metal(tmp_path, [machine], ONE) as there:
        install = ("--install", "w1", "--image", image_of(there))

        log = tmp_path / "nginx-dies"
        with log.open("w") as err, there.start("apply", "SITE", *install, "--yes", err=err) as running:
            machine.wait_until_written(50 * MIB)
            os.kill(int(Path("/run/hpcforge-netboot/metal/nginx.pid").read_text()), signal.SIGKILL)
            running.communicate()
        assert running.returncode == Exit.FAILED and "nginx has ended" in log.read_text(), log.read_text()
        # Nothing was left that would install it unasked, and its half-written disk is not taken for a blank one.
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
        there.hpcforge("netboot", "want", "SITE", both, "--image", image, "--yes")
        serve = ("netboot", "serve", "SITE", "--image", image, "--key", str(tmp_path / "ssh.pub"))
        assert "another DHCP server answers" in there.hpcforge(*serve, code=1)
        with (tmp_path / "serve").open("w") as err, there.start(*serve, "--proxy-dhcp", err=err) as running:
            there.hpcforge("power", "boot-once", "SITE", both)
            there.hpcforge("power", "on", "SITE", both)
            wait_for_ssh("10.99.78.11", "10.99.78.12")
            running.send_signal(signal.SIGINT)
            said, _ = running.communicate()
        print((tmp_path / "serve").read_text())
        assert running.returncode == 0 and said.count("installed") == 2, said
        there.hpcforge("netboot", "record", "SITE")
        assert there.ssh("hostname && test ! -d /sys/firmware/efi") == "w1\n"
        assert there.ssh("hostname && test -d /sys/firmware/efi", "w2") == "w2\n"
