"""The smoke tests that a blueprint asks for: their programs, read, and what on its nodes keeps one from running."""

from __future__ import annotations

from collections.abc import Iterator

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.acceptance_checks import findings_of
from hpcforge.blueprint.diagnostics import Diagnostic, InvalidInput, SourceFile
from hpcforge.blueprint.schema import Blueprint
from hpcforge.blueprint.smoke_tests import SmokeTestSpec, bounds, option_text
from hpcforge.blueprint.untrusted_files import MAX_YAML, read_inside
from hpcforge.blueprint.validate import Finding
from hpcforge.cluster.model import Cluster, Measure, Node, SmokeTestProgram, Threshold
from hpcforge.cluster.select import worker_words


def programs(blueprint: Blueprint) -> dict[str, SmokeTestProgram]:
    """What each smoke test that is asked for runs, by name. Raises InvalidInput for a program that cannot be read."""
    if blueprint.acceptance is None:
        return {}
    found, wrong = {}, []
    for name in blueprint.acceptance.tests.by_name():
        folder = blueprint.acceptance.tests.folders[name]
        try:
            text = read_inside(folder.path, folder.program.name, MAX_YAML).decode("utf-8")
            found[name] = program(name, folder.spec, text)
        except (OSError, ValueError) as error:
            why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else getattr(error, "strerror", error)
            wrong.append(Diagnostic("error", f"the program cannot be read: {why}", SourceFile(str(folder.program))))
    if wrong:
        raise InvalidInput(wrong)
    return found


def program(name: str, spec: SmokeTestSpec, text: str) -> SmokeTestProgram:
    """What a smoke test's folder says, and its program's text."""
    return SmokeTestProgram(
        name=name,
        text=text,
        launcher=spec.launcher,
        measures=tuple(
            Measure(each, measure.unit, measure.better, measure.format) for each, measure in spec.measures.items()
        ),
        headline=spec.headline,
        lines=tuple(
            Threshold(measure, bound, number)
            for measure, line in spec.thresholds.items()
            for bound, number in bounds(line).items()
        ),
        options=tuple((each, option_text(option.given(option.usual))) for each, option in spec.options.items()),
        pytorch=spec.launcher == "torchrun" or spec.needs.pytorch,
        gpus=spec.needs.gpus,
        min_nodes=spec.needs.nodes,
        packages=spec.needs.packages,
    )


def impossible_tests(blueprint: Blueprint, cluster: Cluster) -> Iterator[Finding]:
    """Yield tests that can never run, now that it is known which node stands in which rack, and what it has."""
    if blueprint.acceptance is None or cluster.acceptance is None:
        return
    known = worker_words(cluster.nodes, cluster.slurm.partitions)
    partitions = {partition.name: (partition.nodes, partition.max_time) for partition in cluster.slurm.partitions}
    tests = blueprint.acceptance.tests
    for name, test in tests.by_name().items():
        spec = tests.folders[name].spec
        yield from findings_of(name, test, spec, known, frozenset(known.everything), partitions)
    for smoke_test in cluster.acceptance.tests:
        without = [node for node in smoke_test.nodes if not smoke_test.program.has_gpus(cluster.by_name[node])]
        if without:
            needed = "real GPUs" if smoke_test.program.gpus == "real" else "GPUs"
            message = f"`{smoke_test.name}` can never run: it needs {needed}, and {hostlist.fold(without)} have none"
            where = ("acceptance", "tests", smoke_test.name, "nodes")
            yield Finding(where, message, "name other workers, or remove the test")
        cut = [node for node in smoke_test.nodes if smoke_test.program.wants_whole_gpus and _cut(cluster.by_name[node])]
        if cut:
            there = f"{hostlist.fold(cut)} use MIG, and a process can use only one instance"
            where = ("acceptance", "tests", smoke_test.name, "nodes")
            yield Finding(
                where, f"`{smoke_test.name}` needs whole GPUs: {there}", f"name other workers, for example all!{cut[0]}"
            )


def _cut(node: Node) -> bool:
    return node.gpus is not None and bool(node.gpus.mig)
