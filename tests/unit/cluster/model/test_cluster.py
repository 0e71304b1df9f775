"""What a smoke test gets of the blueprint: a node as declared."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from hpcforge.cluster import load
from hpcforge.kinds.files import File
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.roles.role import load_roles
from tests.support.shipped import ROOT


def test_of_a_designed_site() -> None:
    cluster = load(ROOT / "blueprints" / "dgx-h100-site.yaml").cluster
    worker = cluster.workers[0]
    declared = json.loads(cluster.declared(worker))
    gpus = declared["gpus"]
    assert gpus is not None
    assert (gpus["kind"], len(gpus["devices"]), gpus["models"]) == ("nvidia", 8, ["NVIDIA H100 80GB HBM3"])
    assert declared["cpus"] == worker.cpus
    first, *others = declared["links"]
    assert first["network"] == cluster.network.cidr
    assert {link["rate_gbps"] for link in others if link["interface"]} <= {100.0, 200.0, 400.0}
    assert [mount["path"] for mount in declared["mounts"]] == [system.mount for system in cluster.file_systems(worker)]


def test_names_are_compared_where_there_is_dns_and_fifty_at_most() -> None:
    cluster = load(ROOT / "blueprints" / "dgx-h100-site.yaml").cluster
    assert cluster.some_hosts == {node.name: node.address for node in cluster.nodes}
    many = replace(cluster, nodes=tuple(replace(cluster.workers[0], name=f"w{number}") for number in range(120)))
    assert [*many.some_hosts][:2] == ["w0", "w3"]
    assert len(many.some_hosts) == 40
    services = {name: service for name, service in cluster.services.items() if name != "dns"}
    assert replace(cluster, services=services).some_hosts == {}


def test_nodes_that_are_alike_have_the_same() -> None:
    cluster = load(ROOT / "blueprints" / "dgx-h100-site.yaml").cluster
    assert len({cluster.declared(worker) for worker in cluster.workers}) < len(cluster.workers)


def test_it_is_beside_programs_that_read_it(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    text = (ROOT / "tests" / "unit" / "blueprint" / "cases" / "valid.yaml").read_text()
    asks = "acceptance: {run_as: ada, tests: {node_health: {nodes: all}}}\n"
    path.write_text(text.partition("acceptance:")[0] + asks)
    loaded = load(path)
    desired = compile_desired(loaded.cluster, load_roles(*loaded.role_folders), {"munge_key": None})
    file = "/opt/hpcforge/smoke_tests/declared.json"
    found = {
        node: json.loads(desired.texts[str(one.digest)])
        for node, roles in desired.nodes.items()
        for role in roles
        for one in role.of(File)
        if one.path == file
    }
    assert found == {worker.name: json.loads(loaded.cluster.declared(worker)) for worker in loaded.cluster.workers}
    assert {(declared["turn"], declared["turns"]) for declared in found.values()} == {(0, 1)}


def test_workers_are_grouped_by_what_slurm_has_of_them() -> None:
    cluster = load(ROOT / "blueprints" / "dgx-h100-site.yaml").cluster
    workers = tuple(replace(cluster.workers[0], name=f"w{number}") for number in range(4))
    one = cluster.workers[0].gpus
    assert one is not None
    others = {1: {"weight": 7}, 2: {"gpus": replace(one, count=4)}, 3: {"rack": "elsewhere", "host_keys": ()}}
    nodes = tuple(replace(worker, **others.get(number, {})) for number, worker in enumerate(workers))
    several = replace(cluster, nodes=nodes)
    assert [[node.name for node in kind] for kind in several.worker_kinds] == [["w0", "w3"], ["w1"], ["w2"]]
    assert several.gpu_kinds == {one: ("w0", "w1", "w3"), replace(one, count=4): ("w2",)}
