"""Each fault of `faults/` on one node: named before any change, the other nodes done, and gone with its remedy."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from tests.stories.hosts.conftest import NODES, Cluster
from tests.support.host_faults import VERBS, HostFault, changes, named_after, printed_remedy, read_faults

pytestmark = pytest.mark.lab
FAULTS = read_faults()
ROWS = [pytest.param(fault, id=fault.name, marks=() if fault.quick else pytest.mark.hosts) for fault in FAULTS]


@pytest.fixture(scope="module")
def seconds(request: pytest.FixtureRequest) -> Iterator[dict[str, float]]:
    """Seconds until each fault was named; printed, and written if --fault-table is given."""
    measured: dict[str, float] = {}
    yield measured
    table = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "seconds": measured}
    print(yaml.safe_dump(table, sort_keys=False))
    if path := request.config.getoption("--fault-table"):
        Path(path).write_text(yaml.safe_dump(table, sort_keys=False))


@pytest.mark.parametrize("fault", ROWS)
def test_a_fault_is_named_and_its_remedy_is_one(fault: HostFault, cluster: Cluster, seconds: dict[str, float]) -> None:
    node = fault.node
    others = [name for name in NODES[1:] if name != node]
    if fault.state == "fresh":
        cluster.restore("bare", node)
    cluster.root(node, fault.plant)
    for name in [*others, *([node] if fault.state == "configured" else [])]:
        cluster.root(name, fault.work)
    code, lines = cluster.command(VERBS.get(fault.verb, fault.verb))
    output = "".join(line for _, line in lines)
    assert code == fault.exit, output
    after_s = named_after(fault, lines)
    assert after_s is not None, f"without {fault.says} of {node}:\n{output}"
    if fault.says:
        seconds[fault.name] = after_s
    if fault.verb == "apply":
        code, _ = cluster.command(f"{VERBS['plan']} --limit {','.join(others)}")
        assert code == 0, f"{others} are not done"
    if remedy := printed_remedy(fault, output) if fault.remedy == "printed" else fault.remedy:
        cluster.root(node, remedy)
    assert cluster.command(VERBS["apply"])[0] == 0
    if fault.clean:
        cluster.root(node, fault.clean)
    assert cluster.command(VERBS["plan"])[0] == 0
    assert changes(cluster.state[node], cluster.listing(node)) == []
