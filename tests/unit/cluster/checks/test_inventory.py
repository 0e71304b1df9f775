"""Addresses, MAC addresses and serial numbers of an inventory that are missing or shared; messages: cases/ has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import InvalidInput
from hpcforge.cluster import load

BLUEPRINT = Path(__file__).parents[1] / "cases" / "mac_twice_or_of_no_port" / "blueprint.yaml"
MAC = "02:00:00:00:00:01"


def errors(folder: Path, nodes: str) -> list[str]:
    """The messages about an inventory."""
    blueprint = folder / "blueprint.yaml"
    blueprint.write_text(BLUEPRINT.read_text())
    (folder / "inventory.yaml").write_text(f"schema: 1\nnodes:\n  {nodes}\n")
    try:
        load(blueprint)
    except InvalidInput as refused:
        return [each.message for each in refused.diagnostics if each.severity == "error"]
    return []


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (f"w01: {{mac: {MAC}, bmc: {{mac: {MAC}}}}}", f"{MAC} of w01 is also its `mac`"),
        (f"w01: {{bmc: {{mac: {MAC}}}}}\n  w02: {{mac: {MAC}}}", f"{MAC} of w02 already belongs to w01"),
        ("w01: {serial: A1}\n  w02: {serial: A1}", "A1 of w02 already belongs to w01"),
    ],
)
def test_no_two_ports_and_no_two_machines_share_one(tmp_path: Path, nodes: str, message: str) -> None:
    assert errors(tmp_path, nodes) == [message]


def test_two_machines_without_either_share_nothing(tmp_path: Path) -> None:
    assert errors(tmp_path, f"w01: {{mac: {MAC}, serial: A1}}\n  w02: {{bmc: {{mac: 02:00:00:00:00:02}}}}") == []


SITE = """\
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
    (tmp_path / "site.yaml").write_text(SITE, encoding="utf-8")
    (tmp_path / "machines.yaml").write_text(machines, encoding="utf-8")
    loaded = load(tmp_path / "site.yaml")
    messages = [entry.message for entry in loaded.found if "without an address" in entry.message]
    assert [message.split()[0] for message in messages] == [*warned]
