"""The ports that Slurm's daemons and the cluster's services need, and the commands that try them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping

from hpcforge.cluster.model import Cluster
from hpcforge.programs import port_probe
from hpcforge.slurm.down_nodes import COMPLETING, COMPLETING_COMMAND

SLURMD_PORTS = "slurmd_ports"  # the name of the controller's question for unreachable slurmds
_SLURMCTLD, _SLURMD = 6817, 6818  # Slurm's defaults; `slurm.settings` refuses others
# No port is tried while slurmctld does not run: the workers of a first apply have no slurmd.
_WITH_SLURMCTLD = 'scontrol ping 2>/dev/null | grep -q "is UP" || exit 1; exec python3 -I -c "$@"'
_SERVICES = (("DNS", "dns", "53"), ("the time server", "time", "123/udp"), ("the depot", "depot", "80"))


def slurmd(cluster: Cluster, node: str) -> str:
    """Return the address and port of a worker's slurmd."""
    return f"{cluster.by_name[node].address}:{_SLURMD}"


def services(cluster: Cluster, node: str) -> dict[str, str]:
    """Return the services that a worker needs, as `slurmctld on head`, by address and port."""
    controller = cluster.slurm.controller
    needed = {f"{cluster.by_name[controller].address}:{_SLURMCTLD}": f"slurmctld on {controller}"}
    for name, service, of_service in _SERVICES:
        for host in cluster.services[service].on if service in cluster.services else ():
            if host != node:
                needed[f"{cluster.by_name[host].address}:{of_service}"] = f"{name} on {host}"
    return needed


def probe(targets: Iterable[str]) -> list[str]:
    """Return the command that prints the silent ones of these, with the reason."""
    return ["python3", "-I", "-c", inspect.getsource(port_probe), *targets]


def asks(cluster: Cluster) -> dict[str, list[str]]:
    """Return the controller's questions: the slurmds that it does not reach, the jobs that do not end."""
    targets = [slurmd(cluster, node.name) for node in cluster.workers if node.address]
    commands = {SLURMD_PORTS: ["sh", "-c", _WITH_SLURMCTLD, "sh", *probe(targets)[3:]]} if targets else {}
    return {COMPLETING: list(COMPLETING_COMMAND), **commands}


def failures(output: str) -> dict[str, str]:
    """Return the reasons by address and port, from the output of `probe`."""
    return {target: reason for target, _, reason in (line.partition(" ") for line in output.splitlines()) if reason}


def silent(cluster: Cluster, answers: Mapping[str, str]) -> dict[str, str]:
    """Return the controller's failed connections to slurmds, by worker, from its answers."""
    controller, failed = cluster.slurm.controller, failures(answers.get(SLURMD_PORTS, ""))
    ports = {node.name: slurmd(cluster, node.name) for node in cluster.workers}
    return {
        name: f"{controller} cannot connect to its slurmd at {port}: {failed[port]}"
        for name, port in ports.items()
        if port in failed
    }
