"""Check a blueprint against the catalog: models, facts of workers, systems and frameworks. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.checks import no_node, no_worker, service_findings
from hpcforge.blueprint.diagnostics import closest_or_all, did_you_mean, quote
from hpcforge.blueprint.schema import Blueprint
from hpcforge.blueprint.sections.nodes import FACTS, NodeGroup, Override, alike, hardware_of
from hpcforge.blueprint.sections.services import Services
from hpcforge.blueprint.sections.slurm import Reserve, SlurmSection
from hpcforge.blueprint.sections.software import Frameworks, OperatingSystemSection, Software
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.catalog import Catalog
from hpcforge.catalog.distribution import ELSEWHERE, Distribution
from hpcforge.cluster.checks.gpus import example, unknown_gpus
from hpcforge.cluster.model import Cluster
from hpcforge.frameworks import FRAMEWORKS
from hpcforge.kinds import PACKAGE_MANAGERS

Findings = Iterator[Finding]

_EXAMPLE = {"sockets": 2, "cores_per_socket": 32, "threads_per_core": 2, "memory_gib": 256}


@dataclass(frozen=True)
class Shape:
    """The declared facts of one node, with overrides; 0: neither catalog nor override has it."""

    sockets: int
    cores_per_socket: int
    threads_per_core: int
    memory_gib: int
    gpu_model: str | None
    gpu_count: int


def shape(group: NodeGroup, override: Override | None, catalog: Catalog) -> Shape:
    """Return the declared facts of a node whose hardware model is in the catalog."""
    hardware = hardware_of(group, override, catalog.servers[group.hardware])
    facts = {fact: getattr(hardware.server, fact) or 0 for fact in FACTS}
    gpus = hardware.gpus
    return Shape(**facts, gpu_model=gpus.model if gpus else None, gpu_count=gpus.count if gpus else 0)


def model_findings(draft: Draft, catalog: Catalog) -> Findings:
    """Yield hardware and GPU models that the catalog does not have."""
    for key, group in (draft.sections["nodes"] or {}).items():
        own = group.hardware in draft.keys("hardware")  # another check reports errors there
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


def worker_fact_findings(draft: Draft, catalog: Catalog) -> Findings:
    """Check that workers have the facts for scheduling, and more cores and memory than the reserve."""
    if not draft.intact("overrides"):
        return
    overrides: dict[str, Override] = draft.sections["overrides"] or {}
    slurm: SlurmSection | None = draft.sections["slurm"] if draft.intact("slurm", "reserve") else None
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
        yield Finding(("slurm", "reserve", fact), f"no resources remain for jobs on {hostlist.fold(names)}: {problem}")


def _swallowed(declared: Shape, reserve: Reserve) -> Iterator[str]:
    cores = declared.sockets * declared.cores_per_socket
    if reserve.cores is not None and reserve.cores >= cores:
        yield f"it has {cores} cores"
    if reserve.memory_gib is not None and reserve.memory_gib >= declared.memory_gib:
        yield f"it has {declared.memory_gib} GiB"


def _unknown_facts(key: str, hardware: str, facts: tuple[str, ...], own: Collection[str]) -> Finding:
    """Return a finding for unknown facts of a group's machines, with the entry that sets them for their model."""
    values = ", ".join(f"{fact}: {_EXAMPLE[fact]}" for fact in facts)
    if hardware in own:
        advice = f"under `hardware`, add to `{hardware}`: {values}"
    elif own:
        advice = f"add under `hardware`: {hardware}: {{like: {hardware}, {values}}}"
    else:
        advice = f"add: hardware: {{{hardware}: {{like: {hardware}, {values}}}}}"
    return Finding(
        ("nodes", key, "hardware"),
        f"the catalog has no {', '.join(facts)} of {quote(hardware)}, which workers need",
        f"{advice} (use your own numbers, from `lscpu` and `free -g`)",
    )


def system_findings(draft: Draft, catalog: Catalog) -> Findings:
    """Yield systems, drivers and frameworks that the catalog does not have, or not for these nodes."""
    software: Software | None = draft.sections["software"]
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


def _drivers(draft: Draft, catalog: Catalog, software: Software) -> Findings:
    """Check that installed drivers have a GPU."""
    if not all(map(draft.intact, ("nodes", "overrides", "hardware", "parts"))):
        return
    for vendor, section in (("nvidia", software.nvidia), ("amd", software.amd)):
        models = gpu_models(draft.sections["nodes"] or {}, draft.sections["overrides"] or {}, catalog)
        if section is not None and not any(has_driver(model, catalog, vendor) for model in models):
            message = f"no node has an {vendor.upper()} GPU, so nothing would be installed"
            yield Finding(("software", vendor), message, "remove it, or add `gpus:` to a group of nodes", key=True)


def has_driver(model: str, catalog: Catalog, vendor: str) -> bool:
    """Return whether a vendor's driver is installed for a model, even if stand-ins replace it in a rehearsal."""
    return catalog.gpus[model].vendor in (vendor, "none")


def _slurm_fabric(draft: Draft) -> Findings:
    """Check that the blueprint has the fabric for Slurm's topology."""
    slurm: SlurmSection | None = draft.sections["slurm"]
    if slurm is None or not draft.intact("slurm", "topology"):
        return
    loc, fabric = ("slurm", "topology"), slurm.topology.fabric
    declared = draft.keys("fabrics")
    if fabric is not None and fabric not in declared:
        hint = did_you_mean(fabric, declared) or "name it under `fabrics`"
        yield Finding((*loc, "fabric"), f"{quote(fabric)} is not a fabric of this blueprint", hint)


def _unknown_system(os: OperatingSystemSection, catalog: Catalog) -> Findings:
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
    supported = [
        " ".join(key)
        for key, distribution in catalog.distributions.items()
        if distribution.package_manager in PACKAGE_MANAGERS
    ]
    message = f"{system} has {by}: hpcforge installs packages only with {' or '.join(PACKAGE_MANAGERS)}"
    return Finding(("software", "os", "name"), message, f"use one of {', '.join(supported)}")


def _frameworks(draft: Draft, catalog: Catalog, system: Distribution | None, frameworks: Frameworks) -> Findings:
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
    versions = dict.fromkeys(build.version for build in catalog.pytorch)
    if version not in versions:
        yield Finding(loc, f"unknown PyTorch version {quote(version)}", f"known: {', '.join(versions)}")
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
        pythons = ", ".join(dict.fromkeys(build.python for build in framework.builds if build.version == version))
        message = f"no pinned wheels of {framework.title} {version} for Python {system.python}"
        yield Finding(loc, f"{message} of {system.name} {system.release}", f"there are some for Python {pythons}")
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


def gpu_models(nodes: Mapping[str, NodeGroup], overrides: Mapping[str, Override], catalog: Catalog) -> Iterator[str]:
    """Yield the GPU models of the catalog that nodes have, some several times."""
    for key, group in nodes.items():
        if group.hardware in catalog.servers:
            models = (shape(group, override, catalog).gpu_model for _, override in alike(key, overrides))
            yield from (model for model in models if model and model in catalog.gpus)


def pytorch_device(models: Iterable[str], catalog: Catalog) -> str:
    """Return the device of the PyTorch build: cuda where any node has a GPU of NVIDIA, rocm for AMD's, else cpu."""
    vendors = {catalog.gpus[model].vendor for model in models}
    return "cuda" if "nvidia" in vendors else "rocm" if "amd" in vendors else "cpu"


def empty_set_findings(blueprint: Blueprint, cluster: Cluster) -> Iterator[Finding]:
    """Yield node sets of the wrong size, now that it is known which node stands in which rack."""
    empty_partitions = [partition.name for partition in cluster.slurm.partitions if not partition.nodes]
    for name in empty_partitions:
        yield no_worker(("slurm", "partitions", name, "nodes"), blueprint.slurm.partitions[name].nodes)
    for reservation in cluster.slurm.reservations:
        if not reservation.nodes:
            loc = ("slurm", "reservations", reservation.name, "nodes")
            yield no_worker(loc, blueprint.slurm.reservations[reservation.name].nodes)
    for index, role in enumerate(cluster.site_roles):
        if not role.on:
            yield no_node(("software", "site_roles", index, "on"), blueprint.software.site_roles[index].on)
    for name, service in blueprint.services.by_name().items():
        if service.on_set is not None:
            offer, on = blueprint.services.offers[name], cluster.services[name].on
            yield from service_findings(name, offer, ("services", name, "on"), on)
