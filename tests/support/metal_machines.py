"""QEMU machines without KVM behind fake controllers, with empty disks, and the site that has them.

The controller is a program of the tests that starts and ends QEMU; all else is what a site has.
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

import yaml

from hpcforge.metal.install import LIMIT_S, ssh_answers
from tests.support.fake_bmc import FakeBmc, serving
from tests.support.metal_site import MetalSite, metal_site
from tests.support.said import end_of

SERVER, BRIDGE, TAP = "10.99.78.1", "hf-metal-b", "hf-metal-t"
# With a TSC, which is the host's, Linux waits for its timer in time that QEMU may not have had, and panics.
CPU = "Nehalem,-tsc"
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
users: {ada: {uid: 2001}, ops: {uid: 1900, admin: true}}
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


@dataclass
class Machine:
    """A machine with empty disks of 10 GB. `network_first`: its firmware tries the network again at each reset.

    `tests_itself_s`: how long its firmware takes before it boots anything. `overrides`: its firmware does what its
    controller says.
    """

    folder: Path
    number: int = 1
    uefi: bool = False
    network_first: bool = False
    tests_itself_s: float = 0.0
    overrides: bool = True
    does: tuple[str, ...] = ()  # of its controller
    disks: tuple[int, ...] = (0,)  # in the order in which its firmware has them; it starts from no other than the first
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
            network = bmc.target == "Pxe" and self.overrides
            self.timer = threading.Timer(self.tests_itself_s, lambda: self._boot(network, bmc))
            self.timer.start()

    def _boot(self, network: bool, bmc: FakeBmc) -> None:
        with self.lock:
            if bmc.on and self.process is None:
                self._start(network)

    def _start(self, network: bool) -> None:
        self.started += 1
        once = network and not self.network_first
        first, *further = map(self._disk, self.disks)
        places = {"disk": 1 + network, "net": 2 - network}
        order = {name: f",bootindex={place}" for name, place in places.items()}
        process = subprocess.Popen(
            ["qemu-system-x86_64", "-machine", "pc", "-accel", "tcg,thread=multi,tb-size=256", "-cpu", CPU,
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
    until = time.monotonic() + LIMIT_S
    while not all(map(ssh_answers, addresses)):
        assert time.monotonic() < until
        time.sleep(2)


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
    bmcs: list[FakeBmc]
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *words: str, err: Any) -> subprocess.Popen[str]:
        own = {"XDG_STATE_HOME": str(self.folder / "state"), "HPCFORGE_IDENTITY": str(self.folder / "key")}
        arguments = [str(self.site.blueprint) if word == "SITE" else word for word in words]
        argv = [sys.executable, "-m", "hpcforge", *arguments]
        running = subprocess.Popen(
            argv, env={**os.environ, **own}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, text=True
        )
        self.started.append(running)
        return running

    def end(self) -> None:
        """End what still runs, as after a failure."""
        for running in self.started:
            if running.poll() is None:
                running.send_signal(signal.SIGINT)
                running.communicate()

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
        errors = self.folder / "said"
        with errors.open("w") as err, self.start(*words, "--json", err=err) as running:
            assert running.stdout is not None
            events = [json.loads(line) for line in running.stdout]
        assert running.returncode == 0, errors.read_text()
        return events

    def by_hand(self, image: str, nodes: str, *addresses: str, options: Sequence[str] = ()) -> str:
        """Install nodes as the page has it, until ssh answers at these addresses; what `netboot serve` prints."""
        self.hpcforge("netboot", "want", "SITE", nodes, "--image", image, "--yes")
        serve = ("netboot", "serve", "SITE", "--image", image, "--key", str(self.folder / "ssh.pub"), *options)
        log = self.folder / "serve"
        with log.open("w") as err, self.start(*serve, err=err) as running:
            try:
                while "Ctrl-C ends it" not in log.read_text():  # firmware asks for a minute, and then gives up
                    assert running.poll() is None, log.read_text()
                    time.sleep(0.2)
                self.hpcforge("power", "boot-once", "SITE", nodes)
                self.hpcforge("power", "on", "SITE", nodes, "--yes")
                wait_for_ssh(*addresses)
            finally:
                running.send_signal(signal.SIGINT)  # else leaving waits for it
            output, _ = running.communicate()
        print(log.read_text())
        assert running.returncode == 0, output
        self.hpcforge("netboot", "record", "SITE")
        return output

    def ssh(self, command: str, node: str = "w1") -> str:
        """What a command prints there; the host key must be the one that the inventory has."""
        machine = yaml.safe_load(self.site.inventory.read_text())["nodes"][node]
        address, known_hosts = machine.get("address", f"10.99.78.1{node[1:]}"), self.folder / "known"
        known_hosts.write_text("".join(f"{address} {host_key}\n" for host_key in machine["host_keys"]))
        argv = ["ssh", "-i", str(self.folder / "ssh"), "-o", f"UserKnownHostsFile={known_hosts}",
                "-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes", f"ops@{address}", command]  # fmt: skip
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


@contextmanager
def metal(folder: Path, machines: Sequence[Machine], blueprint: str) -> Iterator[Metal]:
    bmcs = [
        FakeBmc(f"MACHINE{machine.number}", (machine.mac,), 1.4, does=machine.does, changed=machine.changed)
        for machine in machines
    ]
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "ssh")], check=True)
    try:
        with network(machines), serving(folder, bmcs) as at:
            site = metal_site(folder, at, known=False)
            site.blueprint.write_text(blueprint)
            site.inventory.write_text(f"{site.inventory.read_text()}access: {{key: ssh}}\n")
            running = Metal(folder, site, at.addresses, bmcs)
            try:
                yield running
            finally:
                running.end()
    finally:
        for machine in machines:
            machine.end()
        for path in sorted(folder.glob("console-*")):
            print(f"--- {path.name}\n{path.read_text('utf-8', 'replace')[-1500:]}")


def image_of(metal: Metal, nodes: str = "w1", kernel: str = "--disk") -> str:
    metal.hpcforge("discover", "SITE", *metal.controllers, "--trust-new", "--assign", nodes)
    return built(metal, kernel)


def built(metal: Metal, kernel: str) -> str:
    """The name of the image that is built of a site's blueprint."""
    metal.hpcforge("image", "build", "SITE", kernel)
    listed = metal.hpcforge("image", "list").splitlines()
    return next(line.split()[0] for line in listed if str(metal.site.blueprint) in line)
