"""Check GPUs of nodes: missing in the blueprint, without a driver, or overridden. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.diagnostics import quote
from hpcforge.blueprint.sections.gpus import gpus_named
from hpcforge.blueprint.sections.hardware import GpusSection, Server
from hpcforge.blueprint.sections.nodes import NodeGroup, Override, alike, gpus_of, hardware_of
from hpcforge.blueprint.sections.software import Software
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.catalog import Catalog
from hpcforge.cluster.model import Cluster, Node, SystemDisk
from hpcforge.cluster.shards import shards


def unknown_gpus(draft: Draft, catalog: Catalog) -> dict[str, list[str]]:
    """Return workers by group whose chassis takes GPUs, although neither blueprint nor catalog names GPUs for them."""
    groups: dict[str, NodeGroup] = draft.sections["nodes"] or {}
    overrides: dict[str, Override] = draft.sections["overrides"] or {}
    by_group = {}
    for key, group in groups.items():
        server = catalog.servers.get(group.hardware)
        if server is None or "worker" not in group.functions:
            continue
        if server.gpus_max or (server.gpus_max is None and server.gpu_form_factors):
            by_group[key] = [
                name for names, override in alike(key, overrides) for name in names if _unknown(group, override, server)
            ]
    return {key: names for key, names in by_group.items() if names}


def _unknown(group: NodeGroup, override: Override | None, server: Server) -> bool:
    hardware = hardware_of(group, override, server)
    return hardware.gpus is None and "gpus" not in hardware.overridden  # an override to 0 GPUs counts as known


def gpu_findings(draft: Draft, catalog: Catalog) -> Iterator[Finding]:
    """Warn of workers with unknown GPUs: Slurm would have none for jobs."""
    if not draft.intact("parts") or not draft.intact("overrides"):
        return
    yield from _other_counts(draft, catalog)
    for key, names in unknown_gpus(draft, catalog).items():
        if draft.intact("nodes", key) and draft.intact("hardware", draft.sections["nodes"][key].hardware):
            group = draft.sections["nodes"][key]
            most = catalog.servers[group.hardware].gpus_max
            takes = f"{quote(group.hardware)} takes {f'up to {most} ' if most else ''}GPUs"
            message = f"{takes}, and {hostlist.fold(names)} have no `gpus`: Slurm gets none"
            hint = f"add `gpus:` to this group, for example {example(group, catalog)}"
            yield Finding(("nodes", key, "hardware"), message, hint, severity="warning")


def _other_counts(draft: Draft, catalog: Catalog) -> Iterator[Finding]:
    """Warn of groups with fewer GPUs than their model is sold with."""
    for key, group in (draft.sections["nodes"] or {}).items():
        server = catalog.servers.get(group.hardware)
        sold, own = server.gpus if server else None, group.gpus
        if sold and own and own.model == sold.model and own.count < sold.count and draft.intact("nodes", key):
            message = f"{quote(group.hardware)} has {sold.count} x {sold.model}, and the blueprint sets {own.count}"
            hint = "remove `gpus` here; list failed GPUs under `overrides`, with a reason"
            yield Finding(("nodes", key, "gpus", "count"), message, hint, severity="warning")


def example(group: NodeGroup, catalog: Catalog) -> str:
    """Return the GPUs that would fit into a group's chassis, as a blueprint would have them."""
    server = catalog.servers[group.hardware]
    forms = server.gpu_form_factors or ()
    fitting = [name for name, gpu in catalog.gpus.items() if gpu.form_factor in forms]
    model = next(iter(fitting), next(name for name, gpu in catalog.gpus.items() if gpu.vendor == "nvidia"))
    return f"{{model: {model}, count: {server.gpus_max or 8}}}"


def driver_findings(software: Software, cluster: Cluster, nodes: Iterable[Node] | None = None) -> Iterator[Finding]:
    """Warn of nodes that an image is installed on, and whose GPUs get no driver.

    Without `nodes`: the nodes with a `system_disk`, which only the installer uses.
    """
    if nodes is None:
        nodes = [node for node in cluster.nodes if node.system_disk != SystemDisk()]
    with_gpus, brought = [node for node in nodes if node.gpus and not node.gpus.fake], software.preinstalled
    nvidia = f'nvidia: {{driver: "{brought.driver or "VERSION"}", modules: {brought.modules or "open"}}}'
    for vendor, installed, product, line in (
        ("nvidia", cluster.nvidia, "NVIDIA driver", nvidia),
        ("amd", cluster.amd, "firmware for AMD's driver", 'amd: {rocm: "VERSION"}'),
    ):
        of_vendor = [node for node in with_gpus if node.gpus and node.gpus.vendor == vendor]
        names = [node.name for node in of_vendor if installed is None or not installed.on(node)]
        if names and vendor == "nvidia" and brought.driver:
            message = f"{hostlist.fold(names)} get no {product} by an image: `preinstalled` installs nothing"
            hint = f"instead of `driver` and `modules` here write `{line}` under `software`"
            yield Finding(("software", "preinstalled", "driver"), message, hint, "warning", key=True)
        elif names:
            message, hint = f"{hostlist.fold(names)} get no {product} by an image", f"write `{line}` here"
            yield Finding(("software",), message, f"{hint} (docs/software.md)", "warning", key=True)


# MIG instances and shards of a node's group that an override to other GPUs removes.
_Counted = Callable[[NodeGroup, GpusSection, GpusSection | None], int]


def override_findings(draft: Draft, catalog: Catalog) -> Iterator[Finding]:
    """Warn of overrides that leave a node fewer MIG instances or shards than the others of its group."""
    if not all(map(draft.intact, ("nodes", "overrides", "parts", "hardware"))):
        return
    groups: dict[str, NodeGroup] = draft.sections["nodes"] or {}
    overrides: dict[str, Override] = draft.sections["overrides"] or {}
    for key, group in groups.items():
        if (group.mig or group.shards) and group.hardware in catalog.servers:
            for names, override in alike(key, overrides):
                if override and override.gpus:
                    yield from _lost(names[0], key, group, override, catalog)


def _lost(name: str, key: str, group: NodeGroup, override: Override, catalog: Catalog) -> Iterator[Finding]:
    server = catalog.servers[group.hardware]
    usual, own = gpus_of(group, None, server), gpus_of(group, override, server)
    if usual is None:
        return  # mig_findings and shard_findings report it
    kinds: tuple[tuple[str, str, _Counted], ...] = (
        ("mig", "MIG instances", _instances),
        ("shards", "shards", _shards),
    )
    for field, unit, counted in kinds:
        declared, remaining = counted(group, usual, usual), counted(group, usual, own)
        if remaining < declared:
            message = (
                f"{quote(name)} gets {remaining or 'none'} of the {declared} {unit} of a node of {quote(key)}: "
                f"its override says {_describe(own)}, and `{field}` of {quote(key)} is for {_describe(usual)}"
            )
            if own is None or own.model == usual.model:
                hint = "ignore this if the node has no more; jobs that ask for more run on other nodes"
            else:
                hint = f"to have {unit} on it, make it a separate group, with `{field}` for its GPUs"
            yield Finding(("overrides", name, "gpus"), message, hint, "warning", key=True)


def _describe(gpus: GpusSection | None) -> str:
    return f"{gpus.count} x {gpus.model}" if gpus else "no GPUs"


def _instances(group: NodeGroup, usual: GpusSection, gpus: GpusSection | None) -> int:
    """Return the number for a node with these GPUs: 0 for another model than the group's, as in `layout`."""
    if gpus is None or gpus.model != usual.model:
        return 0
    by_gpu: dict[int, int] = {}
    for gpu_set, counts in group.mig.items():
        by_gpu |= dict.fromkeys(gpus_named(gpu_set, gpus.count), sum(counts.values()))
    return sum(many for index, many in by_gpu.items() if index < gpus.count)


def _shards(group: NodeGroup, _: GpusSection, gpus: GpusSection | None) -> int:
    return sum(shards(group.shards, gpus.count)) if gpus else 0
