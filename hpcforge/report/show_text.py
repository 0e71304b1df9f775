"""The cluster as resolved, as a page: nodes that are alike in one row, and of everything else what people ask first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hpcforge.blueprint.hostlist import HostlistError, fold
from hpcforge.cluster.model import Cluster, Network, Node
from hpcforge.report.text import plural, table, within

Table = tuple[tuple[str, ...], list[list[str]]]  # header and rows
_NAMED = 12  # of users and roles: of more only so many are named


def show_text(cluster: Cluster, full: str, columns: int | None = None) -> str:
    """The page; `full` is the command that prints all of it. Within `columns`, long cells take several lines."""
    os, access = cluster.os, cluster.access
    via = f" through {access.via.name}" if access.via else ""
    first = f"{cluster.name}: {cluster.domain}, {os.name} {os.release}, Slurm {os.slurm}, Python {os.python}"
    parts = [f"{first}; hpcforge logs in as {access.user}{via}\n"]
    parts += [table(header, rows, columns=columns) for header, rows in cluster_tables(cluster)]
    parts.append(within(f"all of it, a value a line: {full}\n", columns))
    return "\n".join(parts)


def cluster_tables(cluster: Cluster) -> list[Table]:
    """Return the tables of the page, each as header and rows."""
    tables: tuple[Table, ...] = (
        _nodes(cluster),
        (("network", "cidr", "fabric", "what"), [*map(_network, cluster.networks or (cluster.network,))]),
        (("service", "where"), [*_services(cluster)]),
        (("partition", "nodes", "limit", ""), [*_partitions(cluster)]),
        (("storage", "kind", "from", "at"), [*_storage(cluster)]),
        (("smoke test", "nodes"), [*_tests(cluster)]),
        (("also", ""), [*_rest(cluster)]),
    )
    return [(header, rows) for header, rows in tables if rows]


def _nodes(cluster: Cluster) -> Table:
    alike: dict[tuple[str, ...], list[Node]] = {}
    for node in cluster.nodes:
        alike.setdefault(_shape(node), []).append(node)
    rows = [
        [fold([node.name for node in nodes]), *shape, folded([node.address for node in nodes]), _racks(nodes)]
        for shape, nodes in alike.items()
    ]
    header = ("nodes", "functions", "hardware", "cores", "memory", "GPUs", "remarks", "addresses", "racks")
    used = [place for place, name in enumerate(header) if name != "remarks" or any(row[place] for row in rows)]
    return tuple(header[place] for place in used), [[row[place] for place in used] for row in rows]


def _shape(node: Node) -> tuple[str, ...]:
    """What a row has of a node beside its name and place; nodes with the same are one row."""
    cores = f"{node.sockets} x {node.cores_per_socket} ({node.cpus} CPUs)" if node.cpus else "-"
    gpus = "-"
    if node.gpus:
        cut = " (MIG)" if node.gpus.mig else " (shards)" if any(node.gpus.shards) else ""
        gpus = f"{node.gpus.count} {node.gpus.model}{cut}"
    memory = f"{node.memory_mib / 1024:g} GiB" if node.memory_mib else "-"
    remarks = "; ".join(filter(None, [node.reason, node.note, *node.accepts]))
    return ",".join(node.functions), node.hardware, cores, memory, gpus, remarks


def _racks(nodes: Sequence[Node]) -> str:
    return folded(list(dict.fromkeys(node.rack for node in nodes if node.rack))) or "-"


def folded(names: Sequence[str]) -> str:
    """Names as a hostlist; those that fold into none, one by one."""
    try:
        return fold(names)
    except HostlistError:
        return ",".join(names)


def _network(network: Network) -> list[str]:
    said: Mapping[str, object] = {
        "interface": network.interface, "VLAN": network.vlan, "MTU": network.mtu, "gateway": network.gateway,
        "bond": network.bond,
    }  # fmt: skip
    what = [f"{key} {value}" for key, value in said.items() if value is not None]
    what += [word for word, holds in (("of BMCs", network.bmc), ("the site's", network.external)) if holds]
    what += ["interfaces set up by hpcforge"] if network.configure else []
    return [network.name, network.cidr, network.fabric or "-", ", ".join(what)]


def _services(cluster: Cluster) -> Iterator[list[str]]:
    for name, service in cluster.services.items():
        if service.on or service.external:
            yield [name, folded(service.on) if service.on else f"outside: {', '.join(service.external)}"]


def _partitions(cluster: Cluster) -> Iterator[list[str]]:
    for partition in cluster.slurm.partitions:
        more = [*(["default"] if partition.default else []), *([f"QOS {partition.qos}"] if partition.qos else [])]
        more += [f"topology/{partition.topology}"] if partition.topology else []
        more += (f"{name}={value}" for name, value in partition.settings)
        yield [partition.name, fold(partition.nodes), partition.max_time, ", ".join(more)]


def _storage(cluster: Cluster) -> Iterator[list[str]]:
    for file_system in cluster.storage:
        yield [file_system.name, file_system.kind, file_system.what, file_system.mount]


def _tests(cluster: Cluster) -> Iterator[list[str]]:
    nodes: dict[str, list[str]] = {}
    for test in cluster.acceptance.tests if cluster.acceptance else ():
        nodes.setdefault(test.name, []).append(fold(test.nodes))
    for name, sets in nodes.items():
        more = f" and {plural(len(sets) - 4, 'more set')}" if len(sets) > 4 else ""
        yield [name, "; ".join(sets[:4]) + more]


def _rest(cluster: Cluster) -> Iterator[list[str]]:
    """Software and people, a row each."""
    if cluster.driver:
        installed = "installed" if cluster.nvidia else "brought by the nodes"
        cuda = f", CUDA {', '.join(cluster.nvidia.cuda)}" if cluster.nvidia and cluster.nvidia.cuda else ""
        yield ["NVIDIA driver", f"{cluster.driver}, {installed}{cuda}"]
    if cluster.pytorch:
        yield ["PyTorch", f"{cluster.pytorch.version} ({cluster.pytorch.build})"]
    for framework in cluster.frameworks:
        yield [framework.title, framework.version]
    for what, names in (
        ("users", [user.name for user in cluster.users]),
        (
            "accounts",
            [
                association.name.split()[1]
                for association in cluster.slurm.associations
                if association.name.startswith("account ")
            ],
        ),
        ("reservations", [reservation.name for reservation in cluster.slurm.reservations]),
        (
            "fabrics",
            [
                f"{fabric.name} ({fabric.kind}, {fabric.links} x {fabric.rate_gbps:g} Gbit/s)"
                for fabric in cluster.fabrics
            ],
        ),
        ("Ansible roles", [site_role.name for site_role in cluster.site_roles]),
        ("run tests as", [cluster.acceptance.run_as] if cluster.acceptance else []),
    ):
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        if names:
            yield [what, ", ".join(names[:_NAMED]) + more]
