"""What a lab on this machine has, for those who stand in for the rest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from pathlib import Path

from hpcforge.lab.kinds import kind_of
from hpcforge.lab.state import Lab
from hpcforge.lab.subnets import POOL, place
from hpcforge.rehearsal.lab_facts import LabFacts, LabMachine

_SYSFS = Path("/sys/devices/system/cpu")
_NOT_YET = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINotYetMadeNotYetMadeNotYetMadeNotYetMadeNo"  # of one not up

_SMALL, _LARGE = 24, 20  # prefix lengths of a lab's subnet
_FEW = 200  # nodes that the small one has room for


def subnet_for(nodes: int) -> str:
    """The subnet that a lab of a real site's nodes asks for: never one of the site's own."""
    return str(next(POOL.subnets(new_prefix=_SMALL if nodes <= _FEW else _LARGE)))


def facts_of(lab: Lab) -> LabFacts:
    """What a lab has: the nodes that its blueprint asked for last, those that were started."""
    nodes = (lab.node(name) for name in lab.in_blueprint)
    keys = ((one, kind_of(lab).host_key(lab, one)) for one in nodes)
    machines = {one.name: LabMachine(one.address, (key,)) for one, key in keys if key is not None}
    return _facts(machines, lab.cidr, lab.login_user, lab.key)


def planned_facts(nodes: Sequence[str], user: str, cidr: str) -> LabFacts:
    """What a lab of these nodes would have if it were up."""
    subnet = IPv4Network(cidr)
    placed = place(subnet, subnet, dict.fromkeys(nodes))
    machines = {name: LabMachine(str(address), (_NOT_YET,)) for name, address in placed.items()}
    return _facts(machines, cidr, user, None)


def _facts(machines: Mapping[str, LabMachine], cidr: str, user: str, key: Path | None) -> LabFacts:
    sockets, cores, threads = processors(_SYSFS)
    memory_mib = max(1, _memory_mib() // max(1, len(machines)) // 1024) * 1024
    return LabFacts(machines, cidr, user, key, sockets, cores, threads, memory_mib)


def processors(sysfs: Path) -> tuple[int, int, int]:
    """Sockets, cores of each and threads of each core, as Slurm's daemon counts them on a node of this machine."""
    threads: dict[tuple[str, str], int] = {}
    for topology in sysfs.glob("cpu[0-9]*/topology"):
        core = (
            (topology / "physical_package_id").read_text().strip(),
            (topology / "core_id").read_text().strip(),
        )
        threads[core] = threads.get(core, 0) + 1
    sockets = {socket for socket, _ in threads}
    cores = min((sum(of == socket for of, _ in threads) for socket in sockets), default=1)
    return max(1, len(sockets)), cores, min(threads.values(), default=1)


def _memory_mib() -> int:
    found = re.search(r"^MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text(), flags=re.MULTILINE)
    if found is None:
        raise OSError("/proc/meminfo has no MemTotal")
    return int(found[1]) // 1024
