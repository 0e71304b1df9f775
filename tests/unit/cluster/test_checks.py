"""Addresses of nodes that neither the blueprint nor the inventory gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.cluster import load

BLUEPRINT = """\
schema: 1
name: test
domain: test.example.org
inventory: machines.yaml
access: {user: ops}
nodes:
  head: {functions: [head], hardware: rehearsal-node}
  w[01-02]: {functions: [worker], hardware: rehearsal-node}
fabrics:
  lan: {kind: ethernet, rate_gbps: 1, topology: fat-tree, nodes: all, switch: sn2201}
networks: {mgmt: {cidr: 10.1.0.0/24, fabric: lan, boot: true}}
services: {dns: {on: head}, time: {on: head}}
software: {os: {name: debian, release: "12"}}
slurm: {controller: head, partitions: {main: {nodes: all, default: true}}}
"""


@pytest.mark.parametrize(
    ("machines", "warned"),
    [
        ("schema: 1\nnodes: {}\n", ()),  # all are derived
        ("schema: 1\nnodes: {head: {address: 10.1.0.10}, w01: {address: 10.1.0.11}, w02: {address: 10.1.0.12}}\n", ()),
        ("schema: 1\nnodes: {head: {address: 10.1.0.10}, w01: {address: 10.1.0.11}}\n", ("w02",)),
        (
            "schema: 1\nnodes: {head: {address: 10.1.0.10}, w01: {address: 10.1.0.11}, w03: {address: 10.1.0.12}}\n",
            ("w02",),
        ),
    ],
)
def test_an_address_that_is_derived_beside_given_ones_is_named(
    tmp_path: Path, machines: str, warned: tuple[str, ...]
) -> None:
    (tmp_path / "site.yaml").write_text(BLUEPRINT, encoding="utf-8")
    (tmp_path / "machines.yaml").write_text(machines, encoding="utf-8")
    loaded = load(tmp_path / "site.yaml")
    messages = [entry.message for entry in loaded.found if "without an address" in entry.message]
    assert [message.split()[0] for message in messages] == [*warned]
