"""The check of a blueprint's drivers and related software by the table of rules. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.schema import Blueprint
from hpcforge.blueprint.sections.gpus import NvidiaSection
from hpcforge.blueprint.sections.nodes import Override, alike, gpus_of
from hpcforge.blueprint.sections.software import Frameworks, Software
from hpcforge.catalog import Catalog
from hpcforge.catalog.compatibility import Compatibility, Component, load_compatibility
from hpcforge.catalog.distribution import Distribution
from hpcforge.catalog.nvidia import archive_name
from hpcforge.design.facility.rules import Breach, not_checked
from hpcforge.frameworks import FRAMEWORKS
from hpcforge.software.rules import NAMES
from hpcforge.software.solve import MATCHED, Broken, StatedComponent, changes, is_error, judge, nearest, numbers

_PRESENT, _NVIDIA, _AMD = ("software", "preinstalled"), ("software", "nvidia"), ("software", "amd")
_ONE: tuple[Component, ...] = (
    "kernel", "secure_boot", "signed_by", "driver", "modules", "fabric_manager", "dcgm", "container_toolkit", "ofed",
    "gpudirect",
)  # fmt: skip
_SOURCES = "`software.sources.nvidia` (docs/software.md)"
_FACTS = ("secure_boot",)  # a firmware setting: no proposal changes it


def breaches(blueprint: Blueprint, catalog: Catalog, system: Distribution) -> tuple[Breach, ...]:
    """Return the breaches of rules by a blueprint's software; none without GPUs and related software."""
    has_source = blueprint.software.sources.nvidia is not None
    software = declared(blueprint, catalog, system, nvidias=has_source)
    if {statement.component for statement in software} == {"slurm"}:
        return ()
    undeclared = blueprint.software.nvidia is not None and not has_source
    elsewhere = declared(blueprint, catalog, system, nvidias=True) if undeclared else None
    return tuple(judged(software, load_compatibility(), elsewhere))


def declared(
    blueprint: Blueprint, catalog: Catalog, system: Distribution, *, nvidias: bool
) -> tuple[StatedComponent, ...]:
    """Return a blueprint's components for the rules, with their places; `nvidias`: from NVIDIA's repository."""
    gpus = tuple(_gpus(blueprint, catalog))
    components = [*_installed(blueprint.software, system, nvidias=nvidias), *_present(blueprint.software), *gpus]
    cuda = any(statement.component == "gpu" and not statement.value.startswith("cdna") for statement in gpus)
    if cuda:
        components.extend(_wheels(blueprint.software.frameworks, catalog, system))
    if blueprint.slurm.topology.plugin != "tree":
        plugin = blueprint.slurm.topology.plugin
        shown = f"topology/{plugin}"
        components.append(StatedComponent("slurm_topology", plugin, ("slurm", "topology", "plugin"), shown=shown))
    components.extend(_partition_topologies(blueprint, catalog))
    for key, group in blueprint.nodes.items():
        if group.shards:
            components.append(
                StatedComponent("slurm_shards", "shared", ("nodes", key, "shards"), shown=f"shards of {key}'s GPUs")
            )
    shown = f"Slurm {system.slurm} of {system.name} {system.release}"
    components.append(StatedComponent("slurm", system.slurm, ("software", "os", "release"), fixed=True, shown=shown))
    return tuple(components)


def judged(
    software: Sequence[StatedComponent], table: Compatibility, elsewhere: Sequence[StatedComponent] | None = None
) -> Iterator[Breach]:
    """Yield the breaches of rules by a set, with the nearest working set, and rules that could not be judged.

    `elsewhere` is the same set from NVIDIA's repository, if the blueprint does not name that repository.
    """
    broken = tuple(judge(software, table.rules))
    wrong = [broken_rule for broken_rule in broken if broken_rule.missing is None or broken_rule.rule.required]
    proposed, changed = _proposed(software, elsewhere, table) if any(map(is_error, wrong)) else (None, [])
    for broken_rule in wrong:
        hint, place = proposed if is_error(broken_rule) else None, _place(broken_rule, changed)
        yield Breach(broken_rule.rule.code, place, _message(broken_rule), None, hint, broken_rule.rule.severity)
    unknown: dict[Component, Broken] = {}
    for broken_rule in broken:
        if broken_rule.missing is not None and not broken_rule.rule.required:
            unknown.setdefault(broken_rule.missing, broken_rule)
    for component, broken_rule in unknown.items():
        message = f"{NAMES[component]} is not set, and this depends on it: {broken_rule.rule.title}"
        hint = f"set `software.preinstalled.{component}`"
        if component in NvidiaSection.model_fields:
            present = f"`software.preinstalled.{component}`: nodes have it"
            hint = f"`software.nvidia.{component}`: hpcforge installs it; {present}"
        yield not_checked(broken_rule.rule.code, _place(broken_rule, ()), message, hint)


def _wheels(frameworks: Frameworks, catalog: Catalog, system: Distribution) -> Iterator[StatedComponent]:
    """Yield the CUDA runtime of each framework's wheels for GPUs."""
    for name, versions in {"pytorch": frameworks.pytorch, **frameworks.others()}.items():
        for number, version in enumerate(versions):
            if name == "pytorch":
                title, build = "PyTorch", catalog.pytorch_build(version, "cuda", system)
            else:
                title = FRAMEWORKS[name].title
                build = FRAMEWORKS[name].build(version, system.python, system.libc, "cuda")
            if build and build.cuda:
                loc, shown = ("software", "frameworks", name, number), f"{title} {version} for CUDA {build.cuda}"
                yield StatedComponent("pytorch_cuda", build.cuda, loc, fixed=True, shown=shown)


def _installed(software: Software, system: Distribution, *, nvidias: bool) -> Iterator[StatedComponent]:
    """Yield the software that hpcforge installs, and its source."""
    if software.amd is not None:
        shown = f"{system.name.capitalize()} {system.release}"
        source = archive_name(system.name, system.release, nvidias=False)
        yield StatedComponent("rocm_source", source, (*_AMD, "rocm"), fixed=True, shown=shown, installed=True)
        yield StatedComponent("rocm", software.amd.rocm, (*_AMD, "rocm"), installed=True)
    nvidia = software.nvidia
    if nvidia is None:
        return
    source = archive_name(system.name, system.release, nvidias=nvidias)
    shown = f"{system.name.capitalize()} {system.release}"
    shown = f"NVIDIA's repository for {shown}" if nvidias else shown
    yield StatedComponent("source", source, (*_NVIDIA, "driver"), fixed=True, shown=shown, installed=True)
    yield StatedComponent("driver", nvidia.driver, (*_NVIDIA, "driver"), installed=True)
    yield StatedComponent("modules", nvidia.modules, (*_NVIDIA, "modules"), installed=True)
    for index, version in enumerate(nvidia.cuda):
        yield StatedComponent("cuda", version, (*_NVIDIA, "cuda", index), installed=True)
    if nvidias:  # it has Fabric Manager, which machines with NVSwitches get
        yield StatedComponent("fabric_manager", MATCHED, (*_NVIDIA, "driver"), fixed=True, installed=True)
    if nvidia.dcgm is not None:
        yield StatedComponent("dcgm", nvidia.dcgm, (*_NVIDIA, "dcgm"), installed=True)
    if nvidia.container_toolkit is not None:
        yield StatedComponent(
            "container_toolkit", nvidia.container_toolkit, (*_NVIDIA, "container_toolkit"), installed=True
        )


def _present(software: Software) -> Iterator[StatedComponent]:
    present = software.preinstalled
    for component in _ONE:
        value = getattr(present, component)
        if value is not None:
            text = str(value).lower() if isinstance(value, bool) else value
            yield StatedComponent(component, text, (*_PRESENT, component), fixed=component in _FACTS)
    for index, version in enumerate(present.cuda):
        yield StatedComponent("cuda", version, (*_PRESENT, "cuda", index))


def _partition_topologies(blueprint: Blueprint, catalog: Catalog) -> Iterator[StatedComponent]:
    """Yield the partitions with a topology of their own, and the oldest Slurm that reads the same slurm.conf."""
    usual, os, has_own = blueprint.slurm.topology.plugin, blueprint.software.os, False
    for name, partition in blueprint.slurm.partitions.items():
        if partition.topology and partition.topology != usual:
            has_own, loc = True, ("slurm", "partitions", name, "topology")
            shown = f"topology/{partition.topology} for the partition {name}, beside topology/{usual}"
            yield StatedComponent("slurm_second_topology", partition.topology, loc, shown=shown)
    releases = {override.release for override in blueprint.overrides.values()} | {os.release}
    systems = [system for release in releases if (system := catalog.distributions.get((os.name, release or "")))]
    if has_own and systems:
        oldest = min(systems, key=lambda system: numbers(system.slurm))
        shown = f"Slurm {oldest.slurm} of {oldest.name} {oldest.release}"
        yield StatedComponent("slurm_oldest", oldest.slurm, ("software", "os", "release"), fixed=True, shown=shown)


def _gpus(blueprint: Blueprint, catalog: Catalog) -> Iterator[StatedComponent]:
    """Yield the kinds of GPUs, and NVSwitches, each at its first declaration."""
    first: dict[tuple[Component, str], StatedComponent] = {}

    def add(component: Component, value: str, loc: Loc, shown: str) -> None:
        first.setdefault((component, value), StatedComponent(component, value, loc, fixed=True, shown=shown))

    def add_gpu(model: str, loc: Loc) -> bool:
        kind = catalog.gpus[model]
        if kind.vendor in ("nvidia", "amd"):
            generation = kind.architecture or "unknown"
            label = generation.upper() if kind.vendor == "amd" else generation.capitalize()
            add("gpu", generation, loc, f"{model} ({label})")
        return kind.vendor == "nvidia"

    for key, group in blueprint.nodes.items():
        server, hardware_loc = catalog.servers[group.hardware], ("nodes", key, "hardware")
        for names, override in sorted(alike(key, blueprint.overrides), key=_has_own):  # the group's line first
            gpus, own = gpus_of(group, override, server), _has_own((names, override))
            loc = ("overrides", names[0], "gpus", "model") if own else hardware_loc
            if gpus and add_gpu(gpus.model, loc) and server.nvswitch:
                add("nvswitch", "true", hardware_loc, f"{group.hardware} with NVSwitches")
    yield from first.values()


def _has_own(kind: tuple[tuple[str, ...], Override | None]) -> bool:
    return bool(kind[1] and kind[1].gpus)


def _place(broken: Broken, changed: Sequence[StatedComponent | None]) -> Loc:
    """Return the line to change: a proposed one, else one that can change; of several the last, which a rule needs."""
    proposed = [stated for stated in broken.of if stated in changed]
    return (proposed or [stated for stated in broken.of if not stated.fixed] or broken.of)[-1].loc


def _message(broken: Broken) -> str:
    names = " and ".join(dict.fromkeys(map(_called, broken.of)))
    if broken.missing is not None:
        return f"{names} without {NAMES[broken.missing]}: {broken.rule.reason}"
    verb = "do not go together" if len(broken.of) > 1 else "does not work"
    return f"{names} {verb}: {broken.rule.reason}"


def _called(stated: StatedComponent) -> str:
    return stated.shown or f"{NAMES[stated.component].removeprefix('the ')} {stated.value}"


def _proposed(
    software: Sequence[StatedComponent], elsewhere: Sequence[StatedComponent] | None, table: Compatibility
) -> tuple[str, list[StatedComponent | None]]:
    """Return the hint with the nearest working set, and the components of the blueprint that it changes."""
    proposal, others = nearest(software, table), nearest(elsewhere, table) if elsewhere else None
    hints, changed = [], [old for old, _ in changes(software, proposal or ())]
    if elsewhere and others == tuple(elsewhere):
        hints.append(f"NVIDIA's repository has what you ask for: name it under {_SOURCES}")
    if proposal is not None:
        hints.append(f"nearest set that works: {', '.join(_changed(software, proposal, table))}")
    elif elsewhere and others is not None and not hints:
        changed = [old for old, _ in changes(elsewhere, others)]
        versions = ", ".join(_changed(elsewhere, others, table))
        hints.append(f"nearest set that works, with NVIDIA's repository under {_SOURCES}: {versions}")
    return "; else ".join(hints) or "no set of versions that hpcforge knows works here", changed


def _changed(
    software: Sequence[StatedComponent], proposal: Sequence[StatedComponent], table: Compatibility
) -> Iterator[str]:
    """Yield the changes of a proposal in the form of the blueprint, with their origin."""
    for old, new in changes(software, proposal):
        origin = table.offered[new.component][new.value]
        instead = f"instead of {old.value}" if old else None
        about = ", ".join(filter(None, (origin, instead)))
        yield f"{_key(new)}: {new.value}" + (f" ({about})" if about else "")


def _key(stated: StatedComponent) -> str:
    """Return the full key of a component in the blueprint."""
    section = _NVIDIA if stated.installed and stated.component in NvidiaSection.model_fields else _PRESENT
    loc = stated.loc or (*section, stated.component)
    return ".".join(part for part in loc if isinstance(part, str))
