"""One fault at a time on six nodes: the bad part is named; and healthy nodes are not accused."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.real_site import Rehearsal

pytestmark = pytest.mark.lab

SITE = Path(__file__).parent / "site.yaml"


class Planted(NamedTuple):
    """A fault as data: what brings it about on a node, what ends it, and what must be named."""

    node: str
    begin: str
    end: str
    nodes: list[str]
    kind: str


FAULTS = {
    "a CPU quota": Planted(
        "w03",
        "systemctl set-property --runtime slurmd.service CPUQuota=8%",
        "systemctl set-property --runtime slurmd.service CPUQuota=",
        ["w03"],
        "node",
    ),
    "a throttled interface": Planted(
        "w05",
        "tc qdisc add dev host0 root tbf rate 20mbit burst 32kbit latency 400ms",
        "tc qdisc del dev host0 root",
        ["w05"],
        "cable",
    ),
    "two nodes that cannot reach each other": Planted(
        "w02",
        "nft add table ip apart; nft 'add chain ip apart in { type filter hook input priority 0; }'; "
        "nft add rule ip apart in ip saddr $(getent ahostsv4 w06 | cut -d' ' -f1 | head -1) drop",
        "nft delete table ip apart",
        ["w02", "w06"],
        "pair",
    ),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    here = Rehearsal(tmp_path_factory.mktemp("isolation"), f"test-isolation-{os.getpid()}")
    try:
        here.cli("rehearse", "up", str(SITE), "--nodes", "head,w[01-06]")
        here.cli("apply", str(SITE), "--yes", "--verify", "none")
        yield here
    finally:
        here.cli("rehearse", "down")


def verified(site: Rehearsal, code: int) -> dict[str, Any]:
    said = site.cli("verify", str(SITE), "--json", code=code)
    (verdict,) = json.loads(said[said.index("{\n") :])["verdicts"]
    rounds = verdict["isolation"]["rounds"] if verdict["isolation"] else []
    print(f"{verdict['status']} in {verdict['seconds']} s, {len(rounds)} rounds: {verdict['detail']}")
    return dict(verdict)


def test_healthy_nodes_pass(site: Rehearsal) -> None:
    verdict = verified(site, 0)
    assert verdict["status"] == "passed"
    assert verdict["isolation"]["named"] == []
    assert verdict["backend"] is None or verdict["backend"] == "gloo"


@pytest.mark.parametrize("name", FAULTS)
def test_the_bad_part_is_named(name: str, site: Rehearsal) -> None:
    fault = FAULTS[name]
    site.inside(fault.node, f"sudo sh -c {shlex.quote(fault.begin)}")
    try:
        verdict = verified(site, 7)
    finally:
        site.inside(fault.node, f"sudo sh -c {shlex.quote(fault.end)}")
    assert [(each["kind"], each["nodes"]) for each in verdict["isolation"]["named"]] == [(fault.kind, fault.nodes)]
