"""A node with NVSwitches gets all of NVIDIA's from a repository that stands in for it: stubs of the same names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.nvidia_repository import DCGM, KERNEL, NEW, NEWER_DCGM, NEWER_TOOLKIT, OLD, TOOLKIT, key, repository
from tests.support.site import Site

pytestmark = [pytest.mark.lab, pytest.mark.nvidia]

BLUEPRINT = """\
schema: 1
name: driven
domain: driven.example.org
inventory: {lab: nspawn}
access: {user: ops, become: sudo}
nodes: {n01: {functions: [head, worker], hardware: switched, gpus: {model: fake, count: 2}, addresses: 10.79.0.10}}
hardware: {switched: {like: rehearsal-node, nvswitch: true}}
networks: {cluster: {cidr: 10.79.0.0/24}}
services: {dns: {on: n01}, time: {on: n01}}
software:
  os: {name: debian, release: "12"}
  present: {kernel: KERNEL}
  nvidia: {driver: "DRIVER", modules: open, cuda: ["12.8", "13.0"], dcgm: "DCGM", container_toolkit: "TOOLKIT"}
  sources: {nvidia: {url: "file:///srv/nvidia/", key: KEY.asc, fingerprint: FINGERPRINT, licence_accepted: true}}
slurm:
  controller: n01
  reserve: {cores: 0, memory_gib: 1}
  enforce: []                         # containers cannot hold jobs to their share
  partitions: {main: {nodes: n01, default: true}}
rollout: {busy_nodes: {wait: 5min}}
"""
OF_DRIVER = {
    "libcuda1", "libnvidia-ml1", "libnvidia-ptxjitcompiler1", "nvidia-driver-cuda", "nvidia-fabricmanager",
    "nvidia-kernel-open-dkms", "nvidia-persistenced", "nvidia-smi",
}  # fmt: skip
OF_DCGM = {"datacenter-gpu-manager-4-core", "datacenter-gpu-manager-4-cuda13"}
OF_TOOLKIT = {
    "libnvidia-container1", "libnvidia-container-tools", "nvidia-container-toolkit", "nvidia-container-toolkit-base",
}  # fmt: skip
UNITS = "nvidia-persistenced nvidia-fabricmanager nvidia-dcgm hpcforge-nvidia-cdi"


class Driven:
    """The site, and the keys with which its repository may be signed."""

    def __init__(self, folder: Path) -> None:
        self.site, self._home = Site(folder, f"test-nvidia-{os.getpid()}"), folder / "gpg"
        (folder / "blueprints").mkdir()
        self._fingerprints = {}
        for name in ("right", "wrong"):
            text, self._fingerprints[name] = key(self._home, name)
            (folder / "blueprints" / f"{name}.asc").write_text(text)

    def write(self, signer: str = "right", driver: str = OLD) -> None:
        text = BLUEPRINT.replace("KERNEL", KERNEL).replace("DRIVER", driver).replace("DCGM", DCGM)
        text = text.replace("TOOLKIT", TOOLKIT).replace("FINGERPRINT", self._fingerprints[signer])
        self.site.blueprint.write_text(text.replace("KEY.asc", f"{signer}.asc"))

    def put_repository(self) -> None:
        self.site.unpack("n01", repository(self.site.folder, self._home, "right"))

    def apply(self, code: int = 0) -> str:
        done = self.site.as_real("apply", "--yes")
        assert done.returncode == code
        return done.stdout + done.stderr

    def ask(self, script: str) -> str:
        return self.site.ssh("n01", script)

    def versions(self) -> dict[str, set[str]]:
        """What is installed of the repository, by version."""
        fields = "'${db:Status-Abbrev} ${source:Upstream-Version} ${Package}\\n'"
        found: dict[str, set[str]] = {}
        for line in self.ask(f"dpkg-query -W -f {fields}").splitlines():
            status, version, name = line.split()
            if status in ("ii", "hi") and re.match("cuda-toolkit|datacenter|(lib)?nvidia-|libcuda1", name):
                found.setdefault(version, set()).add(name)
        return found

    def units(self) -> set[str]:
        script = f"for unit in {UNITS}; do systemctl is-enabled $unit; systemctl is-active $unit; done | sort -u"
        return set(self.ask(script).split())


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driven]:
    here = Driven(tmp_path_factory.mktemp("driven"))
    try:
        yield here
    finally:
        here.site.cli("rehearse", "down")


def test_nothing_comes_from_a_repository_that_another_key_signs(driven: Driven) -> None:
    driven.write("wrong")
    assert driven.site.cli("rehearse", "up", "BLUEPRINT").returncode == 0
    driven.put_repository()
    said = driven.apply(code=5)
    assert "n01    failed  nvidia_driver: " in said
    assert "file:/srv/nvidia" in said  # why no package source of the node has it
    assert driven.versions() == {}


def test_all_is_installed_at_its_version_though_a_newer_one_is_there(driven: Driven) -> None:
    driven.write()
    driven.apply()
    cuda = {"12.8.1": {"cuda-toolkit-12-8"}, "13.0.1": {"cuda-toolkit-13-0"}}
    assert driven.versions() == {OLD: OF_DRIVER, DCGM: OF_DCGM, TOOLKIT: OF_TOOLKIT, **cuda}
    assert driven.units() == {"enabled", "active"}
    assert driven.ask("cat /run/cdi/nvidia.yaml") == "kind: nvidia.com/gpu\n"
    held = set(driven.ask("apt-mark showhold").split())
    assert (OF_DRIVER - {"libnvidia-ptxjitcompiler1"}) | OF_DCGM | OF_TOOLKIT <= held
    assert {f"linux-image-{KERNEL}", f"linux-headers-{KERNEL}"} <= held
    said = driven.ask(
        "apt-cache policy libnvidia-ptxjitcompiler1 datacenter-gpu-manager-4-core nvidia-container-toolkit"
    )
    for version in (f"{NEW}-1", f"1:{NEWER_DCGM}-1", f"{NEWER_TOOLKIT}-1"):
        assert f" {version} -1\n" in said  # there, and never chosen
    upgraded = re.findall(r"^Inst (\S+)", driven.ask("sudo apt-get -s full-upgrade"), re.MULTILINE)
    assert {"base-files", *OF_DRIVER, *OF_DCGM, *OF_TOOLKIT}.isdisjoint(upgraded)
    assert "Nothing to do on 1 node." in driven.apply()


def test_another_driver_moves_the_whole_set_at_once(driven: Driven) -> None:
    boot = "cat /proc/sys/kernel/random/boot_id"
    before = driven.ask(boot)
    driven.write(driver=NEW)
    driven.apply()
    found = driven.versions()
    assert (found[NEW], found[DCGM], found[TOOLKIT]) == (OF_DRIVER, OF_DCGM, OF_TOOLKIT)
    assert OLD not in found
    upgrades = re.findall("^Upgrade: (.*)", driven.ask("cat /var/log/apt/history.log"), re.MULTILINE)
    assert set(re.findall(r"(\S+):\w+ \(", upgrades[-1])) == OF_DRIVER  # in one transaction of apt
    assert driven.ask(boot) != before
    modules = driven.ask(f"for kernel in $(uname -r) {KERNEL}; do /sbin/modinfo -k $kernel -F version nvidia; done")
    assert modules.split() == [NEW, NEW]
    assert driven.units() == {"enabled", "active"}
    assert "Nothing to do on 1 node." in driven.apply()
