"""The smoke tests that a blueprint asks for: their programs, read, and what on its nodes keeps one from running."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.diagnostics import Diagnostic, InvalidInput, SourceFile
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.schema import Blueprint
from hpcforge.blueprint.sections.acceptance import findings_of
from hpcforge.blueprint.smoke_tests import SmokeTestSpec, bounds, imported, option_text
from hpcforge.blueprint.transports import NODES, TransportSection
from hpcforge.blueprint.untrusted_files import MAX_YAML, read_inside
from hpcforge.blueprint.validate import Finding
from hpcforge.blueprint.values import minutes
from hpcforge.cluster.launches import ProgramLaunch, RankNeeds, RanksError
from hpcforge.cluster.launches import ranks_per_node as fitting_ranks
from hpcforge.cluster.model import Cluster, ImportedModule, Measure, Node, SmokeTestProgram, Threshold, TransportRule
from hpcforge.cluster.select import worker_words
from hpcforge.launchers import LAUNCHERS


def programs(blueprint: Blueprint) -> dict[str, SmokeTestProgram]:
    """Return the program of each selected smoke test, by name. Raise InvalidInput for a program that cannot be read."""
    if blueprint.acceptance is None:
        return {}
    by_name, wrong = {}, []
    for name in blueprint.acceptance.tests.by_name():
        folder = blueprint.acceptance.tests.folders[name]
        try:
            text = read_inside(folder.path, folder.program.name, MAX_YAML).decode("utf-8")
            imported = {
                module: read_inside(folder.path.parent, _module_path(folder.path, module), MAX_YAML)
                for module in folder.spec.needs.imports
            }
            by_name[name] = program(
                name, folder.spec, text, {module: imported[module].decode("utf-8") for module in imported}
            )
        except (OSError, ValueError) as error:
            reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else getattr(error, "strerror", error)
            wrong.append(Diagnostic("error", f"the program cannot be read: {reason}", SourceFile(str(folder.program))))
    if wrong:
        raise InvalidInput(wrong)
    return by_name


def _module_path(folder: Path, module: str) -> str:
    return str(imported(folder, module).relative_to(folder.parent))


def program(name: str, spec: SmokeTestSpec, text: str, imported: Mapping[str, str] | None = None) -> SmokeTestProgram:
    """Build a smoke test from its folder, its program's text, and the texts of modules beside it that it imports."""
    launches = tuple(
        ProgramLaunch(
            key,
            launch.launcher or spec.launcher,
            launch.ends,
            round(minutes(launch.kill_after) * 60) if launch.kill_after else None,
            launch.ranks_divided_by,
            tuple(launch.environment.items()),
        )
        for key, launch in spec.launches.items()
    )
    ranks = spec.needs.ranks
    return SmokeTestProgram(
        name=name,
        text=text,
        launcher=spec.launcher,
        launches=launches,
        measures=tuple(
            Measure(key, measure.unit, measure.better, measure.format, measure.per, measure.between)
            for key, measure in spec.measures.items()
        ),
        headline=spec.headline,
        lines=tuple(
            Threshold(measure, bound, number)
            for measure, line in spec.thresholds.items()
            for bound, number in bounds(line).items()
        ),
        options=tuple((key, option_text(option.given(option.usual))) for key, option in spec.options.items()),
        pytorch=spec.needs.pytorch
        or any(LAUNCHERS[name].pytorch for name in {launch.launcher for launch in launches} or {spec.launcher}),
        gpus=spec.needs.gpus,
        min_nodes=spec.needs.nodes,
        packages=spec.needs.packages,
        pytorch_at_least=spec.needs.pytorch_at_least,
        imports=tuple(ImportedModule(key, module_text) for key, module_text in (imported or {}).items()),
        modules=tuple(name for name in spec.needs.modules if name not in sys.stdlib_module_names),
        ranks=RankNeeds(ranks.per_node, ranks.multiple_of, ranks.at_most),
        scratch=spec.needs.scratch,
        framework=spec.needs.framework,
        container=spec.needs.container,
        isolates=spec.isolates,
        declared=spec.needs.declared,
        description=spec.description,
        level=spec.level,
        transport=_transport(spec.transport),
        derived=tuple((name, line.derived) for name, line in spec.thresholds.items() if line.derived),
    )


def _transport(section: TransportSection | None) -> TransportRule | None:
    if section is None:
        return None
    nccl = section.nccl
    return TransportRule(
        section.gloo.network if section.gloo else None,
        nccl is not None and nccl.where == "rdma",
        nccl.must if nccl else (),
        nccl.must_not if nccl else (),
    )


def ranks_on_each(cluster: Cluster, program: SmokeTestProgram, nodes: Sequence[Node], *, part: bool = False) -> int:
    """Return how many ranks each of some nodes gets for a test.

    Where the test needs no number, as many as the node with the fewest GPUs has GPUs, at least one; of stand-ins in a
    rehearsal no more than jobs have CPUs. Of a `part` of a node set, one rank a node is enough where GPUs are fake or
    there are none: a second one would use the same cores. Raises RanksError.
    """
    names = {launch.launcher for launch in program.launches} or {program.launcher}
    if all(LAUNCHERS[name].per_node == "one" for name in names):
        return 1
    gpus = min(node.gpus.count if node.gpus else 0 for node in nodes)
    real = gpus > 0 and not any(node.gpus and node.gpus.fake for node in nodes)
    cpus = max(1, min(cluster.job_cpus(node) for node in nodes))
    usual = max(1, gpus) if real or not part else 1
    usual = min(usual, *(node.gpus.most_ranks(cpus) if node.gpus else usual for node in nodes))
    return fitting_ranks(program.ranks, len(nodes), usual, gpus if real else 0)


def why_not(cluster: Cluster, program: SmokeTestProgram, nodes: Sequence[Node]) -> tuple[str, str] | None:
    """Return why a test cannot run on some nodes, and what to do, by what the cluster has; None if it can."""
    if program.container is not None and program.container not in cluster.container_runtimes:
        return f"its ranks run in {program.container}", f"software: {{containers: {{runtimes: [{program.container}]}}}}"
    lacking_it = [node.name for node in nodes if program.framework and not cluster.framework(program.framework, node)]
    if lacking_it:
        reason = f"it needs {program.framework}, and {hostlist.fold(lacking_it)} have none"
        return reason, f"software: {{frameworks: {{{program.framework}: VERSION}}}}, with a build for their release"
    wheels = cluster.pytorch if program.pytorch and cluster.pytorch and cluster.pytorch.wheels else None
    lacking = [name for name in program.modules if wheels and name.lower() not in wheels.modules]
    if lacking:
        modules = ", ".join(sorted(wheels.modules)) if wheels else ""
        return f"no wheel of PyTorch's brings {', '.join(lacking)}", f"the wheels bring {modules}"
    lowest, torch = program.pytorch_at_least, cluster.pytorch
    if lowest and torch and _release(torch.version) < _release(lowest):
        return f"it needs PyTorch {lowest}, and the cluster has {torch.version}", "name a newer one, or remove the test"
    if program.scratch == "shared" and len(nodes) > 1 and not cluster.shared_by([node.name for node in nodes]):
        node_names = hostlist.fold(node.name for node in nodes)
        return f"it needs storage that all of {node_names} mount, for its scratch folder", "add it under `storage`"
    over = program.transport.network if program.transport else None
    off = [node.name for node in nodes if over and node_address(cluster, node, over) is None]
    if off:
        return f"its ranks must use the network {over}, and {hostlist.fold(off)} have no address on it", "name another"
    try:
        ranks_on_each(cluster, program, nodes)
    except RanksError as error:
        return str(error), "name another number of workers"
    return None


def node_address(cluster: Cluster, node: Node, network: str) -> str | None:
    """Return a node's address on a network, `nodes` being that of nodes' own addresses; None if it has none."""
    return node.address if network in (NODES, cluster.network.name) else node.addresses.get(network)


def _release(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version."""
    return tuple(int(part) for part in version.split(".")[:2])


def impossible_tests(blueprint: Blueprint, cluster: Cluster) -> Iterator[Finding]:
    """Yield tests that can never run, now that the racks and hardware of nodes are known."""
    if blueprint.acceptance is None or cluster.acceptance is None:
        return
    known_names = worker_words(cluster.nodes, cluster.slurm.partitions)
    partitions = {partition.name: (partition.nodes, partition.max_time) for partition in cluster.slurm.partitions}
    tests = blueprint.acceptance.tests
    for name, test in tests.by_name().items():
        spec = tests.folders[name].spec
        yield from findings_of(name, test, spec, known_names, frozenset(known_names.everything), partitions)
    for smoke_test in cluster.acceptance.tests:
        loc: Loc = ("acceptance", "tests", smoke_test.name, "nodes")
        reason = why_not(cluster, smoke_test.program, [cluster.by_name[node] for node in smoke_test.nodes])
        if reason is not None:
            yield Finding(loc, f"`{smoke_test.name}` can never run: {reason[0]}", reason[1])
        if separation := cluster.slurm.cut(smoke_test.nodes):
            message = f"`{smoke_test.name}` will not run on all these nodes: {separation}"
            yield Finding(loc, message, "a set of nodes for each", severity="warning")
        without = [node for node in smoke_test.nodes if not smoke_test.program.has_gpus(cluster.by_name[node])]
        if without:
            needed = "real GPUs" if smoke_test.program.gpus == "real" else "GPUs"
            message = f"`{smoke_test.name}` can never run: it needs {needed}, and {hostlist.fold(without)} have none"
            yield Finding(loc, message, "name other workers, or remove the test")
        cut = [node for node in smoke_test.nodes if smoke_test.program.wants_whole_gpus and _cut(cluster.by_name[node])]
        if cut:
            limitation = f"{hostlist.fold(cut)} use MIG, and a process can use only one instance"
            uncut = hostlist.fold(node for node in smoke_test.nodes if node not in cut)
            hint = f"name other workers, for example {uncut}" if uncut else "name other workers, or remove the test"
            yield Finding(loc, f"`{smoke_test.name}` needs whole GPUs: {limitation}", hint)


def _cut(node: Node) -> bool:
    return node.gpus is not None and bool(node.gpus.mig)
