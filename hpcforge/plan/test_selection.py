"""The choice of smoke tests and nodes: the whole node set, or its changed nodes with a partner each. Pure.

The choice is made twice: for the plan, and again when the tests begin, with the usable and busy nodes of that time.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from hpcforge.blueprint.hostlist import fold
from hpcforge.blueprint.smoke_tests import LEVELS, Level
from hpcforge.cluster.model import Cluster, Gpus, SmokeTest

Verify = Literal["touched", "all", "none"]
VERIFY: tuple[Verify, ...] = get_args(Verify)
Why = Literal["asked for", "not passed yet", "other options", "changed", "limited"]


@dataclass(frozen=True)
class PassedNodes:
    """The scope of a passed verdict on a node set: nodes that have passed since their last change."""

    nodes: frozenset[str] = frozenset()
    served: bool = True  # False: a service for jobs, on nodes without jobs, has changed since
    options: tuple[tuple[str, str], ...] = ()  # the options of that test


@dataclass(frozen=True)
class SmokeRun:
    """Tests that run on the same nodes."""

    tests: tuple[str, ...]
    nodes: tuple[str, ...]
    span: tuple[str, ...]  # their node set; equal to `nodes` if the whole set is tested
    why: Why
    changed: tuple[str, ...] = ()  # the nodes that caused the run; the others are their partners

    @property
    def whole(self) -> bool:
        """Whether the whole set is tested, as far as possible."""
        return self.why not in ("changed", "limited") or not self.untested

    @property
    def partners(self) -> bool:
        """Whether only changed nodes with a partner each are tested, and the set has more."""
        return self.why == "changed" and not self.whole

    @property
    def untested(self) -> tuple[str, ...]:
        """Nodes of the set that are not tested."""
        tested = frozenset(self.nodes)
        return tuple(node for node in self.span if node not in tested)


@dataclass(frozen=True)
class DeferredTests:
    """Tests that wait: jobs hold the changed nodes or their possible partners."""

    tests: tuple[str, ...]
    nodes: tuple[str, ...]  # changed and not tested since; none if only a service changed
    held: Mapping[str, str] = field(default_factory=dict)  # node -> the job's owner

    @property
    def explanation(self) -> str:
        """The reason for the wait, in a line."""
        by_job: dict[str, list[str]] = {}
        for node, job in self.held.items():
            by_job.setdefault(job, []).append(node)
        holders = "; ".join(f"{job}, holds {fold(nodes)}" for job, nodes in by_job.items())
        reason = f"not tested: {holders or 'no idle node to test it with'}"
        return f"{fold(self.nodes)} {reason}" if self.nodes else reason


@dataclass(frozen=True)
class SmokeRuns:
    """The tests that run now, and the tests that are due but wait."""

    runs: tuple[SmokeRun, ...] = ()
    waiting: tuple[DeferredTests, ...] = ()


def smoke_runs(
    cluster: Cluster,
    tested: Mapping[SmokeTest, PassedNodes],
    verify: Verify,
    out: Container[str],
    busy: Mapping[str, str],
    level: Level = "smoke",
) -> SmokeRuns:
    """Choose among the tests up to a level. `out`: nodes that no job can use; `busy`: nodes -> owner of a job there.

    `tested` are the tests whose last verdict is a pass. The others run on their whole sets, as do tests that passed
    with other options than the blueprint's present ones.
    """
    tests = up_to(cluster, level) if verify != "none" else ()
    runs: dict[tuple[tuple[str, ...], tuple[str, ...], Why, tuple[str, ...]], list[str]] = {}
    waits: dict[tuple[str, ...], list[str]] = {}
    holders: dict[tuple[str, ...], Mapping[str, str]] = {}
    for test in tests:
        passed = tested.get(test)
        if verify == "all" or passed is None or passed.options != test.options:
            reason: Why = "asked for" if verify == "all" else "other options" if passed else "not passed yet"
            runs.setdefault((test.nodes, test.nodes, reason, ()), []).append(test.name)
            continue
        usable = [node for node in test.nodes if node not in out]
        due = [node for node in usable if node not in passed.nodes]
        if not due and (passed.served or not usable):
            continue
        at_least = test.program.min_nodes
        nodes, changed = _touched(cluster, usable, due, busy, at_least, with_service=not passed.served)
        if nodes:
            runs.setdefault((nodes, test.nodes, "changed", changed), []).append(test.name)
        covered = {*changed}
        late = tuple(node for node in due if node not in covered)
        if late or not nodes:
            waits.setdefault(late, []).append(test.name)
            holders[late] = _holders(late, busy) or _holders(usable, busy)
    return SmokeRuns(
        tuple(SmokeRun(tuple(names), *which) for which, names in runs.items()),
        tuple(DeferredTests(tuple(names), late, holders[late]) for late, names in waits.items()),
    )


def up_to(cluster: Cluster, level: Level) -> tuple[SmokeTest, ...]:
    """Return the blueprint's tests up to a level."""
    tests = cluster.acceptance.tests if cluster.acceptance else ()
    return tuple(test for test in tests if LEVELS.index(test.program.level) <= LEVELS.index(level))


def gate_runs(
    cluster: Cluster, node: str, out: Container[str], busy: Mapping[str, str], level: Level = "smoke"
) -> SmokeRuns:
    """Choose the tests of a node that is not in service, each with the number of idle partners that the test needs.

    At least one partner if the set has one, if possible of the same kind. A test with too few idle partners waits.
    """
    runs: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    waits: list[DeferredTests] = []
    for test in up_to(cluster, level):
        if node not in test.nodes:
            continue
        usable = [name for name in test.nodes if name == node or name not in out]
        nodes, _ = _touched(cluster, usable, [node], busy, test.program.min_nodes, with_service=False)
        if nodes:
            runs.setdefault((nodes, test.nodes), []).append(test.name)
        else:
            waits.append(DeferredTests((test.name,), (node,), _holders(usable, busy)))
    chosen = (SmokeRun(tuple(names), nodes, span, "changed", (node,)) for (nodes, span), names in runs.items())
    return SmokeRuns(tuple(chosen), tuple(waits))


def _holders(nodes: Iterable[str], busy: Mapping[str, str]) -> dict[str, str]:
    return {node: busy[node] for node in nodes if node in busy}


def _touched(
    cluster: Cluster,
    usable: Sequence[str],
    due: Sequence[str],
    busy: Container[str],
    at_least: int,
    *,
    with_service: bool,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the nodes to test for the due ones, in the set's order, and the due ones among them.

    Each kind of changed node gets one unchanged partner. If a service changed that jobs need, each kind gets a node. No
    node is tested alone while the set has others, and never fewer nodes than the test needs: without idle partners it
    waits. If Slurm keeps the chosen nodes apart, as blocks do with a few, all idle nodes of the set are tested.
    """
    changed, unchanged = [node for node in due if node not in busy], {*usable} - {*due}
    idle = [node for node in usable if node not in busy and node in unchanged]
    near = cluster.slurm.block(changed[0]) if changed else ()
    idle.sort(key=lambda node: node not in near)
    chosen = [*changed, *_one_each(cluster, idle, {_kind(cluster, node) for node in changed})]
    if with_service:
        chosen += _one_each(cluster, idle, {_kind(cluster, n) for n in usable} - {_kind(cluster, n) for n in chosen})
    needed = max(at_least, min(2, len(usable)))
    if chosen and len(chosen) < needed:
        selected, kind = {*chosen}, _kind(cluster, chosen[0])
        others = [node for node in idle if node not in selected]
        chosen += sorted(others, key=lambda node: _kind(cluster, node) != kind)[: needed - len(chosen)]
        if len(chosen) < needed:
            return (), ()
    selected = {*chosen}
    if cluster.slurm.cut(chosen):
        selected = {*changed, *idle}
    return tuple(node for node in usable if node in selected), tuple(changed)


def _one_each(cluster: Cluster, nodes: Sequence[str], kinds: Collection[tuple[str, Gpus | None]]) -> Iterator[str]:
    """Yield the first node of each of these kinds, if there is one."""
    first = {_kind(cluster, node): node for node in reversed(nodes)}
    yield from (first[kind] for kind in kinds if kind in first)


def _kind(cluster: Cluster, node: str) -> tuple[str, Gpus | None]:
    """Return the kind of a node. Nodes of one kind have the same faults; a set is within one partition anyway."""
    return cluster.by_name[node].hardware, cluster.by_name[node].gpus
