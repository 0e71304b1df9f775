"""A real site of another kind: servers of four L40S on a pair of Ethernet switches, a firewall on every node."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import REPOSITORY
from tests.e2e.real_site import Rehearsal

pytestmark = pytest.mark.lab

SHIPPED = REPOSITORY / "blueprints" / "roce-pair-16.yaml"
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
