"""A machine without an operating system becomes a cluster: QEMU without KVM, by BIOS and by UEFI.

The controller is a program of the tests that starts and ends QEMU; all else is what a site has: discover, plan, apply
and `nodes replace`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from tests.support.fake_bmc import FakeBmc, serving
from tests.support.metal_site import MetalSite, metal_site
from tests.support.said import end_of

pytestmark = [pytest.mark.lab, pytest.mark.metal]

MAC, ADDRESS, SERVER, BRIDGE, TAP = "02:00:00:79:08:0b", "10.99.78.11", "10.99.78.1", "hf-metal-b", "hf-metal-t"
OVMF = Path("/usr/share/OVMF/OVMF_CODE_4M.fd"), Path("/usr/share/OVMF/OVMF_VARS_4M.fd")  # of Debian's package ovmf
BLUEPRINT = """
schema: 1
name: metal
domain: metal.example.org
inventory: machines.yaml
access: {user: ops}
nodes: {w1: {functions: [head, worker], hardware: rehearsal-node, addresses: 10.99.78.11}}
overrides: {w1: {memory_gib: 1, reason: "the host has little"}}
networks: {cluster: {cidr: 10.99.78.0/24}}
services: {dns: {on: w1}, time: {on: w1}}
software: {os: {name: debian, release: "12"}}
slurm:
  controller: w1
  reserve: {cores: 0, memory_gib: 0}
  enforce: []
  partitions: {main: {nodes: w1, default: true}}
rollout: {confirm_wait: 10min}
users: {ada: {uid: 2001}}
"""


@dataclass
class Machine:
    """A machine with an empty disk of 10 GB."""

    folder: Path
    uefi: bool = False
    process: subprocess.Popen[bytes] | None = None
    started: list[float] = field(default_factory=list)

    def changed(self, bmc: FakeBmc) -> None:
        """Follow the controller."""
        self.end()
        if not bmc.on:
            return
        self.started.append(time.monotonic())
        network = bmc.target == "Pxe"
        disk = self.folder / "disk.qcow2"
        if not disk.exists():
            subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(disk), "10G"], check=True)
        # OVMF knows no `once`: after its restart the installer would come again, and the server sends it to the disk.
        first = {"disk": 1 + network, "net": 2 - network} if self.uefi else {}
        order = {name: f",bootindex={place}" for name, place in first.items()}
        self.process = subprocess.Popen(
            ["qemu-system-x86_64", "-machine", "pc", "-accel", "tcg,thread=multi,tb-size=256", "-cpu", "Nehalem",
             "-m", "1400", "-smp", "2", *self.firmware(network),
             "-drive", f"file={disk},if=none,id=d0,cache=unsafe",
             "-device", f"virtio-blk-pci,drive=d0,serial=QM0001{order.get('disk', '')}",
             "-netdev", f"tap,id=n0,ifname={TAP},script=no,downscript=no",
             "-device", f"virtio-net-pci,netdev=n0,mac={MAC}{order.get('net', '')}",
             "-object", "rng-random,id=r0,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=r0",
             "-display", "none", "-serial", f"file:{self.folder}/console-{len(self.started)}"],
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def firmware(self, network: bool) -> list[str]:
        if not self.uefi:
            return ["-boot", "order=c,once=n" if network else "order=c"]
        settings = self.folder / "settings.fd"
        if not settings.exists():
            shutil.copyfile(OVMF[1], settings)
        return ["-drive", f"if=pflash,format=raw,readonly=on,file={OVMF[0]}",
                "-drive", f"if=pflash,format=raw,file={settings}"]  # fmt: skip

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextmanager
def network() -> Iterator[None]:
    for words in (("link", "add", BRIDGE, "type", "bridge"), ("address", "add", f"{SERVER}/24", "dev", BRIDGE),
                  ("tuntap", "add", TAP, "mode", "tap"), ("link", "set", TAP, "master", BRIDGE, "up"),
                  ("link", "set", BRIDGE, "up")):  # fmt: skip
        subprocess.run(["ip", *words], check=True)
    try:
        yield
    finally:
        for name in (TAP, BRIDGE):
            subprocess.run(["ip", "link", "del", name], check=False)


@dataclass
class Metal:
    """A site of one machine, as its operator has it."""

    folder: Path
    site: MetalSite
    controller: str  # its address

    def hpcforge(self, *words: str, code: int = 0) -> str:
        own = {"XDG_STATE_HOME": str(self.folder / "state"), "HPCFORGE_IDENTITY": str(self.folder / "key")}
        began = time.monotonic()
        said = [str(self.site.blueprint) if word == "SITE" else word for word in words]
        done = subprocess.run(
            [sys.executable, "-m", "hpcforge", *said],
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        all_of_it = done.stderr + done.stdout
        print(f"$ hpcforge {' '.join(words)}   {time.monotonic() - began:.0f} s\n{end_of(all_of_it)}", flush=True)
        assert done.returncode == code, all_of_it
        return all_of_it

    def ssh(self, command: str) -> str:
        """What a command prints there; the host key must be the one that the inventory has."""
        keys = yaml.safe_load(self.site.inventory.read_text())["nodes"]["w1"]["host_keys"]
        known = self.folder / "known"
        known.write_text("".join(f"{ADDRESS} {host_key}\n" for host_key in keys))
        argv = ["ssh", "-i", str(self.folder / "ssh"), "-o", f"UserKnownHostsFile={known}",
                "-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes", f"ops@{ADDRESS}", command]  # fmt: skip
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


@contextmanager
def metal(folder: Path, *, uefi: bool) -> Iterator[Metal]:
    machine = Machine(folder, uefi)
    bmc = FakeBmc("MACHINE1", (MAC,), 1.4, changed=machine.changed)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "ssh")], check=True)
    try:
        with network(), serving(folder, [bmc]) as at:
            site = metal_site(folder, at, known=False)
            site.blueprint.write_text(BLUEPRINT)
            site.inventory.write_text(f"{site.inventory.read_text()}access: {{key: ssh}}\n")
            yield Metal(folder, site, at.addresses[0])
    finally:
        machine.end()
        for path in sorted(folder.glob("console-*")):
            print(f"--- {path.name}\n{path.read_text('utf-8', 'replace')[-1500:]}")


def image_of(there: Metal) -> str:
    there.hpcforge("discover", "SITE", there.controller, "--trust-new", "--assign", "w1")
    there.hpcforge("image", "build", "SITE", "--disk")
    listed = there.hpcforge("image", "list").splitlines()
    return next(line.split()[0] for line in listed if line.startswith("metal-"))


def test_apply_makes_a_cluster_of_a_machine_and_of_the_next_with_its_name(tmp_path: Path) -> None:
    with metal(tmp_path, uefi=False) as there:
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


def test_a_machine_with_uefi_is_installed_and_starts_from_its_disk(tmp_path: Path) -> None:
    with metal(tmp_path, uefi=True) as there:
        there.hpcforge("apply", "SITE", "--install", "w1", "--image", image_of(there), "--yes")
        assert there.ssh("test -d /sys/firmware/efi && sinfo -h -o %T") == "idle\n"
