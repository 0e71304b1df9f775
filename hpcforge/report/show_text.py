"""The cluster as resolved, as a page: nodes that are alike in one row, and of everything else what people ask first."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from hpcforge.blueprint.hostlist import HostlistError, fold
from hpcforge.cluster.model import Cluster, Measure, Network, Node, SmokeTest
from hpcforge.report.text import one_line, plural, table, within
from hpcforge.verify.lines import DerivedValue, LineToCome, lines_to_come
from hpcforge.verify.measurements import shown

Table = tuple[tuple[str, ...], list[list[str]]]  # header and rows
_NAMED = 12  # of users and roles: of more only so many are named


def show_text(cluster: Cluster, full: str, columns: int | None = None) -> str:
    """Write the page; `full` is the command that prints all of it. Within `columns`, long cells take several lines."""
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
    """Return a row's values of a node beside its name and place; nodes with the same are one row."""
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


# The lines that a smoke test's numbers will be compared with, before it runs: for people, and as JSON.


Explained = Sequence[tuple[SmokeTest, Mapping[str, DerivedValue]]]


def lines_text(tests: Explained) -> str:
    """Each test with its nodes; under each measure its lines, and how a derived one came about."""
    return "".join(f"{line}\n" for test, derived in tests for line in _of_test(test, derived))


def _of_test(test: SmokeTest, derived: Mapping[str, DerivedValue]) -> Iterator[str]:
    program = test.program
    yield f"{test.name} on {len(test.nodes)} nodes, {fold(test.nodes)}: {program.description}"
    lines = lines_to_come(program, derived)
    for measure in program.measures:
        of_it = [line for line in lines if line.measure == measure.name]
        reason = derived.get(measure.name)
        if not (measure.better or of_it or reason):
            continue
        unit = "" if measure.unit == "1" else f", {measure.unit}"
        better = f", {measure.better} is better" if measure.better else ""
        yield f"  {measure.name}{unit}{better}"
        yield from (f"    {_line(measure, line)}" for line in of_it)
        if not of_it and reason is None:
            yield "    no line: the number is shown, and kept for baselines"
        if reason is not None:
            yield from (f"      {row}" for row in reason.derivation.splitlines())


def _line(measure: Measure, line: LineToCome) -> str:
    what = f"{shown(measure, line.limit)}, {line.source}" if line.limit is not None else line.source
    return f"{line.bound.replace('_', ' ')} {what}: {'refuses' if line.refuses else 'shown only'}"


def lines_json(tests: Explained) -> dict[str, Any]:
    """Return the lines as data; `derivations` also has why a bandwidth is not derived."""
    return {
        "schema_version": 1,
        "tests": [
            {
                "test": test.name,
                "nodes": list(test.nodes),
                "lines": [asdict(line) for line in lines_to_come(test.program, derived)],
                "derivations": {measure: known.derivation for measure, known in derived.items()},
            }
            for test, derived in tests
        ],
    }


# NCCL and UCX settings for a cluster's fabrics, as text and as JSON.


SCHEMA_VERSION = 1


def collectives_text(cluster: Cluster, columns: int | None = None) -> str:
    """Lines for workers on the same fabrics: first the settings, then the variables left to the library."""
    parts = []
    for fabrics, names in _alike(cluster).items():
        found = cluster.collectives(fabrics)
        over = f"over {found.fabric}" if found.fabric else "over IP"
        lines = [f"{fold(names)}: collectives go {over}"]
        for setting in found.settings:
            lines += [f"  {setting.name}={setting.value}", f"      {setting.why}", f"      {setting.source}"]
        lines += ["  Left to the library"]
        for left in found.left:
            lines += [f"  {left.name}", f"      {left.why}", f"      {left.source}"]
        parts.append("".join(f"{one_line(line)}\n" for line in lines))
    return within("\n".join(parts), columns) or "there are no workers\n"


def collectives_json(cluster: Cluster) -> dict[str, Any]:
    """Return the collectives as data."""
    alike = [
        {"nodes": list(names), **dataclasses.asdict(cluster.collectives(fabrics))}
        for fabrics, names in _alike(cluster).items()
    ]
    return {"schema_version": SCHEMA_VERSION, "cluster": cluster.name, "workers": alike}


def _alike(cluster: Cluster) -> dict[tuple[str, ...], tuple[str, ...]]:
    alike: dict[tuple[str, ...], tuple[str, ...]] = {}
    for node in cluster.workers:
        alike[node.fabrics] = (*alike.get(node.fabrics, ()), node.name)
    return alike
