"""Heads with too little memory for their services."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import Diagnostic
from hpcforge.blueprint.role_declarations import read_declared
from hpcforge.blueprint.sections.hardware import GUESS
from hpcforge.bundled import roles
from hpcforge.cluster import load

BLUEPRINT = """\
schema: 1
name: test
domain: test.example.org
access: {{user: ops}}
hardware:
  small: {{like: generic-1u, memory_gib: {memory}, sockets: 1, cores_per_socket: 8, threads_per_core: 1}}
nodes:
  head: {{functions: [head], hardware: {hardware}, addresses: 10.1.0.1}}
  other: {{functions: [login], hardware: small, addresses: 10.1.0.2}}
  w[001-{workers:03}]: {{functions: [worker], hardware: small, addresses: "10.1.1.[1-{workers}]"}}
networks: {{mgmt: {{cidr: 10.1.0.0/16}}}}
services: {{dns: {{on: head}}, time: {{on: head}}, metrics: {{on: {metrics}}}{more}}}
software: {{os: {{name: debian, release: "12"}}}}
slurm: {{controller: head, partitions: {{main: {{nodes: all, default: true}}}}}}
users: {{tests: {{uid: 2001}}}}
"""


def warned(folder: Path, **settings: object) -> list[Diagnostic]:
    defaults = {"memory": 64, "hardware": "small", "workers": 6, "metrics": "head", "more": ""}
    path = folder / "site.yaml"
    path.write_text(BLUEPRINT.format(**{**defaults, **settings}))
    return [entry for entry in load(path).diagnostics if "less memory than" in entry.message]


def test_a_head_with_less_memory_than_its_services_take_is_a_warning_with_the_sum(tmp_path: Path) -> None:
    (found,) = warned(tmp_path, memory=2)
    assert (found.severity, found.line) == ("warning", 8)
    assert found.message == (
        "head has less memory than its services take: "
        "1.00 (base) + 0.56 (metrics) + 1.01 (slurm.controller) = 2.57 GiB > 2.00 GiB"
    )
    assert found.hint == "more memory, or another node for slurm.controller; some of these numbers are guesses"


@pytest.mark.parametrize(
    "settings",
    [
        {"memory": 4},
        {"memory": 3, "metrics": "other"},
        {"hardware": "rehearsal-node", "memory": 64},
        {"hardware": "generic-1u", "memory": 64},  # its memory is unknown
    ],
    ids=str,
)
def test_enough_unknown_and_rehearsed_memory_is_no_warning(tmp_path: Path, settings: dict[str, object]) -> None:
    assert warned(tmp_path, **settings) == []


def test_more_nodes_take_more_memory(tmp_path: Path) -> None:
    assert not warned(tmp_path, memory=8, workers=100)
    (found,) = warned(tmp_path, memory=8, workers=200)
    assert "8.14 (metrics)" in found.message


def test_an_override_counts(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    text = BLUEPRINT.format(memory=64, hardware="small", workers=6, metrics="head", more="")
    path.write_text(text + 'overrides: {head: {memory_gib: 2, reason: "a broken module"}}\n')
    assert [entry.line for entry in load(path).diagnostics if "less memory than" in entry.message] == [8]


def test_every_number_of_shipped_roles_has_a_source() -> None:
    memory = read_declared(roles()).memory
    assert memory
    for role, takes in memory.items():
        assert takes.services or takes.scheduler or takes.everywhere, f"{role}: nothing says where it runs"
        assert len(takes.need.source.removeprefix(GUESS)) > 20, role
