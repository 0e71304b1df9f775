"""A machine without an operating system, from its controller to the first ssh contact: QEMU without KVM, BIOS.

The controller is a program of the tests that starts and ends QEMU; all else is what a site has: discover, power and
netboot.
"""

from __future__ import annotations

import os
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

MAC, ADDRESS, SERVER, BRIDGE, TAP = "02:00:00:79:08:0b", "10.78.0.11", "10.78.0.1", "hf-metal-b", "hf-metal-t"
LIMIT_S = 1800


@dataclass
class Machine:
    """A machine with an empty disk."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None
    started: list[float] = field(default_factory=list)

    def changed(self, bmc: FakeBmc) -> None:
        """Follow the controller."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        if not bmc.on:
            return
        self.started.append(time.monotonic())
        boot = "order=c,once=n" if bmc.target == "Pxe" else "order=c"
        disk = self.folder / "disk.qcow2"
        if not disk.exists():
            subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(disk), "10G"], check=True)
        self.process = subprocess.Popen(
            ["qemu-system-x86_64", "-machine", "pc", "-accel", "tcg,thread=multi,tb-size=256", "-cpu", "Nehalem",
             "-m", "1200", "-smp", "2", "-drive", f"file={disk},if=none,id=d0,cache=unsafe",
             "-device", "virtio-blk-pci,drive=d0,serial=QM0001",
             "-netdev", f"tap,id=n0,ifname={TAP},script=no,downscript=no",
             "-device", f"virtio-net-pci,netdev=n0,mac={MAC}", "-object", "rng-random,id=r0,filename=/dev/urandom",
             "-device", "virtio-rng-pci,rng=r0", "-display", "none", "-boot", boot,
             "-serial", f"file:{self.folder}/console-{len(self.started)}"],
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def console(self) -> str:
        """What it printed since it was last switched on."""
        return (self.folder / f"console-{len(self.started)}").read_text("utf-8", "replace")


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


@contextmanager
def netboot(site: MetalSite, environment: dict[str, str], key: Path, image: str) -> Iterator[None]:
    argv = [sys.executable, "-m", "hpcforge", "netboot", "serve", str(site.blueprint), "--key", f"{key}.pub"]
    argv += ["--image", image]
    log = site.folder / "serve.log"
    with log.open("w") as said:
        process = subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    try:
        until(lambda: "serving" in log.read_text(), 120)
        yield
    finally:
        process.terminate()
        process.wait(30)
        print(log.read_text())


def until(is_so: object, limit_s: float = LIMIT_S) -> None:
    assert callable(is_so)
    end = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < end
        time.sleep(2)


def test_from_power_on_to_a_trusted_ssh_contact_and_again_on_a_disk_with_data(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "HPCFORGE_IDENTITY": str(tmp_path / "key")}
    key = tmp_path / "ssh"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)

    def hpcforge(*words: str, code: int = 0) -> str:
        argv = [sys.executable, "-m", "hpcforge", *words]
        done = subprocess.run(
            argv, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )
        said = done.stderr + done.stdout
        print(f"$ hpcforge {' '.join(words)}\n{end_of(said)}")
        assert done.returncode == code, said
        return said

    def ssh() -> bool:
        keys = yaml.safe_load(site.inventory.read_text())["nodes"]["w1"]["host_keys"]
        known = tmp_path / "known"
        known.write_text("".join(f"{ADDRESS} {host_key}\n" for host_key in keys))
        argv = ["ssh", "-i", str(key), "-o", f"UserKnownHostsFile={known}", "-o", "StrictHostKeyChecking=yes",
                "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", f"ops@{ADDRESS}",
                "hostname && sudo -n id -u"]  # fmt: skip
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout == "w1\n0\n"

    machine = Machine(tmp_path)
    bmc = FakeBmc("MACHINE1", (MAC,), 64, gpus=8, changed=machine.changed)
    try:
        with network(), serving(tmp_path, [bmc]) as at:
            site = metal_site(tmp_path, at, known=False)
            there = str(site.blueprint)
            hpcforge("discover", there, at.addresses[0], "--trust-new", "--assign", "w1")
            hpcforge("image", "build", there, "--disk")
            name = hpcforge("image", "list").splitlines()[-1].split()[0]
            with netboot(site, environment, key, name):
                hpcforge("netboot", "want", there, "w1", "--image", name, "--yes")
                hpcforge("power", "boot-once", there, "w1")
                hpcforge("power", "on", there, "w1", "--yes")
                until(lambda: "installed" in hpcforge("netboot", "status", there))
                hpcforge("netboot", "record", there)
                until(ssh)
                print(f"from power-on to ssh: {time.monotonic() - machine.started[-1]:.0f} s")
                # Its disk has data now: it is not written without its serial number.
                hpcforge("netboot", "want", there, "w1", "--image", name, "--yes")
                hpcforge("power", "boot-once", there, "w1")
                hpcforge("power", "cycle", there, "w1", "--hard", "--force", "w1", "--yes")
                until(lambda: "every disk has data" in machine.console())
                assert "every disk has data: vda (serial number QM0001)" in hpcforge("netboot", "status", there, code=5)
                hpcforge("power", "cycle", there, "w1", "--hard", "--force", "w1", "--yes")
                until(ssh)  # what was installed is as it was
    finally:
        machine.changed(FakeBmc())
