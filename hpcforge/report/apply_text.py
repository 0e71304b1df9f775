"""What an apply or a verify came to: nodes, verdicts, phases, and what to type next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hpcforge.blueprint.hostlist import fold
from hpcforge.cluster.model import Cluster
from hpcforge.plan.plan import Plan
from hpcforge.report.text import clean, duration, table
from hpcforge.run.admit import Admission
from hpcforge.run.result import Result
from hpcforge.verify.verdicts import Verdict, summary_line


def nodes_table(plan: Plan, result: Result, admission: Admission | None) -> str:
    """One row a set of nodes with the same story; the bad ones say why, and what would accept them."""
    failed = result.failed()
    stories: dict[tuple[str, str], list[str]] = {}
    for node in (*plan.nodes, *(one.node for one in plan.leaving)):
        stories.setdefault(_story(plan, node, result, failed, admission), []).append(node)
    rows = [[fold(tuple(nodes)), status, detail] for (status, detail), nodes in stories.items()]
    return table(("nodes", "result", ""), rows)


def _story(
    plan: Plan, node: str, result: Result, failed: Mapping[str, list[tuple[str, str]]], admission: Admission | None
) -> tuple[str, str]:
    if node in result.abandoned:
        keys = "it keeps its keys: `secrets rotate BLUEPRINT munge_key` and an apply make them void"
        return "left behind", f"the cluster has forgotten it ({result.abandoned[node]}), but {keys}"
    if node in result.lost:
        return "unreachable", result.lost[node]
    if node in failed:
        return "failed", "; ".join(f"{role}: {reason}" for role, reason in failed[node])
    if node in result.deferred():
        return "deferred", f"{result.deferred()[node]}; apply again later"
    skipped = [(r, o) for r, o in result.outcomes.get(node, {}).items() if o.status in ("skipped", "interrupted")]
    if skipped:
        _role, outcome = skipped[0]
        return outcome.status, f"{', '.join(r for r, _ in skipped)}" + (
            f" ({outcome.detail})" if outcome.detail else ""
        )
    short = [one for one in admission.shortfalls if one.node == node] if admission else []
    if short:
        said = "; ".join(f"{one.what} {one.observed}, declared {one.declared}" for one in short)
        return "drained", f"{said}; to accept it, under overrides:  {short[0].override}"
    if admission and node in admission.not_scheduled:
        state = admission.not_scheduled[node]
        return ("drained", f"not by hpcforge, left alone: {state}") if "drain" in state else ("not scheduled", state)
    if any(node == one.node for one in plan.leaving):
        return "left", "nothing of hpcforge is on it any more"
    return ("configured", "") if result.outcomes.get(node) else ("unchanged", "")


def verdicts_table(verdicts: Sequence[Verdict], age_s: float | None, note: str) -> str:
    """A line a smoke test, as `summary_line` puts it, with what to type next under one that did not pass."""
    lines = [] if age_s is None else [f"verdicts of {duration(age_s)} ago (nothing changed since):"]
    for verdict in verdicts:
        lines.append(clean(summary_line(verdict)))
        if verdict.next_command:
            lines.append(f"  next: {clean(verdict.next_command)}")
    if note:
        lines.append(note)
    return "".join(f"{line}\n" for line in lines)


def phases_line(phases: Mapping[str, float]) -> str:
    """Where the time went."""
    total = sum(phases.values())
    return f"time: {', '.join(f'{name} {duration(s)}' for name, s in phases.items())}; in all {duration(total)}\n"


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
