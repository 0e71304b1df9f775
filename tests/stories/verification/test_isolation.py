"""One fault at a time on six nodes: the bad part is named; and healthy nodes are not accused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hpcforge.lab import lab as labs
from tests.support.real_site import Rehearsal, configured

pytestmark = [pytest.mark.lab, pytest.mark.isolation]

SITE = Path(__file__).parent / "isolation.yaml"
CPU = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 100_000


@contextmanager
def quota(site: Rehearsal, node: str) -> Iterator[None]:
    """Jobs of a node get 4 % of a core."""
    lab = labs.load(site.lab)
    assert lab is not None
    machine = lab.machine(node)
    (slurmd,) = Path("/sys/fs/cgroup/systemd", f"hpcforge-{machine}").rglob("slurmd.service/cgroup.procs")
    group = CPU / f"hpcforge-quota-{machine}"
    group.mkdir()
    try:
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(PERIOD_US * 4 // 100))
        for process in slurmd.read_text().split():
            (group / "cgroup.procs").write_text(process)
        yield
    finally:
        for process in (group / "cgroup.procs").read_text().split():
            (CPU / "cgroup.procs").write_text(process)
        group.rmdir()


@contextmanager
def throttled(site: Rehearsal, node: str) -> Iterator[None]:
    """A node sends at most 20 Mb/s."""
    site.inside(node, "sudo tc qdisc add dev host0 root tbf rate 20mbit burst 32kbit latency 400ms")
    try:
        yield
    finally:
        site.inside(node, "sudo tc qdisc del dev host0 root")


@contextmanager
def apart(site: Rehearsal, node: str) -> Iterator[None]:
    """A node drops what it would send to w06."""
    lab = labs.load(site.lab)
    assert lab is not None
    route = f"blackhole {lab.node('w06').address}/32"
    site.inside(node, f"sudo ip route add {route}")
    try:
        yield
    finally:
        site.inside(node, f"sudo ip route del {route}")


class Planted(NamedTuple):
    """A fault on a node, and what must be named."""

    plant: Callable[[Rehearsal, str], AbstractContextManager[None]]
    node: str
    kind: str
    nodes: list[str]


FAULTS = {
    "a CPU quota": Planted(quota, "w03", "node", ["w03"]),
    "a throttled interface": Planted(throttled, "w05", "cable", ["w05"]),
    "two nodes that cannot reach each other": Planted(apart, "w02", "pair", ["w02", "w06"]),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    with configured(tmp_path_factory.mktemp("isolation"), "isolation", SITE, "head,w[01-06]") as here:
        yield here


def verified(site: Rehearsal, code: int) -> dict[str, Any]:
    """The verdict; with what it took."""
    said = site.cli("verify", str(SITE), "--level", "quick", "--json", code=code)
    (verdict,) = json.loads(said[said.index("{\n") :])["verdicts"]
    rounds = verdict["isolation"]["rounds"] if verdict["isolation"] else []
    print(f"{verdict['status']} in {verdict['seconds']} s, {len(rounds)} rounds: {verdict['detail']}")
    return dict(verdict)


def test_healthy_nodes_pass(site: Rehearsal) -> None:
    verdict = verified(site, 0)
    assert verdict["status"] == "passed"
    assert verdict["isolation"]["named"] == []


@pytest.mark.parametrize("name", FAULTS)
def test_the_bad_part_is_named(name: str, site: Rehearsal) -> None:
    fault = FAULTS[name]
    if fault.plant is quota and not (CPU / "cpu.cfs_quota_us").exists():
        pytest.skip("this host has no cpu controller of cgroup v1")
    with fault.plant(site, fault.node):
        verdict = verified(site, 7)
    assert [(each["kind"], each["nodes"]) for each in verdict["isolation"]["named"]] == [(fault.kind, fault.nodes)]
