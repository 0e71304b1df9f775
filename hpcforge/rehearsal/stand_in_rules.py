"""The rules of stand-ins: parts of a cluster that a lab on one machine lacks, and their substitutes.

Each rule is an entry of `RULES`. Their order matters: each gets the cluster that the earlier ones changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from hpcforge.blueprint.hostlist import fold
from hpcforge.catalog import load_catalog
from hpcforge.catalog.file_systems import Mounted
from hpcforge.cluster.model import (
    Access,
    Cluster,
    Framework,
    Node,
    PyTorch,
    Service,
    SmokeTest,
    SmokeTestProgram,
    StandInGpus,
    Threshold,
    Wheel,
)
from hpcforge.cluster.people import User
from hpcforge.cluster.storage import FileSystem
from hpcforge.design.fabric.topology_conf import shrunk
from hpcforge.frameworks import FRAMEWORKS
from hpcforge.rehearsal.lab_facts import SHARED_FOLDER, LabFacts
from hpcforge.rehearsal.stand_ins import StandInRule

Statement = tuple[str, str] | None
_TIMES = ("s", "ms", "us", "ns")  # units of time
_TENTH = 0.1  # of the median
_SHARED = 2  # times the limit of a ratio of speeds, where nodes share cores: a rank that waits for one is not slow


def login_user(cluster: Cluster) -> str:
    """Return the login account for a lab of this cluster: an ordinary one, as on real nodes."""
    return "ops" if cluster.access.user == "root" else cluster.access.user


def _describe_nodes(cluster: Cluster, lab: LabFacts) -> Statement:
    out = [node.name for node in cluster.nodes if node.name not in lab.machines]
    if not out:
        return None
    present = frozenset(lab.machines)
    empty = [partition.name for partition in cluster.slurm.partitions if not present.intersection(partition.nodes)]
    dropped = f"; the partitions {', '.join(empty)}, which have no other" if empty else ""
    few = _too_small(cluster, present)
    tests = f"; the smoke tests {', '.join(few)}, which take more nodes" if few else ""
    count = f"{len(out)} of {len(cluster.nodes)} nodes"
    return count, f"{fold(out)} are missing, also in partitions, topologies and smoke tests{dropped}{tests}"


def _nodes(cluster: Cluster, lab: LabFacts) -> Cluster:
    present = frozenset(lab.machines)
    slurm, acceptance = cluster.slurm, cluster.acceptance
    partitions = (replace(partition, nodes=_keep(partition.nodes, present)) for partition in slurm.partitions)
    reservations = (replace(reservation, nodes=_keep(reservation.nodes, present)) for reservation in slurm.reservations)
    workers = _keep((node.name for node in cluster.workers), present)
    topologies = (shrunk(topology, workers) for topology in slurm.topologies)
    nodes = tuple(node for node in cluster.nodes if node.name in present)
    return replace(
        cluster,
        nodes=nodes,
        slurm=replace(
            slurm,
            partitions=tuple(partition for partition in partitions if partition.nodes),
            reservations=tuple(reservation for reservation in reservations if reservation.nodes),
            topologies=tuple(topology for topology in topologies if not topology.empty),
        ),
        services={name: replace(service, on=_keep(service.on, present)) for name, service in cluster.services.items()},
        site_roles=tuple(replace(site_role, on=_keep(site_role.on, present)) for site_role in cluster.site_roles),
        fabrics=tuple(fabric for fabric in cluster.fabrics if any(fabric.name in node.fabrics for node in nodes)),
        acceptance=replace(acceptance, tests=_tests(acceptance.tests, present)) if acceptance else None,
        storage=tuple(replace(file_system, on=_keep(file_system.on, present)) for file_system in cluster.storage),
    )


def _keep(names: Iterable[str], present: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in present)


def _tests(tests: tuple[SmokeTest, ...], present: Collection[str]) -> tuple[SmokeTest, ...]:
    """Return the tests on the present nodes, without those that take more nodes."""
    small = (replace(test, nodes=_keep(test.nodes, present)) for test in tests)
    return tuple(dict.fromkeys(test for test in small if test.nodes and len(test.nodes) >= test.program.min_nodes))


def _too_small(cluster: Cluster, present: Collection[str]) -> list[str]:
    tests = cluster.acceptance.tests if cluster.acceptance else ()
    remaining = {test.name for test in _tests(tests, present)}
    return list(dict.fromkeys(test.name for test in tests if test.name not in remaining))


def _describe_addresses(cluster: Cluster, lab: LabFacts) -> Statement:
    if all(lab.machines[node.name].address == node.address for node in cluster.nodes):
        return None
    return "", f"nodes keep their names; their addresses are in {lab.cidr}, a subnet of this machine alone"


def _addresses(cluster: Cluster, lab: LabFacts) -> Cluster:
    network = replace(cluster.network, cidr=lab.cidr)
    return replace(
        cluster,
        nodes=tuple(replace(node, address=lab.machines[node.name].address) for node in cluster.nodes),
        network=network,
        networks=(network, *cluster.networks[1:]),
    )


def _describe_keys(cluster: Cluster, lab: LabFacts) -> Statement:
    if all(lab.machines[node.name].host_keys == node.host_keys for node in cluster.nodes):
        return None
    unknown = fold(node.name for node in cluster.nodes if not node.host_keys)
    note = f"; the inventory has none yet for {unknown}, so that it gets fewer host certificates" if unknown else ""
    return "", f"nodes have host keys of their own{note}"


def _keys(cluster: Cluster, lab: LabFacts) -> Cluster:
    return replace(
        cluster, nodes=tuple(replace(node, host_keys=lab.machines[node.name].host_keys) for node in cluster.nodes)
    )


def _access_to(cluster: Cluster, lab: LabFacts) -> Access:
    via = cluster.access.via
    machine = lab.machines.get(via.name) if via and via.is_node else None
    if via and machine:
        via = replace(via, address=machine.address, host_keys=machine.host_keys, user=lab.user)
    return Access(lab.user, "sudo", lab.key, via if machine else None)


def _describe_access(cluster: Cluster, lab: LabFacts) -> Statement:
    access = _access_to(cluster, lab)
    if access == cluster.access:
        return None
    via = cluster.access.via
    around = f", not through {via.name}" if via and access.via is None else ""
    return "the jump host" if around else "", f"hpcforge logs in as {lab.user} with the lab's key{around}"


def _access(cluster: Cluster, lab: LabFacts) -> Cluster:
    return replace(cluster, access=_access_to(cluster, lab))


def _describe_machines(cluster: Cluster, lab: LabFacts) -> Statement:
    short = "memory, cores, overrides" if any(node.reason for node in cluster.nodes) else "memory, cores"
    return short, (
        f"every worker has {lab.cpus} CPUs, which all nodes share, and {lab.memory_mib} MiB of memory, its share of "
        "this machine's; `slurm.reserve` and overrides do not count"
    )


def _machines(cluster: Cluster, lab: LabFacts) -> Cluster:
    def small(node: Node) -> Node:
        if "worker" not in node.functions:
            return replace(node, reason=None)
        return replace(
            node,
            sockets=lab.sockets,
            cores_per_socket=lab.cores_per_socket,
            threads_per_core=lab.threads_per_core,
            memory_mib=lab.memory_mib,
            reserve_cores=0,
            reserve_memory_mib=0,
            reason=None,
        )

    return replace(cluster, nodes=tuple(map(small, cluster.nodes)), shared_cores=True)


def _describe_gpus(cluster: Cluster, lab: LabFacts) -> Statement:  # noqa: ARG001
    real = [node for node in cluster.nodes if node.gpus and not node.gpus.fake]
    if not real:
        return None
    kinds = dict.fromkeys((node.gpus.count, node.gpus.model) for node in real if node.gpus)
    models = ", ".join(f"{count} {model}" for count, model in kinds)
    return "GPUs", f"{models} a node are as many character devices, of that type for Slurm, which compute nothing"


def _gpus(cluster: Cluster, lab: LabFacts) -> Cluster:  # noqa: ARG001
    def fake(node: Node) -> Node:
        gpus = node.gpus
        if gpus is None:
            return node
        return replace(node, gpus=StandInGpus(gpus.model, gpus.count, gpus.mig, gpus.vendor, gpus.shards))

    return replace(cluster, nodes=tuple(map(fake, cluster.nodes)))


def _describe_limits(cluster: Cluster, lab: LabFacts) -> Statement:
    slurm = cluster.slurm
    limits = ", ".join(slurm.enforce)
    has_controllers = lab.boots or {"cpuset", "memory"} <= lab.controllers
    reason = (
        "a container's cgroups are not its own"
        if has_controllers
        else "this machine's cgroup v2 has no controllers (v1 has)"
    )
    parts = [f"Slurm does not limit jobs to their {limits}: {reason}"] if limits else []
    parts += ["users without a job get into workers, too"] if slurm.ssh == "jobs-only" else []
    parts += ["jobs share a node's /tmp"] if slurm.private_tmp else []
    return ("limits by cgroups" if limits else "private /tmp", "; ".join(parts)) if parts else None


def _limits(cluster: Cluster, lab: LabFacts) -> Cluster:  # noqa: ARG001
    return replace(cluster, slurm=replace(cluster.slurm, enforce=(), ssh="anyone", private_tmp=None))


def _outside(cluster: Cluster) -> dict[str, Service]:
    return {name: service for name, service in cluster.services.items() if service.external and not service.on}


def _describe_services(cluster: Cluster, lab: LabFacts) -> Statement:  # noqa: ARG001
    names = list(_outside(cluster))
    if not names:
        return None
    services = ", ".join(f"{name} ({', '.join(cluster.services[name].external)})" for name in names)
    people = ", ".join(cluster.slurm.people) if "directory" in names else ""
    note = f"; the directory has the people of accounts and reservations: {people}" if people else ""
    return (
        f"the site's {' and '.join(names)}",
        f"{cluster.slurm.controller} serves the site's external services: {services}{note}",
    )


def _services(cluster: Cluster, lab: LabFacts) -> Cluster:  # noqa: ARG001
    inside = {
        name: replace(service, on=(cluster.slurm.controller,), external=())
        for name, service in _outside(cluster).items()
    }
    if "directory" in inside:
        inside["directory"] = replace(inside["directory"], people=cluster.slurm.people)
    return replace(cluster, services={**cluster.services, **inside})


def _out_of_reach(cluster: Cluster) -> dict[str, Mounted]:
    kinds = load_catalog().file_systems
    by_name = {file_system.name: kinds[file_system.kind].rehearsed for file_system in cluster.storage}
    return {name: instead for name, instead in by_name.items() if instead}


def _describe_storage(cluster: Cluster, lab: LabFacts) -> Statement:
    instead = _out_of_reach(cluster)
    systems = [file_system for file_system in cluster.storage if file_system.name in instead]
    if not systems:
        return None
    mounts = ", ".join(f"{file_system.mount} ({file_system.kind})" for file_system in systems)
    limited = [
        file_system.mount
        for file_system in systems
        if file_system.quota_gib or (file_system.drives and file_system.drives.quota_gib)
    ]
    without = f"; without the quotas of {', '.join(limited)}" if limited else ""
    without += "; homes are on each node's own disk" if any(file_system.homes for file_system in systems) else ""
    short = "shared storage, quotas" if limited else "shared storage"
    if not lab.boots:
        folder = f"{mounts} is one folder of this machine, which all nodes share; its rates are not those of storage"
        return short, f"{folder}{without}"
    types = ", ".join(dict.fromkeys(instead[file_system.name].type for file_system in systems))
    return short, f"each node has its own {mounts}, a small {types}: nodes do not share files there{without}"


def _storage(cluster: Cluster, lab: LabFacts) -> Cluster:
    """Mount a shared folder of the host in containers, or a small file system in memory with a kernel of its own."""
    instead = _out_of_reach(cluster)

    def near(file_system: FileSystem) -> FileSystem:
        mounted = instead.get(file_system.name)
        if mounted is None:
            return file_system
        mounted = (
            mounted if lab.boots else Mounted(what=SHARED_FOLDER, type="none", options=("bind", "nosuid", "nodev"))
        )
        options = ",".join(mounted.options)
        local = replace(file_system, what=mounted.what, type=mounted.type, options=options, packages=(), mounted_by="")
        ours = replace(local, server=None, path=None, network=None)
        return replace(ours, drives=None, homes=False, volume=None, quota_gib=None)

    users = tuple(replace(user, homes=User.homes) for user in cluster.users)  # memory is not a place for homes
    return replace(cluster, storage=tuple(map(near, cluster.storage)), users=users)


def _on_cpus(cluster: Cluster) -> PyTorch | None:
    """Return the build for CPUs instead of one for GPUs: of the same version, of another, or the distribution's own.

    None if the cluster has no PyTorch, or already one for CPUs.
    """
    catalog, torch = load_catalog(), cluster.pytorch
    system = catalog.distributions.get((cluster.os.name, cluster.os.release))
    if torch is None or system is None or torch.build != "wheel":
        return None
    builds = {build.version: build for build in catalog.pytorch_builds("cpu", system)}
    build = builds.get(torch.version) or next(iter(builds.values()), None)
    if build is None:
        return PyTorch(system.pytorch or "unknown", "distribution", ())
    wheels = tuple(Wheel(wheel.file, wheel.sha256) for wheel in build.wheels)
    return None if wheels == torch.wheels else PyTorch(build.version, "wheel", wheels)


def _wheels_on_cpus(framework: Framework, cluster: Cluster) -> tuple[Wheel, ...]:
    """Return the wheels of a framework's build for CPUs; its own without such a build."""
    system = load_catalog().distributions.get((cluster.os.name, cluster.os.release))
    pinned = FRAMEWORKS[framework.name].build(framework.version, system.python, system.libc) if system else None
    return tuple(Wheel(wheel.file, wheel.sha256) for wheel in pinned.wheels) if pinned else framework.wheels


def _for_gpus(cluster: Cluster) -> list[Framework]:
    """Return frameworks beside PyTorch with wheels for GPUs."""
    others = (framework for framework in cluster.frameworks if framework.name != "pytorch")
    return [framework for framework in others if framework.wheels != _wheels_on_cpus(framework, cluster)]


def _describe_pytorch(cluster: Cluster, lab: LabFacts) -> Statement:  # noqa: ARG001
    build, torch = _on_cpus(cluster), cluster.pytorch
    others = [f"{framework.title} {framework.version}" for framework in _for_gpus(cluster)]
    if build is None or torch is None:
        return ("CUDA", f"{', '.join(others)} for CPUs is installed instead of for GPUs") if others else None
    missing = "" if build.version == torch.version else f"; the catalog has no build of {torch.version} for CPUs"
    own = " of the distribution" if build.build == "distribution" else ""
    further = (
        "; further versions are left out"
        if any(framework.name == "pytorch" for framework in cluster.frameworks)
        else ""
    )
    sentence = (
        f"PyTorch {build.version}{own} for CPUs is installed instead of {torch.version} for GPUs{missing}{further}"
    )
    return "CUDA", f"{sentence}{''.join(f'; so is {framework}' for framework in others)}"


def _pytorch(cluster: Cluster, lab: LabFacts) -> Cluster:  # noqa: ARG001
    on_cpus = {framework: _wheels_on_cpus(framework, cluster) for framework in _for_gpus(cluster)}
    others = (framework for framework in cluster.frameworks if framework.name != "pytorch")
    frameworks = tuple(replace(framework, wheels=on_cpus.get(framework, framework.wheels)) for framework in others)
    return replace(cluster, pytorch=_on_cpus(cluster) or cluster.pytorch, frameworks=frameworks)


def _impossible(cluster: Cluster) -> list[SmokeTest]:
    tests = cluster.acceptance.tests if cluster.acceptance else ()
    return [test for test in tests if not all(test.program.has_gpus(cluster.by_name[name]) for name in test.nodes)]


def _describe_smoke_tests(cluster: Cluster, lab: LabFacts) -> Statement:
    if cluster.acceptance is None or not any(node.gpus for node in cluster.workers):
        return None
    out = list(dict.fromkeys(test.name for test in _impossible(cluster)))
    omitted = f"; left out, because they need real GPUs: {', '.join(out)}" if out else ""
    most = max(node.gpus.count if node.gpus else 1 for node in cluster.workers)
    ranks = f"smoke tests have no more than {lab.cpus} ranks a node, not {most}, and collectives go over gloo"
    return "NCCL", f"{ranks}{omitted}"


def _smoke(cluster: Cluster, lab: LabFacts) -> Cluster:  # noqa: ARG001
    assert cluster.acceptance is not None
    out = _impossible(cluster)
    tests = tuple(test for test in cluster.acceptance.tests if test not in out)
    return replace(cluster, acceptance=replace(cluster.acceptance, tests=tests))


def _of_ratio(program: SmokeTestProgram) -> tuple[Threshold, ...]:
    """Return the highest ratios of speeds: of a node's to other nodes', or to its own before."""
    ratios = {measure.name for measure in program.measures if measure.unit == "1" and measure.better == "lower"}
    return tuple(line for line in program.lines if line.measure in ratios and line.bound.startswith("at_most"))


def _of_speed(program: SmokeTestProgram) -> tuple[Threshold, ...]:
    """Return the limits for its speed, alone or beside other nodes; shared cores do not explain a tenth."""
    units = {measure.name: measure.unit for measure in program.measures}
    of_speed = (line for line in program.lines if units[line.measure].endswith("/s") or units[line.measure] in _TIMES)
    return tuple(line for line in of_speed if line.bound != "at_least_of_median" or line.number > _TENTH)


def _describe_speeds(cluster: Cluster, lab: LabFacts) -> Statement:  # noqa: ARG001
    tests = cluster.acceptance.tests if cluster.acceptance else ()
    lines = [f"{line.measure} of {test.name}" for test in tests for line in _of_speed(test.program)]
    lines += ["the designed share of storage"] if cluster.storage_shares else []
    ratios = [f"{line.measure} of {test.name}" for test in tests for line in _of_ratio(test.program)]
    parts = [f"no limit applies to {', '.join(dict.fromkeys(lines))}"] if lines else []
    parts += [f"{', '.join(dict.fromkeys(ratios))} may be {_SHARED} times as much"] if ratios else []
    return ("speeds", f"the nodes share this machine's cores: {'; '.join(parts)}") if parts else None


def _speeds(cluster: Cluster, lab: LabFacts) -> Cluster:  # noqa: ARG001
    assert cluster.acceptance is not None
    tests = []
    for test in cluster.acceptance.tests:
        remaining = [line for line in test.program.lines if line not in _of_speed(test.program)]
        ratios = _of_ratio(test.program)
        lines = (replace(line, number=line.number * _SHARED) if line in ratios else line for line in remaining)
        tests.append(replace(test, program=replace(test.program, lines=tuple(lines))))
    return replace(cluster, acceptance=replace(cluster.acceptance, tests=tuple(tests)), storage_shares={})


def _describe_networks(cluster: Cluster, lab: LabFacts) -> Statement:  # noqa: ARG001
    others = [network.name for network in cluster.networks[1:]]
    fabrics = [fabric.name for fabric in cluster.fabrics]
    first = cluster.network
    parts = [f"networks {', '.join(others)}"] if others else []
    parts += [f"switches and cables of {', '.join(fabrics)}"] if fabrics else []
    has_settings = first.interface or first.vlan or first.mtu or first.bond or first.gateway or first.configure
    parts += ["the interface's name, VLAN, MTU, bond and gateway"] if has_settings else []
    return (
        ("fabrics and other networks", f"the nodes have one plain network, without {'; '.join(parts)}")
        if parts
        else None
    )


def _networks(cluster: Cluster, lab: LabFacts) -> Cluster:  # noqa: ARG001
    first = cluster.network
    plain = replace(first, interface=None, vlan=None, mtu=None, bond=None, gateway=None, configure=False)
    nodes = tuple(replace(node, addresses={}) for node in cluster.nodes)
    return replace(cluster, nodes=nodes, network=plain, networks=(plain,))


def _describe_adapters(cluster: Cluster, lab: LabFacts) -> Statement:  # noqa: ARG001
    fabrics = [fabric.name for fabric in cluster.fabrics if fabric.interfaces]
    if not fabrics:
        return None
    statement = f"of {', '.join(fabrics)} there are no adapters"
    return "RDMA adapters", f"{statement}: NCCL, UCX and gloo are configured without them"


def _adapters(cluster: Cluster, lab: LabFacts) -> Cluster:  # noqa: ARG001
    return replace(cluster, fabrics=tuple(replace(fabric, interfaces=()) for fabric in cluster.fabrics))


def _describe_site(cluster: Cluster, lab: LabFacts) -> Statement:  # noqa: ARG001
    parts = [
        ("racks and power", any(node.rack for node in cluster.nodes)),
        ("BMCs", any(node.bmc for node in cluster.nodes)),
    ]
    present = [name for name, exists in parts if exists]
    return (", ".join(present), f"{', '.join(present)} exist only as data of the design") if present else None


def _site(cluster: Cluster, lab: LabFacts) -> Cluster:  # noqa: ARG001
    nodes = tuple(replace(node, bmc=None, mac=None, serial=None, note=None) for node in cluster.nodes)
    return replace(cluster, nodes=nodes)


def _reaching(cluster: Cluster) -> dict[str, list[str]]:
    """Return by role the variables that a rehearsal empties, since they name things outside."""
    emptied = {
        role: [name for name, value in values.items() if not value and cluster.variables.get(role, {}).get(name)]
        for role, values in cluster.rehearsed_variables.items()
    }
    return {role: names for role, names in emptied.items() if names}


def _describe_reaching(cluster: Cluster, lab: LabFacts) -> Statement:  # noqa: ARG001
    roles = _reaching(cluster)
    if not roles:
        return None
    without = "; ".join(f"{role} has no {', '.join(names)}" for role, names in roles.items())
    own = [
        f"{role}.{name}: {str(value).lower()}"
        for role in roles
        for name, value in cluster.rehearsed_variables[role].items()
        if value
    ]
    instead = f", and instead {', '.join(own)}" if own else ""
    return "what reaches outside", f"nothing is sent to people, and no secret of the site is needed: {without}{instead}"


def _empty_reaching(cluster: Cluster, lab: LabFacts) -> Cluster:  # noqa: ARG001
    values = {role: {**cluster.variables[role], **cluster.rehearsed_variables[role]} for role in _reaching(cluster)}
    return replace(cluster, variables={**cluster.variables, **values})


RULES: tuple[StandInRule, ...] = (
    StandInRule("nodes left out", _describe_nodes, _nodes),
    StandInRule("addresses", _describe_addresses, _addresses, of_labs=True),
    StandInRule("host keys", _describe_keys, _keys, of_labs=True),
    StandInRule("access", _describe_access, _access, of_labs=True),
    StandInRule("memory and cores", _describe_machines, _machines),
    StandInRule("GPUs", _describe_gpus, _gpus),
    StandInRule("limits", _describe_limits, _limits),
    StandInRule("services outside", _describe_services, _services),
    StandInRule("storage", _describe_storage, _storage),
    StandInRule("PyTorch", _describe_pytorch, _pytorch),
    StandInRule("smoke tests", _describe_smoke_tests, _smoke),
    StandInRule("speeds", _describe_speeds, _speeds),
    StandInRule("networks", _describe_networks, _networks),
    StandInRule("adapters", _describe_adapters, _adapters),
    StandInRule("racks and BMCs", _describe_site, _site),
    StandInRule("what reaches outside", _describe_reaching, _empty_reaching),
)
OF_LABS = tuple(rule for rule in RULES if rule.of_labs)
