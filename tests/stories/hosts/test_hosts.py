"""What hosts had before an apply: a few of `faults/` in CI, and healthy nodes. All are in test_all_faults.py."""

from __future__ import annotations

import pytest

from tests.support.host_faults import HostFault, read_faults
from tests.support.host_lab import Cluster, check_fault, check_subjects

pytestmark = pytest.mark.lab
FAULTS = [fault for fault in read_faults() if fault.quick]


def test_a_healthy_node_has_no_obstacle_and_a_subject_is_cheap(cluster: Cluster) -> None:
    check_subjects(cluster)


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_fault_is_named_and_its_remedy_is_one(fault: HostFault, cluster: Cluster) -> None:
    check_fault(fault, cluster)
