"""A real site of another kind: servers of four L40S on a pair of Ethernet switches, a firewall on every node."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import REPOSITORY
from tests.e2e.real_site import Rehearsal
from tests.shipped import anywhere

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
    assert site.cli("rehearse", "compare", str(SHIPPED)).endswith("; not explained: 0\n")


def of_driver(site: Rehearsal, node: str) -> tuple[set[str], set[str]]:
    """Versions of the packages that are built from the driver's source, and which of them are held."""
    fields = "'${source:Package} ${source:Upstream-Version} ${db:Status-Want} ${Package}\\n'"
    lines = [line.split() for line in site.inside(node, f"dpkg-query -W -f {fields}").splitlines()]
    found = [line for line in lines if line[0] == "nvidia-graphics-drivers"]
    return {version for _, version, *_ in found}, {name for *_, want, name in found if want == "hold"}


def test_the_driver_is_installed_as_one_set_and_held(site: Rehearsal) -> None:
    """User space and CUDA's runtime, from Debian's non-free; the modules need a machine's own kernel."""
    assert of_driver(site, "g01") == of_driver(site, "g02") == ({"535.261.03"}, SET)
    assert "libcudart11.0\n" in site.inside("g01", "apt-mark showhold")
    load = 'import ctypes; ctypes.CDLL("libcuda.so.1"); ctypes.CDLL("libcudart.so.11.0")'
    site.inside("g01", f"python3 -c '{load}'")
    assert "535.309.01-0+deb12u1 -1\n" in site.inside("g01", "apt-cache policy libcuda1")  # there, and never chosen
    assert "Nothing to do on 3 nodes." in site.cli("apply", str(SHIPPED), "--yes")
    told = site.cli("rehearse", "compare", str(SHIPPED))
    assert "nvidia_modules: a container has the kernel of its host" in told


def test_another_driver_takes_the_place_of_the_installed_one_as_a_whole(site: Rehearsal, tmp_path: Path) -> None:
    newer = tmp_path / SHIPPED.name
    newer.write_text(anywhere(SHIPPED).replace('"535.261.03", modules: open', '"535.309.01", modules: closed'))
    site.cli("apply", str(newer), "--yes", "--limit", "g01", "--verify", "none")
    assert of_driver(site, "g01") == ({"535.309.01"}, SET)
    assert of_driver(site, "g02") == ({"535.261.03"}, SET)
    said = site.cli("plan", str(newer), code=2)
    assert "1 node to change: g02; unchanged: g01,head01; drain: g02.\n" in said
