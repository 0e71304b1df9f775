"""The acceptance record of a cluster: the blueprint's requirements, the nodes, the verdicts and every exception.

Computed from what nodes and head report. No test runs for it, and nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

from hpcforge.blueprint.hostlist import fold
from hpcforge.blueprint.sections.nodes import Override
from hpcforge.cluster.model import Cluster, Node, SmokeTest, Threshold
from hpcforge.host.commit import Commit
from hpcforge.plan.diff import SLURM_NODES
from hpcforge.plan.observation import Observation
from hpcforge.plan.plan import Plan
from hpcforge.report.text import nodes_by_reason, plural
from hpcforge.run.records.history import Past
from hpcforge.slurm.nodes import drained, parse_slurm_nodes
from hpcforge.verify.measurements import numbers, shown
from hpcforge.verify.verdict_records import KeptVerdicts, Recorded

SCHEMA_VERSION = 1
Judgement = Literal["accepted", "accepted with exceptions", "not accepted"]

_NEVER_TESTED = "never tested"
_NOT_COMPARED = "not compared"
_NO_HOST_KEY = "host key not known"


@dataclass(frozen=True)
class AcceptanceBasis:
    """What a report is made of. Times are seconds since 1970, UTC."""

    cluster: Cluster
    blueprint: str  # the file
    overrides: Mapping[str, Override]
    commit: Commit | None
    hpcforge: str  # version
    who: str
    made_s: float
    observed: Mapping[str, Observation]
    head: Observation
    plan: Plan
    recorded: Recorded
    runs: tuple[Past, ...] = ()
    warnings: tuple[str, ...] = ()  # of the blueprint's rules
    not_real: tuple[str, ...] = ()  # what a rehearsal has stand-ins for


@dataclass(frozen=True)
class AcceptedNode:
    """A node as declared and as observed. `differs` are roles that an apply would change."""

    name: str
    hardware: str
    declared: str
    observed: str | None  # None: the node did not answer
    system: str | None  # distribution and kernel
    slurm: str | None
    run: int | None  # the last run that the node has seen
    differs: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()  # tests
    compared: bool = True  # with the blueprint; without it `differs` says nothing


@dataclass(frozen=True)
class AcceptedTest:
    """A test on one of its node sets. `numbers`: of each measure by node, "" where one rank reports for all."""

    test: str
    nodes: tuple[str, ...]
    status: str
    passed: tuple[str, ...] = ()  # nodes for which the verdict holds
    tested_s: float | None = None
    ranks: int = 0
    headline: str = ""
    detail: str = ""
    build: str = ""
    seconds: float = 0.0
    options: Mapping[str, str] = field(default_factory=dict)
    thresholds: tuple[str, ...] = ()
    numbers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class AcceptanceException:
    """Something that is not as the blueprint asks, or that it asks for with a reason. `stops`: no acceptance."""

    kind: str
    nodes: tuple[str, ...]
    what: str
    why: str
    stops: bool = False


@dataclass(frozen=True)
class AcceptanceReport:
    """The report. Times are seconds since 1970, UTC."""

    cluster: str
    domain: str
    blueprint: str
    commit: str | None
    dirty: bool  # the files differ from the commit
    hpcforge: str
    made_s: float
    made_by: str
    judgement: Judgement
    sentence: str
    nodes: tuple[AcceptedNode, ...]
    tests: tuple[AcceptedTest, ...]
    exceptions: tuple[AcceptanceException, ...]
    drift: Mapping[str, Mapping[str, tuple[str, ...]]]  # role -> reason -> nodes
    versions: tuple[tuple[str, str, str], ...]  # what, required, found
    runs: tuple[Past, ...]


def acceptance_report(basis: AcceptanceBasis) -> AcceptanceReport:
    """Return the report."""
    tests = tuple(_tests(basis))
    exceptions = tuple(_exceptions(basis, tests))
    judgement, sentence = _judged(tests, exceptions)
    drift: dict[str, dict[str, list[str]]] = {}
    for step in basis.plan.changes.steps:
        for node, change in step.changes.items():
            drift.setdefault(step.role, {}).setdefault(change.reason, []).append(node)
    return AcceptanceReport(
        cluster=basis.cluster.name,
        domain=basis.cluster.domain,
        blueprint=basis.blueprint,
        commit=basis.commit.id if basis.commit else None,
        dirty=basis.commit is not None and basis.commit.dirty,
        hpcforge=basis.hpcforge,
        made_s=basis.made_s,
        made_by=basis.who,
        judgement=judgement,
        sentence=sentence,
        nodes=tuple(_nodes(basis, tests)),
        tests=tests,
        exceptions=exceptions,
        drift={role: {why: tuple(nodes) for why, nodes in reasons.items()} for role, reasons in drift.items()},
        versions=tuple(_versions(basis)),
        runs=basis.runs,
    )


def acceptance_json(report: AcceptanceReport) -> dict[str, object]:
    """Return the same for programs."""
    return {"schema_version": SCHEMA_VERSION, **asdict(report)}


def _judged(tests: Sequence[AcceptedTest], exceptions: Sequence[AcceptanceException]) -> tuple[Judgement, str]:
    stops = [found for found in exceptions if found.stops]
    if stops or not tests:
        kinds = dict.fromkeys(found.kind for found in stops)
        counts = [f"{kind} ({sum(_number(found) for found in stops if found.kind == kind):,})" for kind in kinds]
        return "not accepted", "Not accepted: " + (", ".join(counts) or "the blueprint names no test")
    if exceptions:
        return "accepted with exceptions", f"All tests passed, with {plural(len(exceptions), 'exception')}"
    return "accepted", "All tests passed, and every node is as the blueprint asks"


def _number(found: AcceptanceException) -> int:
    """How many nodes, or one test."""
    return len(found.nodes) if found.kind in (_NOT_COMPARED, _NO_HOST_KEY) else 1


def _tests(basis: AcceptanceBasis) -> Iterator[AcceptedTest]:
    for test in basis.cluster.acceptance.tests if basis.cluster.acceptance else ():
        record = basis.recorded.of(test)
        yield AcceptedTest(test.name, test.nodes, "never run") if record is None else _tested(test, record)


def _tested(test: SmokeTest, record: KeptVerdicts) -> AcceptedTest:
    span, verdict = {*test.nodes}, record.last
    if record.part is not None and not record.verdict.passed and not span <= {*record.stands_for}:
        verdict = record.verdict  # a part that passed says nothing about the rest
    other = verdict.passed and tuple(verdict.options.items()) != test.options
    measures = {measure.name: measure for measure in test.program.measures}
    found = numbers(test.program, record.verdict.measurements)
    if record.part is not None:  # newer numbers of some nodes
        for name, by_node in numbers(test.program, record.part.measurements).items():
            found = {**found, name: {**found.get(name, {}), **by_node}}
    return AcceptedTest(
        test=test.name,
        nodes=test.nodes,
        status="passed with other options" if other else verdict.status.replace("_", " "),
        passed=() if other else tuple(node for node in record.stands_for if node in span),
        tested_s=record.last_s,
        ranks=verdict.ranks,
        headline=verdict.headline,
        detail=verdict.detail,
        build=verdict.torch_build or "",
        seconds=verdict.seconds,
        options=verdict.options,
        thresholds=tuple(map(_threshold, test.program.lines)),
        numbers={
            f"{name} ({measures[name].unit})" if measures[name].unit not in ("1", "B") else name: {
                node: shown(measures[name], value) for node, value in by_node.items()
            }
            for name, by_node in found.items()
        },
    )


def _threshold(line: Threshold) -> str:
    bound, _, of = line.bound.partition("_of_")
    return f"{line.measure} {bound.replace('_', ' ')} {line.number:g}{f' of the {of}' if of else ''}"


def _nodes(basis: AcceptanceBasis, tests: Sequence[AcceptedTest]) -> Iterator[AcceptedNode]:
    slurm = parse_slurm_nodes(basis.head.answers.get(SLURM_NODES, ""))
    away = {**basis.plan.state.unreachable, **basis.plan.state.refused}
    passed: dict[str, dict[str, None]] = {}
    for test in tests:
        for name in test.passed:
            passed.setdefault(name, {})[test.test] = None
    differs: dict[str, list[str]] = {}
    for step in basis.plan.changes.steps:
        for name in step.changes:
            differs.setdefault(name, []).append(step.role)
    for node in basis.cluster.nodes:
        seen = basis.observed[node.name]
        run = (seen.receipt or {}).get("run")
        yield AcceptedNode(
            name=node.name,
            hardware=node.hardware,
            declared=_size(node.cpus, node.memory_mib, node.gpus.count if node.gpus else 0),
            observed=_observed(node, seen) if seen.unreachable is None and seen.facts else None,
            system=" ".join(str(seen.facts.get(key, "")) for key in ("os_id", "os_release", "kernel")).strip() or None,
            slurm=slurm[node.name][0].lower() if node.name in slurm else None,
            run=run if isinstance(run, int) else None,
            differs=tuple(differs.get(node.name, ())),
            passed=tuple(passed.get(node.name, ())),
            compared=node.name not in away,
        )


def _observed(node: Node, seen: Observation) -> str:
    told = seen.facts.get("nvml") or seen.facts.get("amdgpu")
    gpus = seen.facts.get("gpus", {})
    counted = len(told["gpus"]) if told else sum(int(count) for count in gpus.values())
    size = _size(int(seen.facts.get("cpus", 0)), int(seen.facts.get("memory_kib", 0)) // 1024, counted)
    models = dict.fromkeys(gpu["model"] for gpu in told["gpus"] if gpu["model"]) if told else ()
    fake = " (stand-ins)" if node.gpus and node.gpus.fake and counted else ""
    return size + fake + (f": {', '.join(models)}" if models else "")


def _size(cpus: int, memory_mib: int, gpus: int) -> str:
    parts = [plural(cpus, "CPU")] * bool(cpus) + [f"{memory_mib / 1024:.4g} GiB"] * bool(memory_mib)
    return ", ".join([*parts, *([plural(gpus, "GPU")] if gpus else [])]) or "not declared"


def _exceptions(basis: AcceptanceBasis, tests: Sequence[AcceptedTest]) -> Iterator[AcceptanceException]:
    """Yield what keeps the cluster from being accepted, then what was left out or overridden, with the reason."""
    plan = basis.plan
    for test in tests:
        if test.status != "passed":
            yield AcceptanceException("test not passed", test.nodes, test.test, test.detail or test.status, True)
    yield from _not_compared(basis)
    for short in plan.state.shortfalls:
        what = f"{short.what} {short.observed}, declared {short.declared}"
        yield AcceptanceException("less than declared", (short.node,), what, short.todo or short.override, True)
    yield from _of_tests(basis, tests)
    for name, override in basis.overrides.items():
        given = override.model_dump(exclude_none=True, exclude={"reason"}, exclude_defaults=True)
        what = ", ".join(f"{key} {value}" for key, value in given.items())
        yield AcceptanceException("override", (name,), what, override.reason)
    for name, (state, reason) in parse_slurm_nodes(basis.head.answers.get(SLURM_NODES, "")).items():
        if drained(state):
            yield AcceptanceException("drained in Slurm", (name,), state.lower(), reason)
    if plan.pending:
        why = "hpcforge plan shows each change"
        yield AcceptanceException("drift", plan.touched, f"{plural(len(plan.changes.steps), 'role')} would change", why)
    yield from (
        AcceptanceException("warning of a rule", (), text, "accepted by the blueprint") for text in basis.warnings
    )
    yield from (AcceptanceException("rehearsal", (), text, "not the real machines") for text in basis.not_real)


def _not_compared(basis: AcceptanceBasis) -> Iterator[AcceptanceException]:
    """Yield nodes that were left out, those of one reason together."""
    away = {**basis.plan.state.unreachable, **basis.plan.state.refused}
    without_key = {name for name in away if basis.observed[name].reason == "no-host-key"}
    for why, nodes in nodes_by_reason(away).items():
        for kind, some in ((_NO_HOST_KEY, without_key), (_NOT_COMPARED, away.keys() - without_key)):
            if named := tuple(name for name in nodes if name in some):
                yield AcceptanceException(kind, named, "left out of this report", why, True)


def _of_tests(basis: AcceptanceBasis, tests: Sequence[AcceptedTest]) -> Iterator[AcceptanceException]:
    """Yield the nodes of a set for which a passed test does not stand, and options that are not the usual ones."""
    by_set = {
        test: basis.recorded.of(test) for test in (basis.cluster.acceptance.tests if basis.cluster.acceptance else ())
    }
    for test, record in zip(tests, by_set.values(), strict=True):
        if record is None or test.status != "passed":
            continue
        reasons: dict[str, list[str]] = {}
        tested = {*record.verdict.nodes, *(record.part.nodes if record.part else ())}
        passed = {*test.passed}
        for node in test.nodes:
            if node not in passed:
                unsure = "changed since it was tested" if node in tested else _NEVER_TESTED
                reasons.setdefault(record.verdict.left_out.get(node) or unsure, []).append(node)
        for why, nodes in reasons.items():
            yield AcceptanceException("left out of a test", tuple(nodes), test.test, why, why == _NEVER_TESTED)
        if test.options:
            said = ", ".join(f"{name} {value or 'none'}" for name, value in test.options.items())
            yield AcceptanceException(
                "options of a test", test.nodes, f"{test.test}: {said}", "chosen by the blueprint"
            )


def _versions(basis: AcceptanceBasis) -> Iterator[tuple[str, str, str]]:
    cluster, seen = basis.cluster, basis.observed
    facts = {name: node.facts for name, node in seen.items() if node.facts}

    def found(values: Mapping[str, object]) -> str:
        nodes: dict[str, list[str]] = {}
        for name, value in values.items():
            if value:
                nodes.setdefault(str(value), []).append(name)
        return "; ".join(f"{value} on {fold(names)}" for value, names in nodes.items()) or "not known"

    systems = {name: f"{own.get('os_id')} {own.get('os_release')}" for name, own in facts.items()}
    yield "operating system", f"{cluster.os.name} {cluster.os.release}", found(systems)
    yield "kernel", "-", found({name: own.get("kernel") for name, own in facts.items()})
    yield "Slurm", f"{cluster.os.slurm}, of the distribution", "not read"
    told = {name: own.get("nvml") or own.get("amdgpu") or {} for name, own in facts.items()}
    if cluster.driver or any(told.values()):
        yield "GPU driver", cluster.driver or "-", found({name: own.get("driver") for name, own in told.items()})
    if cluster.pytorch:
        builds = dict.fromkeys(kept.last.torch_build for kept in basis.recorded.kept if kept.last.torch_build)
        used = "; ".join(f"{build} in the tests" for build in builds) or "not known"
        yield "PyTorch", f"{cluster.pytorch.version} ({cluster.pytorch.build})", used
    receipts = {name: (node.receipt or {}).get("hpcforge") for name, node in seen.items()}
    yield "hpcforge", basis.hpcforge, found(receipts)
