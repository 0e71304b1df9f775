"""What an apply or a verify came to: nodes, verdicts, phases, and what to type next."""

from __future__ import annotations

from collections.abc import Mapping

from hpcforge.blueprint.hostlist import fold
from hpcforge.cluster.model import Cluster
from hpcforge.plan.admission import Shortfall
from hpcforge.plan.plan import Plan
from hpcforge.report.text import duration, table
from hpcforge.run.admit import Admission
from hpcforge.run.result import Result

_SHOWN_S = 0.05  # what would be 0.0 s says nothing


def nodes_table(plan: Plan, result: Result, admission: Admission | None) -> str:
    """One row a set of nodes with the same story; the bad ones say why, and what would accept them."""
    nodes: dict[tuple[str, str], list[str]] = {}
    for node, story in _stories(plan, result, admission).items():
        nodes.setdefault(story, []).append(node)
    rows = [[fold(names), status, detail] for (status, detail), names in nodes.items()]
    return table(("nodes", "result", ""), rows)


def _stories(plan: Plan, result: Result, admission: Admission | None) -> dict[str, tuple[str, str]]:
    """What became of each node of the plan, and more of it; the worst that is to be said of one is said."""
    stories = {node: ("configured" if result.outcomes.get(node) else "unchanged", "") for node in plan.nodes}
    stories |= {one.node: ("left", "nothing of hpcforge is on it any more") for one in plan.leaving}
    keys = (
        "it keeps its keys: `secrets rotate BLUEPRINT munge_key` and an apply make them void; its host certificate "
        "ends within 180 days, and ssh on the nodes refuses it from now on"
    )
    worse: list[Mapping[str, tuple[str, str]]] = [
        _out_of_service(admission) if admission else {},
        _skipped(result),
        {node: ("deferred", f"{why}; apply again later") for node, why in result.deferred().items()},
        {node: ("failed", "; ".join(map(": ".join, roles))) for node, roles in result.failed().items()},
        {node: ("unreachable", why) for node, why in result.lost.items()},
        {
            node: ("left behind", f"the cluster has forgotten it ({why}), but {keys}")
            for node, why in result.abandoned.items()
        },
    ]
    for told in worse:
        stories |= {node: story for node, story in told.items() if node in stories}
    return stories


def _out_of_service(admission: Admission) -> dict[str, tuple[str, str]]:
    found = {
        node: ("drained", f"not by hpcforge, left alone: {state}") if "drain" in state else ("not scheduled", state)
        for node, state in admission.not_scheduled.items()
    }
    short: dict[str, list[Shortfall]] = {}
    for one in admission.shortfalls:
        short.setdefault(one.node, []).append(one)
    for node, lacks in short.items():
        said = "; ".join(f"{one.what} {one.observed}, declared {one.declared}" for one in lacks)
        found[node] = ("drained", f"{said}; to accept it, under overrides:  {lacks[0].override}")
    return found


def _skipped(result: Result) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for node, outcomes in result.outcomes.items():
        skipped = [role for role, outcome in outcomes.items() if outcome.status in ("skipped", "interrupted")]
        if skipped:
            first = outcomes[skipped[0]]
            found[node] = first.status, ", ".join(skipped) + (f" ({first.detail})" if first.detail else "")
    return found


def phases_line(phases: Mapping[str, float], total_s: float) -> str:
    """Where the time went: phases, what lies between them, and all of it, as a clock beside it shows."""
    spans = {**phases, "between": total_s - sum(phases.values())}
    shown = [f"{name} {duration(s)}" for name, s in spans.items() if s >= _SHOWN_S]
    return f"time: {', '.join(shown)}; in all {duration(total_s)}\n"


def next_steps(cluster: Cluster, verify: str, rehearsal: tuple[str, str] | None) -> str:
    """How to log in, test again, and, for a `rehearsal` (commands that log in and take it down), take it down."""
    head = cluster.slurm.controller
    if rehearsal is None:
        return f"log in:       ssh {cluster.access.user}@{cluster.by_name[head].address}\ntest again:   {verify}\n"
    ssh, down = rehearsal
    run_as = cluster.acceptance.run_as if cluster.acceptance else cluster.access.user
    return (
        f"log in:       {ssh} {head}\n"
        f"run a job:    {ssh} {head} -- sudo -iu {run_as} srun -N{len(cluster.workers)} hostname\n"
        f"test again:   {verify}\n"
        f"take down:    {down}\n"
    )
