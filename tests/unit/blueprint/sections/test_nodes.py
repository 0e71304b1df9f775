"""Which GPUs a node has: its override's, else its group's, else its server model's; all who ask are told the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.blueprint.sections.hardware import GpusSection
from hpcforge.blueprint.sections.nodes import FACTS, NodeGroup, Override, alike, gpus_of, hardware_of
from hpcforge.catalog import load_catalog
from hpcforge.catalog.distribution import Distribution
from hpcforge.cluster import load
from hpcforge.software.rule_checks import declared

CATALOG = load_catalog()
DGX, PLAIN = CATALOG.servers["dgx-h100"], CATALOG.servers["generic-2u"]
TEXT = """\
schema: 1
name: small
domain: small.example.org
access: {user: ops}
nodes:
  head: {functions: [head], hardware: generic-2u, addresses: 10.1.0.1}
  w[01-02]: {functions: [worker], hardware: dgx-h100, addresses: "10.1.0.[11-12]"}
  w03: {functions: [worker], hardware: generic-2u, gpus: {model: l40s, count: 2}, addresses: 10.1.0.13}
networks: {mgmt: {cidr: 10.1.0.0/24}}
services: {dns: {on: head}, time: {on: head}}
software: {os: {name: debian, release: "13"}}
slurm:
  controller: head
  reserve: {cores: 1, memory_gib: 1}
  partitions: {main: {nodes: all, default: true}}
users: {tests: {uid: 2001}}
overrides:
  w01: {gpus: {model: h200-sxm, count: 8}, reason: exchanged}
  w02: {gpus: {model: h200-sxm, count: 0}, reason: board in repair}
  w03: {sockets: 2, cores_per_socket: 8, threads_per_core: 2, memory_gib: 64, reason: counted}
"""


def group(gpus: GpusSection | None = None) -> NodeGroup:
    return NodeGroup.model_construct(functions=("worker",), hardware="x", gpus=gpus)


def override(**said: object) -> Override:
    return Override.model_validate({"reason": "seen", **said})


@pytest.mark.parametrize(
    ("gpus", "own", "server", "found"),
    [
        (None, None, PLAIN, None),
        (None, None, DGX, ("h100-sxm", 8)),
        (GpusSection(model="l40s", count=2), None, DGX, ("l40s", 2)),
        (GpusSection(model="l40s", count=2), override(gpus={"model": "t4", "count": 1}), DGX, ("t4", 1)),
        (GpusSection(model="l40s", count=2), override(gpus={"model": "l40s", "count": 0}), DGX, None),
        (None, override(sockets=1), DGX, ("h100-sxm", 8)),
    ],
)
def test_override_then_group_then_hardware(
    gpus: GpusSection | None, own: Override | None, server: object, found: tuple[str, int] | None
) -> None:
    chosen = gpus_of(group(gpus), own, server)  # type: ignore[arg-type]
    assert (chosen and (chosen.model, chosen.count)) == found


def test_nodes_that_are_alike_come_first() -> None:
    one = override(sockets=1)
    assert list(alike("w[01-03]", {"w02": one})) == [(("w01", "w03"), None), (("w02",), one)]
    assert list(alike("w01", {"w01": one})) == [(("w01",), one)]


def test_cluster_room_and_software_have_the_same(tmp_path: Path) -> None:
    """No node has the H100 that the hardware of w[01-02] comes with, so no software is held to it."""
    path = tmp_path / "small.yaml"
    path.write_text(TEXT, encoding="utf-8")
    one = load(path, judged=False)
    wanted = {"head": None, "w01": ("h200-sxm", 8), "w02": None, "w03": ("l40s", 2)}
    assert {node.name: node.gpus and (node.gpus.model, node.gpus.count) for node in one.cluster.nodes} == wanted
    kinds = one.placed.room.kind_of
    assert {name: (gpus := kinds[name].gpus) and (gpus.model, gpus.count) for name in wanted} == wanted
    system: Distribution = CATALOG.distributions["debian", "13"]
    said = {each.shown for each in declared(one.blueprint, CATALOG, system, nvidias=False) if each.component == "gpu"}
    assert said == {"h200-sxm (Hopper)", "l40s (Ada)"}


@pytest.mark.parametrize("fact", FACTS)
def test_a_fact_is_the_overrides_else_the_models(fact: str) -> None:
    own = override(**{fact: 2})
    assert getattr(hardware_of(group(), own, DGX).server, fact) == 2
    assert getattr(hardware_of(group(), None, DGX).server, fact) == getattr(DGX, fact)
    assert hardware_of(group(), own, DGX).overridden == {fact}


def test_no_gpus_by_override_are_known_gpus() -> None:
    found = hardware_of(group(), override(gpus={"model": "t4", "count": 0}), DGX)
    assert (found.gpus, found.overridden) == (None, {"gpus"})
    assert found.server.gpus == DGX.gpus  # what the model is sold with is still known


def test_cluster_and_room_have_the_same_facts(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(TEXT, encoding="utf-8")
    one = load(path, judged=False)
    for node in one.cluster.nodes:
        server = one.placed.room.kind_of[node.name].server
        facts = (server.sockets or 0, server.cores_per_socket or 0, server.threads_per_core or 0)
        assert (node.sockets, node.cores_per_socket, node.threads_per_core) == facts
        assert node.memory_mib == (server.memory_gib or 0) * 1024
    assert one.cluster.by_name["w03"].cpus == 32
