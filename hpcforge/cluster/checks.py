"""What a blueprint says against the hardware catalog and against an inventory. Pure.

The findings of `check_catalog` are about the blueprint, those of `check_inventory` about the inventory.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from hpcforge.blueprint import hostlist
from hpcforge.blueprint import schema as s
from hpcforge.blueprint.checks import node_as_jump_host, node_network, outside
from hpcforge.blueprint.diagnostics import closest_or_all, did_you_mean, quote
from hpcforge.blueprint.inventory import InventoryNode, InventorySwitch
from hpcforge.blueprint.network_checks import is_bmc
from hpcforge.blueprint.overrides import FACTS, alike, hardware_of
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.services import Services
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.blueprint.visible_nodes import NamedNodes
from hpcforge.catalog import Catalog
from hpcforge.catalog.distribution import ELSEWHERE, Distribution
from hpcforge.cluster.gpu_checks import example, gpu_findings, unknown_gpus
from hpcforge.cluster.hardware_checks import hardware_findings
from hpcforge.cluster.mig import mig_findings
from hpcforge.cluster.networks import Placed, few_outside, mostly_outside
from hpcforge.cluster.override_checks import override_findings
from hpcforge.cluster.release_checks import unknown_releases
from hpcforge.cluster.shards import shard_findings
from hpcforge.cluster.slurm_checks import slurm_findings
from hpcforge.cluster.storage_checks import storage_kind_findings
from hpcforge.frameworks import FRAMEWORKS
from hpcforge.kinds import PACKAGE_MANAGERS


# Addresses and serial numbers in an inventory that two machines or two ports share.
def identity_findings(inventory: Draft, blueprint: Draft) -> Findings:
    """Yield what two machines share although only one can have it; addresses on networks are judged with those."""
    machines: dict[str, InventoryNode] = inventory.sections["nodes"] or {}
    on_network = any(is_bmc(name, network) for name, network in (blueprint.sections["networks"] or {}).items())
    owner = {machine.address: name for name, machine in machines.items() if machine.address}
    for name, machine in machines.items():
        at = machine.bmc.address if machine.bmc and not on_network else None
        for key, value in ((("bmc", "address"), at), (("serial",), machine.serial)):
            if value is not None and owner.setdefault(value, name) != name:
                yield Finding(("nodes", name, *key), f"{value} of {name} already belongs to {owner[value]}")
    yield from _shared_macs(machines, inventory.sections["switches"] or {})


def _shared_macs(machines: Mapping[str, InventoryNode], switches: Mapping[str, InventorySwitch]) -> Findings:
    """Yield MAC addresses of two ports; `mac` may be one of `ports`, where a fabric carries the nodes' network."""
    owner: dict[str, list[Loc]] = {}
    for loc, mac in _macs(machines, switches):
        before = owner.setdefault(mac, [])
        first = next((place for place in before if not _may_be_one_port(place, loc)), None)
        if first and first[1] != loc[1]:
            yield Finding(loc, f"{mac} of {loc[1]} already belongs to {first[1]}")
        elif first:
            key = ".".join(str(step) for step in first[2:] if isinstance(step, str))
            yield Finding(loc, f"{mac} of {loc[1]} is also its `{key}`", "each port has a MAC address of its own")
        before.append(loc)


def _may_be_one_port(place: Loc, loc: Loc) -> bool:
    return place[:2] == loc[:2] and place[2] == "mac" and loc[2] == "ports"


def _macs(machines: Mapping[str, InventoryNode], switches: Mapping[str, InventorySwitch]) -> Iterator[tuple[Loc, str]]:
    """Yield all MAC addresses: that of a node's address before those of its other ports."""
    for name, machine in machines.items():
        loc: Loc = ("nodes", name)
        own: list[tuple[Loc, str | None]] = [((*loc, "mac"), machine.mac)]
        own += [((*loc, "bmc", "mac"), machine.bmc.mac)] if machine.bmc else []
        for fabric, macs in machine.ports.items():
            own += (((*loc, "ports", fabric, index), mac) for index, mac in enumerate(macs))
        yield from ((place, mac) for place, mac in own if mac)
    yield from ((("switches", name, "mac"), switch.mac) for name, switch in switches.items() if switch.mac)


Findings = Iterator[Finding]

_MAX_GUESSES = 20  # of the word that was meant: each takes tens of milliseconds among 10,000 names
_EXAMPLE = {"sockets": 2, "cores_per_socket": 32, "threads_per_core": 2, "memory_gib": 256}


@dataclass(frozen=True)
class Shape:
    """What is declared of one node, overrides applied; 0 where neither catalog nor override knows."""

    sockets: int
    cores_per_socket: int
    threads_per_core: int
    memory_gib: int
    gpu_model: str | None
    gpu_count: int


def shape(group: s.NodeGroup, override: s.Override | None, catalog: Catalog) -> Shape:
    """Return what is declared of a node whose hardware model is in the catalog."""
    hardware = hardware_of(group, override, catalog.servers[group.hardware])
    facts = {fact: getattr(hardware.server, fact) or 0 for fact in FACTS}
    gpus = hardware.gpus
    return Shape(**facts, gpu_model=gpus.model if gpus else None, gpu_count=gpus.count if gpus else 0)


def check_catalog(draft: Draft, catalog: Catalog) -> Findings:
    """Yield what the catalog does not know, and what it knows to be impossible."""
    yield from _models(draft, catalog)
    yield from hardware_findings(draft, catalog)
    yield from gpu_findings(draft, catalog)
    yield from mig_findings(draft, catalog)
    yield from shard_findings(draft, catalog)
    yield from override_findings(draft, catalog)
    yield from _facts(draft, catalog)
    yield from _software(draft, catalog)
    yield from storage_kind_findings(draft, catalog)
    yield from slurm_findings(draft, catalog)
    yield from unknown_releases(draft, catalog)


def _models(draft: Draft, catalog: Catalog) -> Findings:
    for key, group in (draft.sections["nodes"] or {}).items():
        own = group.hardware in draft.keys("hardware")  # what is wrong there was said
        if group.hardware not in catalog.servers and not own and draft.intact("nodes", key, "hardware"):
            yield Finding(
                ("nodes", key, "hardware"),
                f"unknown hardware {quote(group.hardware)}",
                closest_or_all(group.hardware, catalog.servers),
            )
        if group.gpus and group.gpus.model not in catalog.gpus and draft.intact("parts"):
            yield _unknown_gpu(("nodes", key, "gpus", "model"), group.gpus.model, catalog)
    for name, override in (draft.sections["overrides"] or {}).items():
        if override.gpus and override.gpus.model not in catalog.gpus and draft.intact("parts"):
            yield _unknown_gpu(("overrides", name, "gpus", "model"), override.gpus.model, catalog)


def _unknown_gpu(loc: tuple[str, ...], model: str, catalog: Catalog) -> Finding:
    return Finding(loc, f"unknown GPU model {quote(model)}", closest_or_all(model, catalog.gpus))


def _facts(draft: Draft, catalog: Catalog) -> Findings:
    """Check that workers are known well enough to be scheduled, and larger than what is reserved of them."""
    if not draft.intact("overrides"):
        return
    overrides: dict[str, s.Override] = draft.sections["overrides"] or {}
    slurm: s.SlurmSection | None = draft.sections["slurm"] if draft.intact("slurm", "reserve") else None
    too_small: dict[str, list[str]] = {}
    for key, group in (draft.sections["nodes"] or {}).items():
        if "worker" not in group.functions or group.hardware not in catalog.servers or not draft.intact("nodes", key):
            continue
        unknown: dict[tuple[str, ...], None] = {}
        for name in hostlist.expand(key):
            declared = shape(group, overrides.get(name), catalog)
            missing = tuple(fact for fact in FACTS if not getattr(declared, fact))
            if missing:
                unknown[missing] = None
            elif slurm:
                for problem in _swallowed(declared, slurm.reserve):
                    too_small.setdefault(problem, []).append(name)
        for facts in unknown:
            yield _unknown_facts(key, group.hardware, facts, draft.keys("hardware"))
    for problem, names in too_small.items():
        fact = "cores" if "cores" in problem else "memory_gib"
        yield Finding(
            ("slurm", "reserve", fact), f"no resources are left for jobs on {hostlist.fold(names)}: {problem}"
        )


def _swallowed(declared: Shape, reserve: s.Reserve) -> Iterator[str]:
    cores = declared.sockets * declared.cores_per_socket
    if reserve.cores is not None and reserve.cores >= cores:
        yield f"it has {cores} cores"
    if reserve.memory_gib is not None and reserve.memory_gib >= declared.memory_gib:
        yield f"it has {declared.memory_gib} GiB"


def _unknown_facts(key: str, hardware: str, facts: tuple[str, ...], own: Collection[str]) -> Finding:
    """Say what is not known of the machines of a group, and the one entry that says it for all that have the model."""
    values = ", ".join(f"{fact}: {_EXAMPLE[fact]}" for fact in facts)
    if hardware in own:
        way = f"under `hardware`, add to `{hardware}`: {values}"
    elif own:
        way = f"add under `hardware`: {hardware}: {{like: {hardware}, {values}}}"
    else:
        way = f"add: hardware: {{{hardware}: {{like: {hardware}, {values}}}}}"
    return Finding(
        ("nodes", key, "hardware"),
        f"the catalog has no {', '.join(facts)} of {quote(hardware)}, which workers need",
        f"{way} (use your own numbers, from `lscpu` and `free -g`)",
    )


def _software(draft: Draft, catalog: Catalog) -> Findings:
    software: s.Software | None = draft.sections["software"]
    if software is None or not draft.intact("software", "os"):
        return
    system = catalog.distributions.get((software.os.name, software.os.release))
    if system is None:
        yield from _unknown_system(software.os, catalog)
    else:
        yield from _package_manager(system, catalog)
        if system.testing:
            message = f"{system.name} {system.release} is not released: its packages change daily"
            hint = "use it for trials, and a released one for a site"
            yield Finding(("software", "os", "release"), message, hint, severity="warning")
    yield from _slurm_fabric(draft)
    yield from _drivers(draft, catalog, software)
    if draft.intact("software", "frameworks"):
        yield from _frameworks(draft, catalog, system, software.frameworks)


def _drivers(draft: Draft, catalog: Catalog, software: s.Software) -> Findings:
    """Check that there is a GPU for what is installed."""
    if not all(map(draft.intact, ("nodes", "overrides", "hardware", "parts"))):
        return
    for vendor, asked in (("nvidia", software.nvidia), ("amd", software.amd)):
        models = gpu_models(draft.sections["nodes"] or {}, draft.sections["overrides"] or {}, catalog)
        if asked is not None and not any(has_driver(model, catalog, vendor) for model in models):
            message = f"no node has an {vendor.upper()} GPU, so nothing would be installed"
            yield Finding(("software", vendor), message, "remove it, or add `gpus:` to a group of nodes", key=True)


def has_driver(model: str, catalog: Catalog, vendor: str) -> bool:
    """Whether a vendor's driver is installed for a model: also for one that stands for real ones in a rehearsal."""
    return catalog.gpus[model].vendor in (vendor, "none")


def _slurm_fabric(draft: Draft) -> Findings:
    """Check that the blueprint has the fabric for Slurm's topology."""
    slurm: s.SlurmSection | None = draft.sections["slurm"]
    if slurm is None or not draft.intact("slurm", "topology"):
        return
    loc, fabric = ("slurm", "topology"), slurm.topology.fabric
    known = draft.keys("fabrics")
    if fabric is not None and fabric not in known:
        hint = did_you_mean(fabric, known) or "name it under `fabrics`"
        yield Finding((*loc, "fabric"), f"{quote(fabric)} is not a fabric of this blueprint", hint)


def _unknown_system(os: s.OperatingSystemSection, catalog: Catalog) -> Findings:
    releases = [release for name, release in catalog.distributions if name == os.name]
    if releases:
        message = f"unknown release {quote(os.release)} of {os.name}"
        yield Finding(("software", "os", "release"), message, f"known: {', '.join(releases)}")
    elif os.name in ELSEWHERE:
        yield _packages_otherwise(quote(os.name), ELSEWHERE[os.name], catalog)
    else:
        names = dict.fromkeys(name for name, _ in catalog.distributions)
        yield Finding(
            ("software", "os", "name"), f"unknown distribution {quote(os.name)}", did_you_mean(os.name, names)
        )


def _package_manager(system: Distribution, catalog: Catalog) -> Findings:
    """Check that the node program can install packages there."""
    if system.package_manager not in PACKAGE_MANAGERS:
        yield _packages_otherwise(f"{system.name} {system.release}", system.package_manager, catalog)


def _packages_otherwise(system: str, by: str, catalog: Catalog) -> Finding:
    known = [
        " ".join(key)
        for key, distribution in catalog.distributions.items()
        if distribution.package_manager in PACKAGE_MANAGERS
    ]
    message = f"{system} has {by}: hpcforge installs packages only with {' '.join(PACKAGE_MANAGERS)}"
    return Finding(("software", "os", "name"), message, f"use one of {', '.join(known)}")


def _frameworks(draft: Draft, catalog: Catalog, system: Distribution | None, frameworks: s.Frameworks) -> Findings:
    """Check every version of every framework."""
    for name, versions in {"pytorch": frameworks.pytorch, **frameworks.others()}.items():
        for number, version in enumerate(versions):
            loc = ("software", "frameworks", name, number)
            if version in versions[:number]:
                yield Finding(loc, f"{quote(version)} is named twice", "remove one")
            elif name == "pytorch":
                yield from _pytorch(draft, catalog, system, loc, version)
            else:
                yield from _framework(draft, system, loc, version)


def _pytorch(
    draft: Draft, catalog: Catalog, system: Distribution | None, loc: tuple[str, str, str, int], version: str
) -> Findings:
    """Check that a version of PyTorch has a build for the nodes; of the first the distribution's package will do."""
    known = dict.fromkeys(build.version for build in catalog.pytorch)
    if version not in known:
        yield Finding(loc, f"unknown PyTorch version {quote(version)}", f"known: {', '.join(known)}")
        return
    models = sorted(set(gpu_models(draft.sections["nodes"] or {}, draft.sections["overrides"] or {}, catalog)))
    device = pytorch_device(models, catalog)
    builds = dict.fromkeys(build.version for build in catalog.pytorch_builds(device, system)) if system else {}
    unknown = unknown_gpus(draft, catalog) if device == "cpu" else {}
    if system and version not in builds and unknown:
        group, names = next(iter(unknown.items()))
        message = f"PyTorch {version} has a build for each kind of GPU, and {hostlist.fold(names)} have no `gpus`"
        yield Finding(
            loc, message, f"nodes.{group}: gpus: {example(draft.sections['nodes'][group], catalog)}, for example"
        )
    elif system and version not in builds and (builds or device != "cpu" or loc[-1] > 0):
        real = ", ".join(model for model in models if catalog.gpus[model].vendor != "none")
        yield Finding(
            loc,
            f"the catalog has no pinned build of PyTorch {version} for Python {system.python} and "
            + (f"{device}, which {real} needs" if real else device),
            f"known for it: {', '.join(builds)}" if builds else "remove `pytorch`: a CPU build leaves GPUs idle",
        )
    elif system and version not in builds:
        missing = f"no pinned wheel of PyTorch {version} for Python {system.python}"
        own = f"{system.name} {system.release}"
        if system.pytorch is None:
            yield Finding(loc, f"{missing}, and the catalog has no package of {own}", "leave out `pytorch`")
        else:
            message = f"{missing}: nodes get the package of {own}, version {system.pytorch}"
            yield Finding(loc, message, severity="warning")
    elif system:
        yield from _no_depot(draft, "PyTorch")


def _framework(draft: Draft, system: Distribution | None, loc: tuple[str, str, str, int], version: str) -> Findings:
    """Check that a version of a framework beside PyTorch has a build for the nodes."""
    framework = FRAMEWORKS[loc[2]]
    if version not in framework.versions:
        message = f"unknown {framework.title} version {quote(version)}"
        yield Finding(loc, message, f"known: {', '.join(framework.versions)}")
    elif system and framework.build(version, system.python, system.libc) is None:
        has = ", ".join(dict.fromkeys(build.python for build in framework.builds if build.version == version))
        message = f"no pinned wheels of {framework.title} {version} for Python {system.python}"
        yield Finding(loc, f"{message} of {system.name} {system.release}", f"there are some for Python {has}")
    elif system:
        yield from _no_depot(draft, framework.title)


def _no_depot(draft: Draft, title: str) -> Findings:
    """Check that something serves wheels."""
    services: Services | None = draft.sections["services"]
    if services and draft.intact("services"):
        serving = [name for name, offer in services.offers.items() if offer.serves_artifacts]
        if serving and serving[0] not in services.by_name():
            message = f"`{serving[0]}` is missing: nodes get {title}'s wheels from it"
            yield Finding(("services",), message, f"{serving[0]}: {{on: NODE}}", key=True)


def gpu_models(
    nodes: Mapping[str, s.NodeGroup], overrides: Mapping[str, s.Override], catalog: Catalog
) -> Iterator[str]:
    """Yield the GPU models of the catalog that nodes have, some several times."""
    for key, group in nodes.items():
        if group.hardware in catalog.servers:
            models = (shape(group, override, catalog).gpu_model for _, override in alike(key, overrides))
            yield from (model for model in models if model and model in catalog.gpus)


def pytorch_device(models: Iterable[str], catalog: Catalog) -> str:
    """What PyTorch has to be built for: cuda where any node has a GPU of NVIDIA, rocm for AMD's, else cpu."""
    vendors = {catalog.gpus[model].vendor for model in models}
    return "cuda" if "nvidia" in vendors else "rocm" if "amd" in vendors else "cpu"


def check_addresses(draft: Draft, inventory: Draft | None) -> Findings:
    """Yield the nodes of a blueprint that neither it nor the inventory gives an address."""
    first = node_network(draft)
    if first is None or (inventory and not inventory.intact("nodes")):
        return
    derived = draft.sections["networks"][first].fabric is not None
    padded = unpadded(NamedNodes(draft), inventory) if inventory else {}
    for key, names in padded.items():
        shown = hostlist.fold(list(names))
        message = f"the inventory has {hostlist.fold(list(names.values()))}, and this names {shown}"
        yield Finding(("nodes", key), message, "write its numbers with as many zeros as the inventory", key=True)
    if padded:
        return
    if inventory and not derived and NamedNodes(draft).unknown(inventory.keys("nodes")):
        return  # a name that is wrong there may be why
    machines = inventory.sections["nodes"] if inventory else {}
    if not (inventory and inventory.sections["networks"]):
        given: Placed = {name: ((), machine.address) for name, machine in machines.items() if machine.address}
        if error := mostly_outside(first, draft.sections["networks"][first].cidr, given):
            yield error
    known = {name for name, machine in machines.items() if machine.address}
    if derived and not known:
        return  # all are derived from names
    for key, group in (draft.sections["nodes"] or {}).items():
        if group.addresses is None and draft.intact("nodes", key):
            lacking = [name for name in hostlist.expand(key) if name not in known]
            message = f"{hostlist.fold(lacking)} without an address" if lacking else ""
            if message and derived:
                message += " in the inventory, which has those of others: one is derived from the name"
                hint = "write its address into the inventory if it has one"
                yield Finding(("nodes", key), message, hint, key=True, severity="warning")
            elif message:
                hint = "give `addresses:` here, or name an inventory that has them"
                yield Finding(("nodes", key), message, hint, key=True)


def unpadded(declared: NamedNodes, inventory: Draft) -> dict[str, dict[str, str]]:
    """Return nodes that an inventory has with other zeros, by key: `c1`, which is there as `c01`.

    One alone is a name of its own, and nodes whose addresses the blueprint has need no inventory.
    """
    there = inventory.keys("nodes")
    unknown = {_bare(name): name for name in declared.unknown(there)}
    found: dict[str, dict[str, str]] = {}
    for name in sorted(set(declared.group_of) - set(there)) if unknown else ():
        if _bare(name) in unknown:
            found.setdefault(declared.group_of[name], {})[name] = unknown[_bare(name)]
    lacking = {key for key, group in declared.groups.items() if group.addresses is None}
    return {key: names for key, names in found.items() if len(names) > 1 and key in lacking}


def _bare(name: str) -> str:
    return re.sub(r"(?<![0-9])0{1,9}(?=[0-9])", "", name)


def check_inventory(inventory: Draft, blueprint: Draft) -> Findings:
    """Yield what an inventory says wrongly about a blueprint's nodes and networks."""
    declared = NamedNodes(blueprint)
    padded = {name for names in unpadded(declared, inventory).values() for name in names.values()}
    unknown = [name for name in declared.unknown(inventory.keys("nodes")) if inventory.intact("nodes", name)]
    unknown = [name for name in unknown if name not in padded]
    nodes = f"its nodes: {hostlist.fold(list(declared.group_of)[:64])}"
    for position, name in enumerate(unknown):
        hint = did_you_mean(name, declared.group_of) if position < _MAX_GUESSES else None
        message = f"{quote(name)} is not a node of the blueprint and is ignored"  # it may have left it
        yield Finding(("nodes", name), message, hint or nodes, key=True, severity="warning")
    if inventory.sections["access"] and inventory.intact("access"):
        yield from node_as_jump_host(inventory.sections["access"].via, declared)
    networks = blueprint.keys("networks")
    for name in inventory.sections["networks"] or {}:
        if name not in networks:
            message = f"{quote(name)} is not a network of the blueprint"
            yield Finding(("networks", name), message, did_you_mean(name, networks), key=True)
    fabrics = "|".join(map(re.escape, blueprint.keys("fabrics")))
    switch = re.compile(rf"(?:{fabrics})-(?:leaf|spine|core)-[0-9]+")  # how many there are is not known yet
    gone = [name for name in declared.unknown(inventory.keys("positions")) if not switch.fullmatch(name)]
    if gone:
        message = f"positions of {hostlist.fold(gone)}, which the blueprint does not have"
        yield Finding(("positions",), message, "`hpcforge pin` removes them", severity="warning", key=True)
    yield from identity_findings(inventory, blueprint)
    yield from _effective_addresses(inventory, blueprint, declared)


def _effective_addresses(inventory: Draft, blueprint: Draft, declared: NamedNodes) -> Findings:
    """Check the addresses that come out: the inventory's, and the blueprint's where it says nothing."""
    if not inventory.intact("networks"):
        return
    network = node_network(blueprint)
    moves = inventory.sections["networks"] or {}
    if set(moves) - set(blueprint.keys("networks")):
        network = None  # a name that is wrong there may be why an address is outside
    moved = moves.get(network)
    subnet = (moved or blueprint.sections["networks"][network]).cidr if network else None
    given = {name: node.address for name, node in (inventory.sections["nodes"] or {}).items() if node.address}
    kept = {name: a for name, a in blueprint_addresses(declared).items() if name not in given}
    owner = {address: name for name, address in kept.items()}
    placed: Placed = {name: (("nodes", name, "address"), address) for name, address in given.items()}
    if network and subnet and (moved or mostly_outside(network, subnet, placed) is None):
        yield from few_outside(network, subnet, placed)
    for name, address in given.items():
        loc = ("nodes", name, "address")
        if address in owner:
            yield Finding(loc, f"{address} of {name} already belongs to {owner[address]}")
        owner.setdefault(address, name)
    sure = inventory.intact("nodes") and not declared.unknown(inventory.keys("nodes"))
    if sure and subnet and network and moved:
        stranded = [name for name, address in kept.items() if any(outside((), (address,), subnet, network))]
        if stranded:
            yield Finding(
                ("networks", network),
                f"outside {subnet}: the blueprint's address of {hostlist.fold(stranded)}",
                "give other addresses here, under `nodes:`",
                key=True,
            )


def blueprint_addresses(declared: NamedNodes) -> dict[str, str]:
    """Return the addresses that a blueprint gives, by node."""
    return {
        name: address
        for key, group in declared.groups.items()
        if group.addresses is not None
        for name, address in zip(hostlist.expand(key), hostlist.expand(group.addresses), strict=False)
    }
