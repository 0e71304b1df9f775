"""The choice of smoke tests and nodes: the whole node set, or its changed nodes with a partner each. Pure.

The same choice is made twice: for the plan, and again when the tests begin, with who is usable and busy then.
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
    """For what the last verdict on a node set, that it passed, stands: nodes that have passed since they changed."""

    nodes: frozenset[str] = frozenset()
    served: bool = True  # False: what jobs need of nodes that run none has changed since
    options: tuple[tuple[str, str], ...] = ()  # with which the test was run


@dataclass(frozen=True)
class SmokeRun:
    """Tests that run on the same nodes."""

    tests: tuple[str, ...]
    nodes: tuple[str, ...]
    span: tuple[str, ...]  # the node set that they are of; the same where it is tested as a whole
    why: Why
    changed: tuple[str, ...] = ()  # the nodes for whose sake; the others are their partners

    @property
    def whole(self) -> bool:
        """True if all of the set is tested, as far as it can be."""
        return self.why not in ("changed", "limited") or not self.untested

    @property
    def partners(self) -> bool:
        """True for nodes that changed and a partner each, where the set has more."""
        return self.why == "changed" and not self.whole

    @property
    def untested(self) -> tuple[str, ...]:
        """Nodes of the set that take no part."""
        tested = frozenset(self.nodes)
        return tuple(node for node in self.span if node not in tested)


@dataclass(frozen=True)
class DeferredTests:
    """Tests that wait: the nodes that changed, or those with which they would be tested, are held by jobs."""

    tests: tuple[str, ...]
    nodes: tuple[str, ...]  # not tested since they changed; none where only a service changed
    held: Mapping[str, str] = field(default_factory=dict)  # node -> whose job

    @property
    def explanation(self) -> str:
        """Return why the tests wait, in a line."""
        by_job: dict[str, list[str]] = {}
        for node, job in self.held.items():
            by_job.setdefault(job, []).append(node)
        holders = "; ".join(f"{job}, holds {fold(nodes)}" for job, nodes in by_job.items())
        reason = f"not tested: {holders or 'no idle node to test it with'}"
        return f"{fold(self.nodes)} {reason}" if self.nodes else reason


@dataclass(frozen=True)
class SmokeRuns:
    """What is tested now, and what is not although it should be."""

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
    """Choose among the tests up to a level. `out` are nodes that no job can use; `busy`: that users' jobs hold, whose.

    `tested` are the tests whose last verdict is that they passed; the others are run on the whole of their sets, and so
    are those that passed with other options than the blueprint has now.
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
    """Choose the tests of a node that is not in service, each with as many idle partners as the test needs.

    One partner at least if the set has one, of the same kind if it can be. A test with too few idle partners waits.
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
    """Nodes to test for those that are due, in the set's order, and the due ones among them.

    One unchanged partner of each kind of node that changed; where a service changed that jobs need, a node of each
    kind. No node is tested alone while the set has others, and never fewer nodes than the test needs: without idle
    partners it waits. All idle nodes of the set where Slurm keeps the chosen ones apart, as blocks do with a few.
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
    """Yield the first node of each of these kinds, as far as there is one."""
    first = {_kind(cluster, node): node for node in reversed(nodes)}
    yield from (first[kind] for kind in kinds if kind in first)


def _kind(cluster: Cluster, node: str) -> tuple[str, Gpus | None]:
    """Nodes of the same kind show the same faults; a set is within one partition anyway."""
    return cluster.by_name[node].hardware, cluster.by_name[node].gpus
