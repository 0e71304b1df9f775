"""The facts of a lab on this machine, for its stand-ins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path

from hpcforge.host.resources import controllers, processors, total_mib
from hpcforge.lab.kinds import kind_of
from hpcforge.lab.network import POOL, place
from hpcforge.lab.state import Lab
from hpcforge.rehearsal.lab_facts import LabFacts, LabMachine

_NOT_YET = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINotYetMadeNotYetMadeNotYetMadeNotYetMadeNo"  # of one not started

_SMALL, _LARGE = 24, 20  # prefix lengths of a lab's subnet
_FEW = 200  # room of the small one, nodes


def subnet_for(nodes: int) -> str:
    """Return the subnet for a lab of a real site's nodes, different from the site's own."""
    return str(next(POOL.subnets(new_prefix=_SMALL if nodes <= _FEW else _LARGE)))


def facts_of(lab: Lab) -> LabFacts:
    """Return the facts of a lab: of its blueprint's latest nodes that were started."""
    nodes = (lab.node(name) for name in lab.in_blueprint)
    keys = ((node, kind_of(lab).host_key(lab, node)) for node in nodes)
    machines = {node.name: LabMachine(node.address, (key,)) for node, key in keys if key is not None}
    kind = kind_of(lab)
    facts = _facts(machines, lab.cidr, lab.login_user, lab.key, kind.memory_mib(lab), boots=kind.BOOTS)
    return replace(facts, sources=lab.sources)


def planned_facts(nodes: Sequence[str], user: str, cidr: str) -> LabFacts:
    """Return the expected facts of a lab of these nodes before it is up."""
    subnet = IPv4Network(cidr)
    placed = place(subnet, subnet, dict.fromkeys(nodes))
    machines = {name: LabMachine(str(address), (_NOT_YET,)) for name, address in placed.items()}
    return _facts(machines, cidr, user, None)


def _facts(
    machines: Mapping[str, LabMachine],
    cidr: str,
    user: str,
    key: Path | None,
    own_mib: int | None = None,
    *,
    boots: bool = False,
) -> LabFacts:
    sockets, cores, threads = processors()
    memory_mib = max(1, (own_mib or total_mib() // max(1, len(machines))) // 1024) * 1024
    return LabFacts(machines, cidr, user, key, sockets, cores, threads, memory_mib, boots, controllers())
