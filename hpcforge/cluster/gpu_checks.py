"""Nodes whose GPUs the blueprint does not name, and nodes whose GPUs would have no driver. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hpcforge.blueprint import hostlist
from hpcforge.blueprint import schema as s
from hpcforge.blueprint.diagnostics import quote
from hpcforge.blueprint.hardware import Server
from hpcforge.blueprint.overrides import alike, hardware_of
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.catalog import Catalog
from hpcforge.cluster.model import Cluster, Node, SystemDisk


def unknown_gpus(draft: Draft, catalog: Catalog) -> dict[str, list[str]]:
    """Workers by group whose chassis takes GPUs, and of which neither blueprint nor catalog says which they have."""
    groups: dict[str, s.NodeGroup] = draft.sections["nodes"] or {}
    overrides: dict[str, s.Override] = draft.sections["overrides"] or {}
    found = {}
    for key, group in groups.items():
        server = catalog.servers.get(group.hardware)
        if server is None or "worker" not in group.functions:
            continue
        if server.gpus_max or (server.gpus_max is None and server.gpu_form_factors):
            found[key] = [
                name for names, override in alike(key, overrides) for name in names if _unknown(group, override, server)
            ]
    return {key: names for key, names in found.items() if names}


def _unknown(group: s.NodeGroup, override: s.Override | None, server: Server) -> bool:
    hardware = hardware_of(group, override, server)
    return hardware.gpus is None and "gpus" not in hardware.overridden  # an override to 0 GPUs is known


def gpu_findings(draft: Draft, catalog: Catalog) -> Iterator[Finding]:
    """Warn of workers whose GPUs are not known: Slurm would have none of them to give."""
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
            message = f"{quote(group.hardware)} has {sold.count} x {sold.model}, and this says {own.count}"
            hint = "remove `gpus` here; where some are out, say so under `overrides`, with a reason"
            yield Finding(("nodes", key, "gpus", "count"), message, hint, severity="warning")


def example(group: s.NodeGroup, catalog: Catalog) -> str:
    """The GPUs that would fit into a group's chassis, as a blueprint would have them."""
    server = catalog.servers[group.hardware]
    forms = server.gpu_form_factors or ()
    fitting = [name for name, gpu in catalog.gpus.items() if gpu.form_factor in forms]
    model = next(iter(fitting), next(name for name, gpu in catalog.gpus.items() if gpu.vendor == "nvidia"))
    return f"{{model: {model}, count: {server.gpus_max or 8}}}"


def driver_findings(software: s.Software, cluster: Cluster, nodes: Iterable[Node] | None = None) -> Iterator[Finding]:
    """Warn of nodes that hpcforge installs from an image, and whose GPUs get no driver.

    Without `nodes`: those with a `system_disk`, which is for the installer alone.
    """
    if nodes is None:
        nodes = [node for node in cluster.nodes if node.system_disk != SystemDisk()]
    known, brought = [node for node in nodes if node.gpus and not node.gpus.fake], software.preinstalled
    nvidia = f'nvidia: {{driver: "{brought.driver or "VERSION"}", modules: {brought.modules or "open"}}}'
    for vendor, installed, product, line in (
        ("nvidia", cluster.nvidia, "NVIDIA driver", nvidia),
        ("amd", cluster.amd, "firmware for AMD's driver", 'amd: {rocm: "VERSION"}'),
    ):
        of_vendor = [node for node in known if node.gpus and node.gpus.vendor == vendor]
        names = [node.name for node in of_vendor if installed is None or not installed.on(node)]
        if names and vendor == "nvidia" and brought.driver:
            message = f"{hostlist.fold(names)} get no {product} by an image: `preinstalled` installs nothing"
            hint = f"instead of `driver` and `modules` here write `{line}` under `software`"
            yield Finding(("software", "preinstalled", "driver"), message, hint, "warning", key=True)
        elif names:
            message, hint = f"{hostlist.fold(names)} get no {product} by an image", f"write `{line}` here"
            yield Finding(("software",), message, f"{hint} (docs/software.md)", "warning", key=True)
