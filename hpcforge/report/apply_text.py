"""The result of an apply or a verify: nodes, verdicts, phases, and the next commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hpcforge.blueprint.hostlist import fold
from hpcforge.cluster.model import Cluster
from hpcforge.plan.admission import Shortfall
from hpcforge.plan.plan import Kept, Plan
from hpcforge.report.text import duration, same_words, table
from hpcforge.run.admit import Admission
from hpcforge.run.result import RunResult
from hpcforge.slurm.down_nodes import DownWorker

_SHOWN_S = 0.05  # what would be 0.0 s says nothing


def nodes_table(plan: Plan, result: RunResult, admission: Admission | None, down: Sequence[DownWorker] = ()) -> str:
    """One row a set of nodes with the same story; the bad ones say why, and what would accept them."""
    nodes: dict[tuple[str, str], list[str]] = {}
    for node, story in _stories(plan, result, admission, down).items():
        nodes.setdefault(story, []).append(node)
    rows = [[fold(names), status, detail] for (status, detail), names in nodes.items()]
    return table(("nodes", "result", ""), rows)


def _stories(
    plan: Plan, result: RunResult, admission: Admission | None, down: Sequence[DownWorker]
) -> dict[str, tuple[str, str]]:
    """Return the result of each node of the plan, with details; each node has its worst result."""
    stories = {node: ("configured" if result.outcomes.get(node) else "unchanged", "") for node in plan.nodes}
    stories |= {leaver.node: ("left", _left(result.stays.get(leaver.node))) for leaver in plan.leaving}
    keys = (
        "it keeps its keys: `secrets rotate BLUEPRINT munge_key` and an apply make them void; its host certificate "
        "ends within 180 days, and ssh on the nodes refuses it from now on"
    )
    worse: list[Mapping[str, tuple[str, str]]] = [
        _out_of_service(admission) if admission else {},
        {worker.node: ("takes no job", worker.sentence) for worker in down},
        _skipped(result),
        {node: ("deferred", f"{why}; apply again later") for node, why in result.deferred().items()},
        {
            node: ("failed", "; ".join((*_by_reason(roles), *(w.sentence for w in down if w.node == node))))
            for node, roles in result.failed().items()
        },
        {node: ("unreachable", why) for node, why in same_words(result.lost).items()},
        {
            node: ("left behind", f"the cluster has forgotten it ({why}), but {keys}")
            for node, why in result.abandoned.items()
        },
    ]
    for told in worse:
        stories |= {node: story for node, story in told.items() if node in stories}
    return stories


def _by_reason(roles: Sequence[tuple[str, str]]) -> list[str]:
    """Return each reason once, after the roles that failed for it."""
    failed: dict[str, list[str]] = {}
    for role, why in roles:
        failed.setdefault(why, []).append(role)
    return [f"{', '.join(names)}: {why}" for why, names in failed.items()]


def _left(stays: Sequence[Kept] | None) -> str:
    """The report of a cleaned node."""
    if stays is None:
        return "nothing of hpcforge's was known there: an earlier run may have cleaned it"
    return "cleaned; what stays there is below" if stays else "cleaned; nothing that hpcforge put there stays"


def _out_of_service(admission: Admission) -> dict[str, tuple[str, str]]:
    found = {
        node: ("drained", f"not by hpcforge, left alone: {state}") if "drain" in state else ("not scheduled", state)
        for node, state in admission.not_scheduled.items()
    }
    short: dict[str, list[Shortfall]] = {}
    for shortfall in admission.shortfalls:
        short.setdefault(shortfall.node, []).append(shortfall)
    for node, lacks in short.items():
        said = "; ".join(
            f"{lack.what} {lack.observed}, declared {lack.declared}"
            + (f" (to fix it: {lack.todo})" if lack.todo else "")
            for lack in lacks
        )
        found[node] = ("drained", f"{said}; to accept it, under overrides:  {lacks[0].override}")
    return found


def _skipped(result: RunResult) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for node, outcomes in result.outcomes.items():
        skipped = [role for role, outcome in outcomes.items() if outcome.status in ("skipped", "interrupted")]
        if skipped:
            first = outcomes[skipped[0]]
            found[node] = first.status, ", ".join(skipped) + (f" ({first.detail})" if first.detail else "")
    return found


def phases_line(phases: Mapping[str, float], total_s: float) -> str:
    """Return the line with the time of each phase, other time, and the total by the wall clock."""
    spans = {**phases, "other": total_s - sum(phases.values())}
    shown = [f"{name} {duration(s)}" for name, s in spans.items() if s >= _SHOWN_S]
    return f"time: {', '.join(shown)}; total {duration(total_s)}\n"


def next_steps(
    cluster: Cluster, verify: str, rehearsal: tuple[str, str] | None, admission: Admission | None = None
) -> str:
    """How to log in, run a job and test again; for a `rehearsal` (commands that log in and take it down) that, too.

    Without an `admission` it is not known which nodes a job could have, and none is offered.
    """
    head = cluster.slurm.controller
    if rehearsal is None:
        login = on_head = f"ssh {cluster.access.user}@{cluster.by_name[head].address}"
    else:
        login = f"{rehearsal[0]} {head}"
        on_head = f"{login} --"
    steps = {"log in": login}
    if admission and not admission.error:
        steps["run a job"] = _a_job(cluster, on_head, admission)
    steps["test again"] = verify
    if rehearsal is not None:
        steps["take down"] = rehearsal[1]
    return "".join(f"{what + ':':<13} {how}\n" for what, how in steps.items())


def _a_job(cluster: Cluster, on_head: str, admission: Admission) -> str:
    """A command that runs a job on all that its partition has in service, or why there is none."""
    person = _somebody(cluster)
    if person is None:
        return "not yet: there is no user; add one to the blueprint and apply:  users: {ada: {uid: 2001}}"
    partition = next(
        (partition for partition in cluster.slurm.partitions if partition.default), cluster.slurm.partitions[0]
    )
    in_service = [node for node in partition.nodes if node not in admission.not_scheduled]
    if not in_service:
        return f"not yet: no node of partition {partition.name} is in service"
    become = f"sudo -iu {person}" if cluster.access.become == "sudo" else f"runuser -u {person} --"
    named = "" if partition.default else f" -p {partition.name}"
    return f"{on_head} {become} srun{named} -N{len(in_service)} hostname"


def _somebody(cluster: Cluster) -> str | None:
    """Who a job can be run as: the tests' own account, else a user of the blueprint, an administrator last."""
    if cluster.acceptance:
        return cluster.acceptance.run_as
    users = [user for user in cluster.users if user.shell != "nologin" and not user.expires]
    users.sort(key=lambda user: (user.name == cluster.access.user, user.admin))
    return users[0].name if users else None
