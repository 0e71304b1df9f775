"""A real site of another kind: servers of four L40S on a pair of Ethernet switches, a firewall on every node."""

from __future__ import annotations

import base64
import os
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from hpcforge.cluster import load
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.roles.role import load_roles
from tests.support.kernel_module import module, signed
from tests.support.real_site import Rehearsal
from tests.support.shipped import anywhere
from tests.support.site import REPOSITORY

pytestmark = pytest.mark.lab

SHIPPED = REPOSITORY / "blueprints" / "roce-pair-16.yaml"
SET = {
    "libcuda1", "libnvidia-ml1", "libnvidia-pkcs11-openssl3", "libnvidia-ptxjitcompiler1", "nvidia-alternative",
    "nvidia-legacy-check", "nvidia-smi",
}  # fmt: skip
NODES = "g[01-02]"  # and the head comes along; of two, so that collectives have to pass the firewall


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    here = Rehearsal(tmp_path_factory.mktemp("site"), f"test-ethernet-{os.getpid()}")
    try:
        yield here
    finally:
        here.cli("rehearse", "down")


def test_a_site_of_another_kind_comes_up_as_it_is(site: Rehearsal) -> None:
    site.cli("rehearse", "up", str(SHIPPED), "--nodes", NODES)
    said = site.cli("apply", str(SHIPPED), "--yes")
    passed = re.findall(r"^(\w+)  passed  (.*? (?:of|on) \S+)", said, flags=re.MULTILINE)
    assert sorted(name for name, _ in passed) == ["allreduce", "memory_copy", "train_ddp"]
    assert all(where.endswith(" g[01-02]") for _, where in passed)
    assert site.inside("g01", "sinfo -h -o '%P %l %N %G'") == "main* infinite g[01-02] gpu:l40s:4\n"
    assert "policy drop" in site.inside("g02", "sudo nft list chain inet hpcforge input")
    assert site.cli("rehearse", "compare", "--full", str(SHIPPED)).endswith("; not explained: 0\n")


def of_driver(site: Rehearsal, node: str) -> tuple[set[str], set[str]]:
    """Versions of the packages that are built from the driver's source, and which of them are held."""
    fields = "'${source:Package} ${source:Upstream-Version} ${db:Status-Want} ${Package}\\n'"
    lines = [line.split() for line in site.inside(node, f"dpkg-query -W -f {fields}").splitlines()]
    found = [line for line in lines if line[0] == "nvidia-graphics-drivers"]
    return {version for _, version, *_ in found}, {name for *_, want, name in found if want == "hold"}


def test_the_driver_is_installed_as_one_set_and_held(site: Rehearsal) -> None:
    """User space, from Debian's non-free; the modules need a machine's own kernel."""
    assert of_driver(site, "g01") == of_driver(site, "g02") == ({"535.261.03"}, SET)
    site.inside("g01", "python3 -c 'import ctypes; ctypes.CDLL(\"libcuda.so.1\")'")
    assert "535.309.01-0+deb12u1 -1\n" in site.inside("g01", "apt-cache policy libcuda1")  # there, and never chosen
    upgraded = re.findall(r"^Inst (\S+)", site.inside("g01", "sudo apt-get -s full-upgrade"), re.MULTILINE)
    assert SET.isdisjoint(upgraded)
    assert "Nothing to do on 3 nodes." in site.cli("apply", str(SHIPPED), "--yes")
    told = site.cli("rehearse", "compare", "--full", str(SHIPPED))
    assert "nvidia_modules: a container has the kernel of its host" in told


def test_another_driver_takes_the_place_of_the_installed_one_as_a_whole(site: Rehearsal, tmp_path: Path) -> None:
    newer = tmp_path / SHIPPED.name
    newer.write_text(anywhere(SHIPPED).replace('"535.261.03", modules: open', '"535.309.01", modules: closed'))
    site.cli("apply", str(newer), "--yes", "--limit", "g01", "--verify", "none")
    assert of_driver(site, "g01") == ({"535.309.01"}, SET)
    assert of_driver(site, "g02") == ({"535.261.03"}, SET)
    said = site.cli("plan", str(newer), code=2)
    assert "1 node to change: g02; unchanged: g01,head01; drain: g02.\n" in said


NEWEST = "99.1.0-1-amd64"  # a kernel that is there in name alone, and would be started next


def root(site: Rehearsal, script: str, node: str = "g02") -> str:
    return site.inside(node, f"sudo sh -c {shlex.quote(script)}")


def put_module(site: Rehearsal, kernel: str, data: bytes) -> None:
    """A module where DKMS puts it, known to the kernel's tools."""
    folder = f"/lib/modules/{kernel}/updates/dkms"
    text = base64.b64encode(data).decode()
    root(site, f"mkdir -p {folder}; echo {text} | base64 -d > {folder}/nvidia-current-open.ko; depmod {kernel}")


@cache
def checks(blueprint: Path, present: str) -> dict[str, tuple[str, ...]]:
    """The checks of a worker of the real site by their names, where `software.preinstalled` says this."""
    blueprint.write_text(
        anywhere(SHIPPED).replace("frameworks: {", f"preinstalled: {{{present}}}\n  frameworks: {{", 1)
    )
    desired = compile_desired(load(blueprint).cluster, load_roles(REPOSITORY / "roles"), {"munge_key": None})
    return {check.name: check.command for role in desired.nodes["g02"] for check in role.checks}


def said_by(site: Rehearsal, check: str, present: str = "") -> str:
    """What a check says on a node, run there as it is, and its exit status."""
    found = checks(site.folder / "said.yaml", present)
    (command,) = (found[name] for name in found if name.startswith(check))
    return root(site, f"{shlex.join(command)} 2>&1; echo $?")


def test_traps_are_found_by_what_modinfo_lsinitramfs_and_dpkg_read(site: Rehearsal) -> None:
    """By a node's own tools, from modules, initial RAM disks and packages that are really there."""
    root(site, "apt-get install -y -q --no-install-recommends kmod initramfs-tools-core linux-base")
    running = site.inside("g02", "uname -r").strip()
    root(site, f"touch /boot/vmlinuz-{NEWEST}")
    lines = said_by(site, "every installed kernel").splitlines()
    left_out = "has no headers, so that DKMS left its modules out: apt-get install linux-headers-"
    assert sorted(line.partition(left_out)[0] for line in lines) == sorted(["1", f"{running} ", f"{NEWEST} "])

    right, old = module(version="535.261.03"), module(version="535.216.01")
    root(site, f"mkdir -p /lib/modules/{NEWEST}/build/include")
    put_module(site, running, signed(right, "the machine's owner"))
    put_module(site, NEWEST, old)
    said = said_by(site, "every installed kernel")
    assert said.startswith(f"{NEWEST} has nvidia 535.216.01, not 535.261.03: dkms autoinstall -k {NEWEST}")
    assert said.count("\n") == 2
    put_module(site, NEWEST, right)
    assert said_by(site, "every installed kernel") == "0\n"

    secure = "secure_boot: true, signed_by: owner"
    said = said_by(site, "with Secure Boot", secure)
    assert said.startswith(f"nvidia of {NEWEST} has no signature, so that the kernel refuses it: name the key that ")
    assert said.count("\n") == 2
    put_module(site, NEWEST, signed(right, "the machine's owner"))
    assert said_by(site, "with Secure Boot", secure) == "0\n"

    disk = f"/boot/initrd.img-{NEWEST}"
    nouveau = f"usr/lib/modules/{NEWEST}/kernel/drivers/gpu/drm/nouveau"
    pack = f"find . | cpio -o -H newc --quiet | gzip > {disk}"
    root(site, f"mkdir -p /root/d/{nouveau}; cd /root/d; touch {nouveau}/nouveau.ko; {pack}")
    mend = f"update-initramfs -u -k {NEWEST}"
    assert said_by(site, "nouveau") == f"{disk} has nouveau and may load it: {mend}, then restart the node\n1\n"
    root(site, f"cd /root/d; mkdir -p etc/modprobe.d; touch etc/modprobe.d/hpcforge-nouveau.conf; {pack}")
    assert said_by(site, "nouveau") == "0\n"
    root(site, f"echo nothing that was ever packed > {disk}")
    assert f"{disk} cannot be read: {mend}\n1\n" in said_by(site, "nouveau")

    package = {"Package": "nvidia-fabricmanager-535", "Version": "535.216.01-1", "Architecture": "all"}
    package |= {"Maintainer": "nobody <nobody@example.org>", "Description": "of that name"}
    control = "".join(f"{key}: {value}\n" for key, value in package.items())
    packed = "dpkg-deb -b /root/f /root/f.deb"
    root(site, f"mkdir -p /root/f/DEBIAN; printf %s {shlex.quote(control)} > /root/f/DEBIAN/control; {packed}")
    of_driver = "Fabric Manager is of that version"
    assert said_by(site, of_driver) == "0\n"
    root(site, "dpkg -i /root/f.deb")
    wrong = "nvidia-fabricmanager-535 is 535.216.01, not 535.261.03: it will not start\n1\n"
    assert said_by(site, of_driver) == wrong
