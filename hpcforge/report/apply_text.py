"""The result of an apply or a verify: nodes, verdicts, phases, and the next commands."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from hpcforge.blueprint.hostlist import fold
from hpcforge.cluster.model import Cluster, SmokeTest
from hpcforge.plan.admission import Shortfall
from hpcforge.plan.plan import Kept, Plan
from hpcforge.plan.test_selection import SmokeRun
from hpcforge.report.text import duration, lines_text, one_line, same_words, table
from hpcforge.report.verification import Report
from hpcforge.run.result import Admission, RunResult, Verified
from hpcforge.slurm.down_nodes import DownWorker
from hpcforge.styles import state
from hpcforge.verify.verdict_records import KeptVerdicts, Recorded
from hpcforge.verify.verdicts import Verdict, assertion_row, summary_line


def nodes_table(plan: Plan, result: RunResult, admission: Admission | None, down: Sequence[DownWorker] = ()) -> str:
    """One row a set of nodes with the same story; the bad ones say why, and what would accept them."""
    nodes: dict[tuple[str, str], list[str]] = {}
    for node, story in _stories(plan, result, admission, down).items():
        nodes.setdefault(story, []).append(node)
    rows = [[fold(names), state(status), detail] for (status, detail), names in nodes.items()]
    return table(("nodes", "result", ""), rows)


def _stories(
    plan: Plan, result: RunResult, admission: Admission | None, down: Sequence[DownWorker]
) -> dict[str, tuple[str, str]]:
    """Return the result of each node of the plan, with details; each node has its worst result."""
    stories = {node: ("configured" if result.outcomes.get(node) else "unchanged", "") for node in plan.nodes}
    stories |= {leaver.node: ("left", _left(result.stays.get(leaver.node))) for leaver in plan.changes.leaving}
    keys = (
        "it keeps its keys: `secrets rotate BLUEPRINT munge_key` and an apply make them void; its host certificate "
        "ends within 180 days, and ssh on the nodes refuses it from now on"
    )
    worse: list[Mapping[str, tuple[str, str]]] = [
        _out_of_service(admission) if admission else {},
        {worker.node: ("takes no job", worker.sentence) for worker in down},
        _skipped(result),
        {node: ("deferred", f"{reason}; apply again later") for node, reason in result.deferred().items()},
        {
            node: ("failed", "; ".join((*_by_reason(roles), *(w.sentence for w in down if w.node == node))))
            for node, roles in result.failed().items()
        },
        {node: ("unreachable", reason) for node, reason in same_words(result.lost).items()},
        {
            node: ("left behind", f"the cluster has forgotten it ({reason}), but {keys}")
            for node, reason in result.abandoned.items()
        },
    ]
    for outcome in worse:
        stories |= {node: story for node, story in outcome.items() if node in stories}
    return stories


def _by_reason(roles: Sequence[tuple[str, str]]) -> list[str]:
    """Return each reason once, after the roles that failed for it."""
    failed: dict[str, list[str]] = {}
    for role, reason in roles:
        failed.setdefault(reason, []).append(role)
    return [f"{', '.join(names)}: {reason}" for reason, names in failed.items()]


def _left(stays: Sequence[Kept] | None) -> str:
    if stays is None:
        return "nothing of hpcforge's is recorded there: an earlier run may have cleaned it"
    return "cleaned; the remains are below" if stays else "cleaned; nothing of hpcforge's stays"


def _out_of_service(admission: Admission) -> dict[str, tuple[str, str]]:
    stories = {
        node: ("drained", f"not by hpcforge, left alone: {state}") if "drain" in state else ("not scheduled", state)
        for node, state in admission.not_scheduled.items()
    }
    short: dict[str, list[Shortfall]] = {}
    for shortfall in admission.shortfalls:
        short.setdefault(shortfall.node, []).append(shortfall)
    for node, lacks in short.items():
        text = "; ".join(
            f"{lack.what} {lack.observed}, declared {lack.declared}"
            + (f" (to fix it: {lack.todo})" if lack.todo else "")
            for lack in lacks
        )
        stories[node] = ("drained", f"{text}; to accept it, under overrides:  {lacks[0].override}")
    return stories


def _skipped(result: RunResult) -> dict[str, tuple[str, str]]:
    stories: dict[str, tuple[str, str]] = {}
    for node, outcomes in result.outcomes.items():
        skipped = [role for role, outcome in outcomes.items() if outcome.status in ("skipped", "interrupted")]
        if skipped:
            first = outcomes[skipped[0]]
            stories[node] = first.status, ", ".join(skipped) + (f" ({first.detail})" if first.detail else "")
    return stories


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
    return "".join(f"{step + ':':<13} {command}\n" for step, command in steps.items())


def _a_job(cluster: Cluster, on_head: str, admission: Admission) -> str:
    """Return a command for a job on all nodes of its partition in service, or why there is none."""
    person = _somebody(cluster)
    if person is None:
        return "not yet: the blueprint has no user; add one and apply:  users: {ada: {uid: 2001}}"
    partition = next(
        (partition for partition in cluster.slurm.partitions if partition.default), cluster.slurm.partitions[0]
    )
    in_service = [node for node in partition.nodes if node not in admission.not_scheduled]
    if not in_service:
        return f"not yet: no node of partition {partition.name} is in service"
    become = f"sudo -iu {person}" if cluster.access.become == "sudo" else f"runuser -u {person} --"
    option = "" if partition.default else f" -p {partition.name}"
    return f"{on_head} {become} srun{option} -N{len(in_service)} hostname"


def _somebody(cluster: Cluster) -> str | None:
    """Who a job can be run as: the tests' own account, else a user of the blueprint, an administrator last."""
    if cluster.acceptance:
        return cluster.acceptance.run_as
    users = [user for user in cluster.users if user.shell != "nologin" and not user.expires]
    users.sort(key=lambda user: (user.name == cluster.access.user, user.admin))
    return users[0].name if users else None


# Verdicts for people: what was tested just now and what was not, and what was found before.


_ROWS = 8  # of what is not as expected in a verdict


def verdicts_text(tests: Verified, again: str, away: Collection[str], now_s: float) -> str:
    """Write a line for each verdict, as `summary_line` does, with the next command under one that did not pass.

    Then list the tests that did not run now, and their last verdicts. `again` is the command for the waiting tests.
    """
    lines: list[str] = []
    for number, result in enumerate(tests.reached):
        lines += _verdict(result.verdict, again)
        following = tests.reached[number + 1 : number + 2]
        if not result.run.whole and not (following and following[0].run == result.run):
            lines.append(f"  {_of_a_part(result.run, tests.recorded, now_s)}")
    for node, why in tests.fell_out.items():
        lines += [f"{node} fell out while it was tested: {why}", f"  next: scontrol show node {node}"]
    for waiting in tests.waiting:
        lines += [
            f"{', '.join(waiting.tests)}  waiting  {waiting.explanation}",
            f"  next: {again}   (when that has ended)",
        ]
    now = [result.verdict for result in tests.reached]
    before = [record for record in tests.recorded.kept if record.last not in now]
    lines += _before(before, {*away}, now_s)
    if tests.note:
        lines.append(tests.note)
    return lines_text(lines)


def baseline_lines(report: Report, asked: tuple[str, str] | None) -> Iterator[str]:
    """Yield what was saved, or how each number compares with the baseline."""
    if asked is None:
        return
    action, name = asked
    if action == "save":
        saved = [verdict.test for verdict in report.verdicts if verdict.passed]
        others = [verdict.test for verdict in report.verdicts if not verdict.passed]
        yield f"baseline {name}: saved {', '.join(saved) or 'nothing'}" + (
            f"; not saved, since they did not pass: {', '.join(others)}" if others else ""
        )
        return
    for verdict in report.verdicts:
        if verdict.differs_from_baseline:
            yield one_line(f"baseline {name}: {verdict.test} ran on other software: {verdict.differs_from_baseline}")
        lines = [line for line in verdict.lines if line.source.endswith(f"baseline {name}")]
        values = {(part.measure, part.part): part.value for part in verdict.parts}
        for line in lines[:_ROWS]:
            value = values.get((line.measure, line.part or ""))
            if value is not None and line.limit:
                where = f" of {line.part}" if line.part else ""
                unit = verdict.measures[line.measure].unit
                number = f"{value:.4g} {unit}, {value / line.limit:.0%} of {line.limit:.4g}"
                yield one_line(f"baseline {name}: {verdict.test}: {line.measure}{where} is {number}")
        if not lines:
            yield f"baseline {name} has no numbers of {verdict.test}"


def _verdict(verdict: Verdict, command: str) -> Iterator[str]:
    yield summary_line(verdict)
    untrue = [assertion for assertion in verdict.assertions if not assertion.holds] if not verdict.passed else []
    yield from (f"  {assertion_row(assertion)}" for assertion in untrue[:_ROWS])
    if len(untrue) > _ROWS:
        yield f"  and {len(untrue) - _ROWS} more; `hpcforge verify --json` has all"
    parts = verdict.isolation.named if verdict.isolation else ()
    yield from (f"  {each.part}: {each.detail}; next: {each.next_command}" for each in parts[:_ROWS])
    usual = [line for line in verdict.lines if "usual rate" in line.source] if verdict.passed else []
    yield from (f"  line: {each.measure} at least {each.limit:.4g}, {each.source}" for each in usual[:_ROWS])
    observations = verdict.isolation.observations if verdict.isolation else ()
    yield from (f"  warning: {each}" for each in observations[:_ROWS])
    if verdict.isolation and verdict.isolation.not_loaded:
        yield f"  not loaded: {'; '.join(verdict.isolation.not_loaded[:_ROWS])}"
    if verdict.next_command:
        yield f"  next: {verdict.next_command}" + (f"; {command}   (when that has ended)" if verdict.waits_for else "")


def _of_a_part(run: SmokeRun, recorded: Recorded, now_s: float) -> str:
    """For whose sake a run was, and what of its node set it leaves out."""
    if run.why == "limited":
        return f"not tested now: {fold(run.untested)}, not among the selected nodes"
    partners = [node for node in run.nodes if node not in run.changed]
    reason = "another node that jobs need changed: a node of each kind was tested"
    if run.changed:
        reason = f"{fold(run.changed)} changed" + (f", tested with {fold(partners)}" if partners else "")
    before = recorded.of(SmokeTest(run.tests[0], run.span, 0))
    if not run.untested or before is None:
        return reason
    late = [node for node in run.untested if node not in before.stands_for] if before.stands_for else []
    rest = [node for node in run.untested if node not in late]
    ago = duration(max(0.0, now_s - before.time_s))
    texts = [f"not tested now: {fold(rest)}, unchanged since last tested (the whole {ago} ago)"] if rest else []
    texts += [f"not tested since a change: {fold(late)}"] if late else []
    return "; ".join([reason, *texts])


def _before(kept: Sequence[KeptVerdicts], away: Collection[str], now_s: float) -> Iterator[str]:
    """Verdicts of before by their time, the oldest first."""
    lines_by_time: dict[tuple[float, str], list[str]] = {}
    for record in kept:
        lines_by_time.setdefault((record.time_s, _since(record, away)), []).append(_line(record.verdict, away))
        if record.part is not None:
            lines_by_time.setdefault((record.part_s, "of some of its nodes"), []).append(_line(record.part, away))
    for (time_s, about), lines in sorted(lines_by_time.items()):
        yield f"verdicts of {duration(max(0.0, now_s - time_s))} ago ({about}):"
        yield from lines


def _line(verdict: Verdict, away: Collection[str]) -> str:
    counts_on_it = not {*away}.isdisjoint(verdict.nodes)
    return summary_line(verdict) + ("  (of before: not of the cluster as it is)" if counts_on_it else "")


def _since(record: KeptVerdicts, away: Collection[str]) -> str:
    """Describe the changes to nodes since a verdict on a whole set."""
    missing = [node for node in record.verdict.nodes if node in away]
    if missing:
        return f"{fold(missing)} was there then, and is away now"
    if record.changed:
        return f"{fold(record.changed)} changed since and has not been tested"
    if not record.served:
        return "another node that jobs need changed since, and was not tested"
    if record.part is not None:
        return f"{fold(record.part.nodes)} tested again since"
    return "nothing changed since"
