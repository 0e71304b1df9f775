"""Blueprint, inventory and catalog become one `Cluster`, with every default applied. Pure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID, uuid5

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.inventory import Inventory, InventoryNode
from hpcforge.blueprint.node_sets import KnownNames, sure
from hpcforge.blueprint.schema import Blueprint, RolloutSection
from hpcforge.blueprint.sections import fabrics as f
from hpcforge.blueprint.sections.acceptance import AcceptanceSection, sets_of, time_limit_s
from hpcforge.blueprint.sections.access import UserSection, Via
from hpcforge.blueprint.sections.hardware import Gpu
from hpcforge.blueprint.sections.nodes import NodeGroup, Override
from hpcforge.blueprint.sections.services import Offer, Services, ServiceSection
from hpcforge.blueprint.sections.slurm import Plugin, ReservationSection, Reserve, SlurmTopology
from hpcforge.blueprint.sections.storage import FileSystemSection as Shared
from hpcforge.blueprint.smoke_tests import option_text
from hpcforge.blueprint.values import counted, limit_s, minutes
from hpcforge.blueprint.visible_nodes import racks_of
from hpcforge.catalog import Catalog
from hpcforge.catalog.distribution import Distribution
from hpcforge.cluster import model as m
from hpcforge.cluster.checks.catalog import Shape, gpu_models, has_driver, pytorch_device, shape
from hpcforge.cluster.mig import layout
from hpcforge.cluster.networks import Networks, networks
from hpcforge.cluster.nvidia import amd, nvidia
from hpcforge.cluster.people import User, UserGroup
from hpcforge.cluster.select import words, worker_words
from hpcforge.cluster.shards import shards
from hpcforge.cluster.storage import FileSystem, LocalDrives, on_volumes, size_mb
from hpcforge.frameworks import FRAMEWORKS, USE_OF_PYTORCH, FrameworkBuild
from hpcforge.slurm.accounting import associations, billing_weights, with_tests
from hpcforge.slurm.second_settings import implied_settings, slurmdbd_settings, tracked_traffic

if TYPE_CHECKING:
    from hpcforge.design.fabric.graph import Fabric
    from hpcforge.design.fabric.topology_conf import Topology

# Cores and memory of a worker for the operating system, if the blueprint sets none.
_CORES_OF_A_LARGE_SOCKET = 16  # with fewer cores hpcforge reserves none by default


def usual_cores(sockets: int, cores_per_socket: int) -> int:
    """Return one core of each socket of 16 or more cores, and none of smaller ones, where it would be a large share.

    Source: CSCS Alps, one core of each module of 72 for system processes (eth-cscs/cscs-docs, docs/guides/gb2025.md).
    Slurm's own default is none (slurm.conf(5), CoreSpecCount).
    """
    return sockets if cores_per_socket >= _CORES_OF_A_LARGE_SOCKET else 0


def usual_memory_mib(memory_gib: int) -> int:
    """Memory, MiB: 400, and 30 for each GiB of the node.

    Linux itself takes about 16 MiB of each GiB before it shows any; the rest is for daemons. Source: the machine sizes
    of slurm-gcp (SchedMD and Google, `util.py`). Azure CycleCloud and AWS ParallelCluster keep 5 % (of 2 TiB 102 GiB
    instead of 60).
    """
    return 400 + 30 * memory_gib


_NO_RESERVE = Reserve.model_construct(cores=0, memory_gib=0)
_ROCE_DSCP = 26  # UCX's own mark
_ROCE_PRIORITY = 3  # the lossless priority of NVIDIA's switches (Cumulus Linux, RoCE)
_VOLUMES = UUID("b1f0f0a4-53c5-4d8e-9c0a-8d2f6a7f3e51")  # namespace of the volumes' identifiers
_UNKNOWN_MACHINE = InventoryNode.model_construct()
_NO_ADDRESSES: Mapping[str, str] = {}  # one for all nodes on a single network


def resolve(
    blueprint: Blueprint,
    inventory: Inventory | None,
    catalog: Catalog,
    keys: Mapping[str, tuple[str, ...]],
    folder: Path,
    private_key: Path | None = None,
    places: Mapping[str, tuple[str, int]] | None = None,
    addressed: Networks | None = None,
    fabrics: Sequence[Fabric] = (),
    programs: Mapping[str, m.SmokeTestProgram] | None = None,
    repository_key: str = "",
) -> m.Cluster:
    """Return the cluster. Its parts must have passed `checks`: a KeyError from here is a hole in them.

    `keys` has each user's public key lines, `folder` is what the blueprint's paths are relative to, `private_key` is
    what the inventory's `access.key` stands for: files are read before, never here. `places` has the rack and lowest
    unit of every node that stands in one, `addressed` the networks (computed if it is None), `fabrics` those that can
    be built, `programs` what each smoke test runs, `repository_key` the text of the key of NVIDIA's repository.
    """
    addressed = addressed or networks(blueprint, inventory)
    plugged = _plugged(fabrics)
    nodes = tuple(
        dataclasses.replace(node, fabrics=plugged[node.name]) if node.name in plugged else node
        for node in _nodes(blueprint, inventory, catalog, places or {}, addressed)
    )
    models = {node.gpus.model for node in nodes if node.gpus and not node.gpus.fake}
    racks = racks_of(blueprint.site)
    known_names = words(nodes, (), (), racks)
    slurm = _slurm(blueprint, worker_words(nodes, (), racks))
    slurm = _near(slurm, blueprint.slurm.topology, fabrics, nodes, catalog)
    access = _access(blueprint, inventory, private_key, nodes)
    own = _platform(blueprint, catalog, blueprint.software.os.release)
    return m.Cluster(
        name=blueprint.name,
        domain=blueprint.domain,
        access=access,
        nodes=nodes,
        network=addressed.all[0],
        services=_services(blueprint.services, known_names),
        os=own.os,
        pytorch=own.pytorch,
        frameworks=own.frameworks,
        site_roles=tuple(
            m.SiteRole(Path(role.path).name, folder / role.path, sure(role.on, known_names))
            for role in blueprint.software.site_roles
        ),
        slurm=slurm,
        users=_users(blueprint, keys, access.user),
        groups=tuple(UserGroup(name, group.gid) for name, group in blueprint.groups.items()),
        acceptance=_acceptance(
            blueprint.acceptance, worker_words(nodes, slurm.partitions, racks), slurm.partitions, programs or {}
        ),
        rollout=_rollout(blueprint.rollout, len(nodes)),
        networks=addressed.all,
        fabrics=tuple(_fabric(fabric, blueprint.fabrics[fabric.name], addressed) for fabric in fabrics),
        variables=blueprint.roles.by_role(),
        rehearsed_variables=blueprint.roles.in_rehearsals(),
        gpu_models={model: _gpu_model(catalog.gpus[model]) for model in sorted(models)},
        storage=on_volumes(
            [_file_system(blueprint.name, *entry, catalog, nodes, known_names) for entry in blueprint.storage.items()]
        ),
        driver=(blueprint.software.nvidia or blueprint.software.preinstalled).driver,
        nvidia=nvidia(blueprint, catalog, _served(blueprint, catalog, "nvidia"), repository_key),
        amd=amd(blueprint.software, _served(blueprint, catalog, "amd")),
        container_runtimes=blueprint.software.containers.runtimes,
    )


def _plugged(fabrics: Iterable[Fabric]) -> dict[str, tuple[str, ...]]:
    """Return the fabrics of each node, by its name."""
    plugged: dict[str, tuple[str, ...]] = {}
    for fabric in fabrics:
        for device in fabric.devices:
            if device.model is None:
                plugged[device.name] = (*plugged.get(device.name, ()), fabric.name)
    return plugged


def _users(blueprint: Blueprint, keys: Mapping[str, tuple[str, ...]], login: str) -> tuple[User, ...]:
    """Return the users; the one that hpcforge logs in as has no home on a shared file system."""
    shared = next((file_system.mount for file_system in blueprint.storage.values() if file_system.homes), User.homes)
    return tuple(
        _user(name, user, keys.get(name, ()), User.homes if name == login else shared)
        for name, user in blueprint.users.items()
    )


def _user(name: str, user: UserSection, keys: tuple[str, ...], homes: str) -> User:
    return User(name, user.uid, user.admin, keys, user.groups, user.shell, user.expires or "", homes)


def _file_system(
    cluster: str, name: str, file_system: Shared, catalog: Catalog, nodes: Sequence[m.Node], known_names: KnownNames
) -> FileSystem:
    kind = catalog.file_systems[file_system.kind]
    at = {node.name: node.addresses.get(file_system.network or "", node.address) for node in nodes}
    chosen = {option.partition("=")[0] for option in file_system.options}
    usual = (option for option in kind.options if option.partition("=")[0] not in chosen)
    functions = {"worker", *(() if file_system.drives else ("login",))}
    users = tuple(node.name for node in nodes if file_system.homes or {*node.functions} & functions)
    server = file_system.server
    own = kind.served.format(address=at[server], path=file_system.path) if server else ""
    return FileSystem(
        name=name,
        kind=file_system.kind,
        what=file_system.external or own,
        type=kind.type,
        options=",".join((*usual, *file_system.options)) or "defaults",
        mount=file_system.mount,
        on=sure(file_system.on, known_names) if file_system.on else users,
        server=server,
        path=file_system.path,
        network=file_system.network,
        packages=kind.packages,
        mounted_by=kind.mounted_by,
        drives=_drives(f"{cluster}/{name}", file_system, file_system.drives, catalog) if file_system.drives else None,
        homes=file_system.homes,
    )


def _drives(volume: str, file_system: Shared, drives: str, catalog: Catalog) -> LocalDrives:
    count, model = counted(drives)
    raid = None if count == 1 else file_system.raid or 0
    return LocalDrives(
        count,
        size_mb(model, catalog),
        raid,
        file_system.quota_gib,
        file_system.keep_after_jobs,
        str(uuid5(_VOLUMES, volume)),
    )


def _gpu_model(gpu: Gpu) -> m.GpuModel:
    return m.GpuModel(
        driver_names=gpu.driver_names or (),
        memory_gb=gpu.memory_gb,
        nvlinks=gpu.nvlinks,
        pcie_lanes=gpu.pcie_lanes,
        pcie_generation=gpu.pcie_generation,
        power_w=gpu.tdp_w,
    )


def _nodes(
    blueprint: Blueprint,
    inventory: Inventory | None,
    catalog: Catalog,
    places: Mapping[str, tuple[str, int]],
    addressed: Networks,
) -> list[m.Node]:
    machines = inventory.nodes if inventory else {}
    usually = blueprint.software.os.release
    others = {override.release for override in blueprint.overrides.values()} - {None, usually}
    releases = (usually, *others) if others else ()
    platforms = {release: _platform(blueprint, catalog, release) for release in releases if release}
    nodes = []
    for key, group in blueprint.nodes.items():
        usual = _hardware(group, None, catalog)
        disk = m.SystemDisk(group.system_disk.drives, dict(sorted(group.system_disk.partitions_gib.items())))
        reserve = blueprint.slurm.reserve if "worker" in group.functions else _NO_RESERVE
        common = _Group(key, group, reserve, disk)
        for name in hostlist.expand(key):
            override = blueprint.overrides.get(name)
            declared = _Declared(override, *(_hardware(group, override, catalog) if override else usual))
            machine = machines.get(name) or _UNKNOWN_MACHINE
            on = {network.name: addressed.addresses[network.name].get(name) for network in addressed.all}
            addresses = {network: address for network, address in on.items() if address}
            bmc = _bmc(machine, addresses.get(addressed.bmc or ""))
            made = _node(name, common, declared, machine, addresses, bmc, places.get(name))
            platform = platforms.get((override and override.release) or usually)
            nodes.append(dataclasses.replace(made, platform=platform) if platform else made)
    return nodes


class _Group(NamedTuple):
    """The common parts of all nodes of a group, without overrides."""

    key: str  # key of the group
    group: NodeGroup
    reserve: Reserve
    disk: m.SystemDisk


class _Declared(NamedTuple):
    """The hardware of one node, with the override that makes it differ from its group."""

    override: Override | None
    shape: Shape
    gpus: m.Gpus | None


def _node(
    name: str,
    common: _Group,
    hardware: _Declared,
    machine: InventoryNode,
    addresses: dict[str, str],
    bmc: m.Bmc | None,
    place: tuple[str, int] | None,
) -> m.Node:
    group, override, declared = common.group, hardware.override, hardware.shape
    cores, memory_gib = common.reserve.cores, common.reserve.memory_gib
    (_, address), *others = addresses.items()  # the node's own address first
    return m.Node(
        name=name,
        group=common.key,
        functions=group.functions,
        hardware=group.hardware,
        sockets=declared.sockets,
        cores_per_socket=declared.cores_per_socket,
        threads_per_core=declared.threads_per_core,
        memory_mib=declared.memory_gib * 1024,
        gpus=hardware.gpus,
        address=address,
        host_keys=machine.host_keys,
        rack=place[0] if place else None,
        rack_u=place[1] if place else None,
        addresses=dict(others) if others else _NO_ADDRESSES,
        mac=machine.mac,
        ports=machine.ports,
        bmc=bmc,
        serial=machine.serial,
        note=machine.note,
        reason=override.reason if override else None,
        accepts=override.accept if override else (),
        reserve_cores=usual_cores(declared.sockets, declared.cores_per_socket) if cores is None else cores,
        reserve_memory_mib=usual_memory_mib(declared.memory_gib) if memory_gib is None else memory_gib * 1024,
        system_disk=common.disk,
        features=group.features,
        weight=group.weight,
    )


def _hardware(group: NodeGroup, override: Override | None, catalog: Catalog) -> tuple[Shape, m.Gpus | None]:
    """Return the declared hardware of a group's nodes, one object for all that are alike."""
    declared = shape(group, override, catalog)
    return declared, _gpus(group, declared, catalog)


def _gpus(group: NodeGroup, declared: Shape, catalog: Catalog) -> m.Gpus | None:
    if declared.gpu_model is None:
        return None
    mig = layout(group, declared.gpu_model, declared.gpu_count, catalog)
    vendor = catalog.gpus[declared.gpu_model].vendor or "none"
    return m.Gpus(declared.gpu_model, declared.gpu_count, mig, vendor, shards(group.shards, declared.gpu_count))


def _bmc(machine: InventoryNode, address: str | None) -> m.Bmc | None:
    """Return the management controller; `address` is that on the network for them."""
    section = machine.bmc
    address = address or (section.address if section else None)
    if section is None:
        return m.Bmc(address, None) if address else None
    return m.Bmc(address, section.mac, section.certificate, section.user) if address or section.mac else None


def _access(
    blueprint: Blueprint, inventory: Inventory | None, private_key: Path | None, nodes: Iterable[m.Node]
) -> m.Access:
    access = inventory.access if inventory else None
    user = (access and access.user) or blueprint.access.user
    via = (access and access.via) or blueprint.access.via
    return m.Access(
        user=user,
        become=(access and access.become) or blueprint.access.become,
        key=private_key,
        via=_jump(via, user, nodes) if via else None,
    )


def _jump(via: Via, user: str, nodes: Iterable[m.Node]) -> m.Jump:
    node = next((node for node in nodes if via.host in (node.name, node.address)), None)
    if node is not None:
        return m.Jump(node.name, node.address, user, node.host_keys, True)
    return m.Jump(via.host, via.host, via.user or user, via.host_keys, False)


def _fabric(fabric: Fabric, spec: f.FabricSection, addressed: Networks) -> m.FabricOf:
    carried = [network for network in addressed.all if network.fabric == fabric.name]
    bmc = bool(carried) and all(network.bmc for network in carried)
    roce = spec.kind == "roce"
    return m.FabricOf(
        name=fabric.name,
        kind=fabric.kind,
        rate_gbps=fabric.rate_gbps,
        links=fabric.rails,
        bmc=bmc,
        rails=_slow_between_links(fabric),
        interfaces=spec.interfaces,
        bond=spec.bond,
        dscp=_usual(spec.dscp, _ROCE_DSCP) if roce else None,
        priority=_usual(spec.priority, _ROCE_PRIORITY) if roce else None,
        subnet_manager=spec.subnet_manager,
        own_links=tuple(
            m.OwnLinks(
                device.name, device.ports, device.rate_gbps or fabric.rate_gbps, spec.endpoints[device.group].bond
            )
            for device in fabric.devices
            if device.group
        ),
    )


def _usual(value: int | None, usual: int) -> int:
    return usual if value is None else value


def _slow_between_links(fabric: Fabric) -> bool:
    """Return whether a node's links go to different switches, with less between these than the links carry."""
    from hpcforge.design.fabric.graph import oversubscription  # noqa: PLC0415 - few clusters have fabrics

    if fabric.topology == "leaf-pair":
        return True  # only the few peer links are between them
    return fabric.topology == "rail-optimised" and max(oversubscription(fabric).values()) > 1


def _services(services: Services, known_names: KnownNames) -> dict[str, m.Service]:
    """Return every service that roles offer; a service that the blueprint does not name has no place."""
    sections = services.by_name()
    return {name: _service(sections.get(name), offer, known_names) for name, offer in services.offers.items()}


def _service(section: ServiceSection | None, offer: Offer, known_names: KnownNames) -> m.Service:
    options = {option: getattr(section, option, ()) for option in offer.options}
    on = sure(section.on_set, known_names) if section and section.on_set else ()
    return m.Service(on, section.outside if section else (), options, offer.certified)


def _platform(blueprint: Blueprint, catalog: Catalog, release: str) -> m.Platform:
    distribution = catalog.distributions[blueprint.software.os.name, release]
    names = m.Names(
        distribution.packages, distribution.units, distribution.paths, distribution.accounts, distribution.lacks
    )
    os = m.OperatingSystem(
        name=distribution.name,
        release=distribution.release,
        python=distribution.python,
        slurm=distribution.slurm,
        libc=distribution.libc,
        openssh=distribution.openssh,
        names=names,
        suite=distribution.suite,
        oldest_slurmd=distribution.oldest_slurmd,
    )
    return m.Platform(
        os, _pytorch(blueprint, catalog, distribution), tuple(_frameworks(blueprint, catalog, distribution))
    )


def _served(blueprint: Blueprint, catalog: Catalog, vendor: str) -> tuple[str, ...]:
    """Return the models of GPUs whose nodes get a vendor's software from hpcforge."""
    models = set(gpu_models(blueprint.nodes, blueprint.overrides, catalog))
    return tuple(sorted(model for model in models if has_driver(model, catalog, vendor)))


def _frameworks(blueprint: Blueprint, catalog: Catalog, system: Distribution) -> Iterator[m.Framework]:
    """Yield those beside the default PyTorch that have a build for a distribution."""
    device = pytorch_device(gpu_models(blueprint.nodes, blueprint.overrides, catalog), catalog)
    for version in blueprint.software.frameworks.pytorch[1:]:
        pinned = catalog.pytorch_build(version, device, system)
        if pinned is not None:
            yield m.Framework("pytorch", "PyTorch", version, USE_OF_PYTORCH, _wheels(pinned), f"pytorch-{version}")
    for name, versions in blueprint.software.frameworks.others().items():
        framework = FRAMEWORKS[name]
        for version in versions:
            build = framework.build(version, system.python, system.libc, device)
            if build is not None:
                environment = name if version == versions[0] else f"{name}-{version}"
                yield m.Framework(name, framework.title, version, framework.use, _wheels(build), environment)


def _wheels(build: FrameworkBuild) -> tuple[m.Wheel, ...]:
    return tuple(m.Wheel(wheel.file, wheel.sha256) for wheel in build.wheels)


def _pytorch(blueprint: Blueprint, catalog: Catalog, system: Distribution) -> m.PyTorch | None:
    version = next(iter(blueprint.software.frameworks.pytorch), None)
    if version is None:
        return None
    device = pytorch_device(gpu_models(blueprint.nodes, blueprint.overrides, catalog), catalog)
    build = catalog.pytorch_build(version, device, system)
    if build is None:
        if system.pytorch is None:
            raise KeyError(f"pytorch of {system.name} {system.release}")
        return m.PyTorch(system.pytorch, "distribution", ())
    return m.PyTorch(version, "wheel", _wheels(build))


def _slurm(blueprint: Blueprint, known_names: KnownNames) -> m.Slurm:
    """Resolve the section; `known_names` are the words for workers."""
    slurm, users = blueprint.slurm, blueprint.users
    accounting = "accounting" in blueprint.services.by_name()
    accounts = with_tests(slurm.accounts, blueprint.acceptance.run_as if blueprint.acceptance else None)
    user_names = {user for account in accounts.values() for user in account.users}
    user_names |= {user for reservation in slurm.reservations.values() for user in reservation.users}
    return m.Slurm(
        controller=slurm.controller,
        enforce=slurm.enforce,
        partitions=tuple(
            m.Partition(
                name,
                sure(partition.nodes, known_names),
                partition.default,
                partition.max_time.upper(),
                partition.qos,
                tuple(billing_weights(partition.billing)),
                partition.topology,
                tuple(partition.settings.items()),
            )
            for name, partition in slurm.partitions.items()
        ),
        settings=tuple(slurm.settings.items()),
        associations=tuple(m.SlurmAssociation(*association) for association in associations(accounts, slurm.qos)),
        people=tuple(sorted(user_names.difference(users))),
        reservations=tuple(
            _reservation(name, reservation, known_names) for name, reservation in slurm.reservations.items()
        ),
        implied=tuple(implied_settings(slurm, accounting=accounting)),
        implied_of_slurmdbd=tuple(slurmdbd_settings(slurm)),
        traffic=tuple(tracked_traffic(slurm)),
        ssh=slurm.ssh,
        private_tmp=slurm.private_tmp,
    )


def _reservation(name: str, reservation: ReservationSection, known_names: KnownNames) -> m.SlurmReservation:
    minutes_ = math.ceil(limit_s(reservation.duration) / 60)
    users = reservation.users or (() if reservation.accounts else ("root",))
    return m.SlurmReservation(
        name,
        sure(reservation.nodes, known_names),
        f"{reservation.start}:00",
        minutes_,
        users,
        reservation.accounts,
        reservation.flags,
    )


def _rollout(rollout: RolloutSection | None, nodes: int) -> m.Rollout:
    usual = m.Rollout.cautious(nodes)
    if rollout is None:
        return usual
    return m.Rollout(
        canary=usual.canary if rollout.canary is None else rollout.canary,
        at_most=usual.at_most if rollout.max_parallel is None else rollout.max_parallel,
        stop_after_failures=(
            usual.stop_after_failures if rollout.stop_after_failures is None else rollout.stop_after_failures
        ),
        busy_wait_s=minutes(rollout.busy_nodes.wait) * 60 if rollout.busy_nodes else usual.busy_wait_s,
        reboot_wait_s=minutes(rollout.reboot_wait) * 60 if rollout.reboot_wait else usual.reboot_wait_s,
        confirm_wait_s=minutes(rollout.confirm_wait) * 60 if rollout.confirm_wait else usual.confirm_wait_s,
    )


def _near(
    slurm: m.Slurm, settings: SlurmTopology, fabrics: Sequence[Fabric], nodes: Iterable[m.Node], catalog: Catalog
) -> m.Slurm:
    """Return it with its topologies. Only the partitions with another one than the default keep its name."""
    workers = {node.name: node for node in nodes if "worker" in node.functions}
    domains = {
        name: node.rack
        for name, node in workers.items()
        if node.rack and catalog.servers[node.hardware].nvlink_domain == "rack"
    }
    others: dict[Plugin, set[str]] = {}
    for partition in slurm.partitions:
        if partition.topology:
            others.setdefault(partition.topology, set()).update(partition.nodes)
    has_any = fabrics or domains  # else nothing tells which nodes are near
    all_topologies = _topologies(settings, fabrics, tuple(workers), others, domains) if has_any else ()
    further_plugins = {topology.plugin for topology in all_topologies[1:]}
    partitions = (
        dataclasses.replace(partition, topology=partition.topology if partition.topology in further_plugins else None)
        for partition in slurm.partitions
    )
    return dataclasses.replace(slurm, partitions=tuple(partitions), topologies=all_topologies)


def _topologies(
    settings: SlurmTopology,
    fabrics: Sequence[Fabric],
    workers: Sequence[str],
    others: Mapping[Plugin, set[str]],
    domains: Mapping[str, str],
) -> tuple[Topology, ...]:
    from hpcforge.design.fabric import topology_conf  # noqa: PLC0415 - few clusters have fabrics

    first = topology_conf.compute_fabric(fabrics, workers, settings.fabric)
    further = topology_conf.further_fabrics(fabrics, first)
    return topology_conf.topologies(first, workers, settings.plugin, others, domains, further)


def _acceptance(
    acceptance: AcceptanceSection | None,
    known_names: KnownNames,
    partitions: Sequence[m.Partition],
    programs: Mapping[str, m.SmokeTestProgram],
) -> m.Acceptance | None:
    if acceptance is None:
        return None
    of_partitions = [partition.nodes for partition in partitions]
    tests: list[m.SmokeTest] = []
    for name, test in acceptance.tests.by_name().items():
        limit_s = time_limit_s(test, acceptance.tests.folders[name].spec)
        options = tuple((option, option_text(value)) for option, value in test.options.by_name().items())
        chosen = tuple(option for option in options if option not in programs[name].options)
        for nodes in sets_of(test, known_names, of_partitions):
            tests.append(m.SmokeTest(name, nodes, limit_s, programs[name], chosen))
    return m.Acceptance(acceptance.run_as, tuple(tests))
