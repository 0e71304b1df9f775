"""What a node is sent of what another cluster may have left there."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.cluster.model import Cluster
from hpcforge.plan.changes import Scope
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.diff import diff
from hpcforge.plan.observation import Observation
from hpcforge.plan.plan import Plan
from hpcforge.plan.roles.role import load_roles
from hpcforge.run.result import Run
from hpcforge.run.stages import stages
from tests.support.plans import with_fields

OLD = "\nold_state: [{path: /var/client, name_in: name, unit: client.service, why: it counts}]\n"


@pytest.fixture
def plan(cluster: Cluster, roles_folder: Path) -> Plan:
    role = roles_folder / "client" / "role.yaml"
    role.write_text(role.read_text() + OLD)
    desired = compile_desired(cluster, load_roles(roles_folder), {"munge_key": "ab" * 32})
    bare = {node.name: Observation(node.name, python=False) for node in cluster.nodes}
    return diff(cluster, desired, bare, scope=Scope(take_over=True))


def prepared(plan: Plan) -> dict[str, object]:
    run = Run(1, "cafe", "ops@host", "small", "0.2")
    secrets = {"munge_key": b"0" * 32}
    [request] = [dict(s.task.request) for s in stages(plan, "w1", secrets, run) if s.task.id == "prepare:w1"]
    return request


def test_a_node_is_sent_what_to_rename_and_whether(plan: Plan) -> None:
    request = prepared(plan)
    [work] = [role for role in request["work"] if role["role"] == "client"]
    assert work["old_state"] == [
        {
            "path": "/var/client",
            "cluster": "small",
            "why": "it counts",
            "name_in": "name",
            "beside": [],
            "unit": "client.service",
        }
    ]
    assert (request["take_over"], request["inspect"]) == (True, True)
    assert "take_over" not in prepared(with_fields(plan, take_over=False))
