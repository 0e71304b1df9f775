"""Each fault of `faults/` on one node: named, the other nodes done, and gone with its remedy; and healthy nodes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.host_faults import VERBS, HostFault, read_faults
from tests.support.host_lab import NODES, Cluster, check_fault, check_subjects

pytestmark = [pytest.mark.lab, pytest.mark.hosts]
FAULTS = read_faults()


def test_twenty_applies_of_healthy_nodes_leave_none_out(cluster: Cluster) -> None:
    for number in range(20):
        for node in NODES[1:]:
            cluster.root(node, f"echo '# by hand {number}' >> /etc/chrony/chrony.conf")
        code, lines = cluster.command(VERBS["apply"])
        output = "".join(line for _, line in lines)
        assert code == 0 and "left out" not in output, output
    check_subjects(cluster)


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_fault_is_named_and_its_remedy_is_one(
    fault: HostFault, cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    after_s = check_fault(fault, cluster)
    if after_s is not None:
        record_property(fault.name, after_s)
