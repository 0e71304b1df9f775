"""Ten thousand nodes: compiling, comparing and printing grow with the nodes, not with their square."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

from hpcforge.cluster.model import Cluster
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.diff import diff
from hpcforge.plan.observation import Observation
from hpcforge.plan.roles.role import load_roles
from hpcforge.report.plan_text import plan_text

NODES = 10_000


def test_a_plan_for_ten_thousand_nodes(cluster: Cluster, roles_folder: Path) -> None:
    head, worker, _ = cluster.nodes
    role = roles_folder / "client/role.yaml"
    role.write_text(role.read_text().replace("needs: [server@cluster]", "needs: [server, server@cluster]"))
    workers = (
        dataclasses.replace(worker, name=f"w{n:05}", address=f"10.0.{n // 250 + 1}.{n % 250 + 1}") for n in range(NODES)
    )
    large = dataclasses.replace(cluster, nodes=(head, *workers))
    start = time.process_time()
    desired = compile_desired(large, load_roles(roles_folder), {"munge_key": "ab" * 32})
    plan = diff(large, desired, {node.name: Observation(node.name, {}, python=False) for node in large.nodes})
    assert f"{NODES + 1} nodes to change: head,w[00000-09999]" in plan_text(plan)
    assert time.process_time() - start < 30  # about 4 s of one core; a square anywhere takes minutes
