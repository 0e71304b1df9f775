"""What hardware of a blueprint cannot do."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import Diagnostic
from hpcforge.cluster import load

BLUEPRINT = """\
schema: 1
name: test
domain: test.example.org
access: {{user: ops}}
parts:
  switches:
    plain-48p: {{like: sn2410, mtu_max: 1500}}
    silent-48p: {{like: sn2410, mtu_max: null}}
nodes:
  head: {{functions: [head], hardware: rehearsal-node, addresses: 10.1.0.1}}
  w[01-02]: {{functions: [worker], hardware: rehearsal-node, addresses: "10.1.0.[2-3]"}}
fabrics:
  lan: {{kind: ethernet, rate_gbps: 25, topology: fat-tree, {switches}}}
networks: {{mgmt: {{cidr: 10.1.0.0/24, fabric: lan, mtu: {mtu}, boot: true}}}}
services: {{dns: {{on: head}}, time: {{on: head}}}}
software: {{os: {{name: debian, release: "12"}}}}
slurm: {{controller: head, partitions: {{main: {{nodes: all, default: true}}}}}}
"""


def of_mtu(folder: Path, mtu: int, switches: str) -> list[Diagnostic]:
    path = folder / "site.yaml"
    path.write_text(BLUEPRINT.format(mtu=mtu, switches=switches))
    return [entry for entry in load(path).diagnostics if "bytes are more than" in entry.message]


# Largest packets of public pages: Cumulus Linux and Nexus 9000 have 9216 bytes, EOS 9214; many switches keep to 1500
# until jumbo frames are on, and of others nothing is published.
@pytest.mark.parametrize(
    ("mtu", "switches", "message"),
    [
        (9216, "switch: arista-7050sx3-48yc8", "9216 bytes are more than arista-7050sx3-48yc8 of lan carries, 9214"),
        (9000, "switch: plain-48p", "9000 bytes are more than plain-48p of lan carries, 1500"),
        (9000, "switch: sn2410, spine_switch: plain-48p", "9000 bytes are more than plain-48p of lan carries, 1500"),
        (9214, "switch: arista-7050sx3-48yc8", None),
        (9216, "switch: sn2410", None),
        (1500, "switch: plain-48p", None),
        (9216, "switch: silent-48p", None),
        (9216, "switch: generic-48p-10g", None),
    ],
)
def test_packets_larger_than_a_switch_carries_are_a_warning(
    tmp_path: Path, mtu: int, switches: str, message: str | None
) -> None:
    found = of_mtu(tmp_path, mtu, switches)
    assert [entry.message.partition(" (")[0] for entry in found] == ([message] if message else [])
    assert all((entry.severity, entry.line) == ("warning", 14) for entry in found)


def test_a_number_that_is_not_published_is_called_a_guess(tmp_path: Path) -> None:
    (guess,) = of_mtu(tmp_path, 9216, "switch: arista-7050sx3-48yc8")
    (own,) = of_mtu(tmp_path, 9000, "switch: plain-48p")
    assert ("a guess" in guess.message, "a guess" in own.message) == (True, False)
    assert own.hint == "mtu: 1500, or another switch model"
