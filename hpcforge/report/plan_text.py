"""A plan as text: per step the nodes, folded, and their changes."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from hpcforge.blueprint.hostlist import fold
from hpcforge.kinds import TABLE
from hpcforge.kinds.files import File
from hpcforge.kinds.resource import ActualState
from hpcforge.plan.clocks import ClockOff
from hpcforge.plan.desired import DISRUPTIONS
from hpcforge.plan.plan import Change, Install, Kept, Leaving, Obstacle, Plan, Removal, Step
from hpcforge.plan.resources import TYPES
from hpcforge.plan.rollout_order import Order
from hpcforge.report.text import by_reason, duration, lines_text, one_line, plural
from hpcforge.slurm.jobs import WaitingJob, asked_for
from hpcforge.styles import Style, joined, styled

# What stays on nodes of what was taken away, in words.


_WORDS = {
    ("directory", True): "directories",
    ("kernel arguments", True): "kernel arguments",
    ("work", False): "work of",
    ("work", True): "work of",
}


def stays_lines(stays: Iterable[Kept]) -> Iterator[str]:
    """Write a line for those of a kind that stay for the same reason."""
    names: dict[tuple[str, str], dict[str, None]] = {}
    for remnant in stays:
        names.setdefault((remnant.kind, remnant.why), {}).update(dict.fromkeys(remnant.names))
    for (kind, reason), several in names.items():
        many = len(several) > 1
        noun = "" if kind == "path" else _WORDS.get((kind, many), f"{kind}s" if many else kind) + " "
        yield f"{noun}{' '.join(several)}: {reason}"


def stays_text(stays: Mapping[str, Iterable[Kept]]) -> str:
    """Write the resources that stay on each node, equal nodes folded together; nothing for nodes without any."""
    nodes: dict[tuple[str, ...], list[str]] = {}
    for node, remnants in stays.items():
        nodes.setdefault(tuple(stays_lines(remnants)), []).append(node)
    lines = (line for body, names in nodes.items() if body for line in (f"stays on {fold(names)}:", *_indented(body)))
    return lines_text(lines)


def _indented(body: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in body)


_SIGNS: dict[str, Style] = {"+": "add", "-": "remove", "~": "change", "!": "bad", "?": "warn"}
_LONGEST_TEXT = 256 * 1024  # characters: the node program sends no longer one
# Pairs of equal lines, each of which difflib may look at several times: 12 million took half a minute, these 0.2 s.
_MOST_PAIRS = 200_000
_POPULAR_FROM = 200  # lines: in a text of so many difflib passes over lines that are more than a hundredth of it


def plan_text(plan: Plan, *, new_files: bool = False, longest: int | None = None) -> str:
    """Write the whole plan. `new_files` shows the content of new files, too.

    `longest`: the number of lines shown of a diff; None: all.
    """
    lines: list[str] = []
    if plan.state.offline:
        lines += ["No node was contacted: this is the plan for empty nodes.", ""]
    lines += installs_text(plan.changes.installs)
    if plan.changes.first_contact:
        lines += [_head("bootstrap", fold(plan.changes.first_contact)), _entry("+ python3 (missing)"), ""]
    for leaver in plan.changes.leaving:
        lines += [_head("leaving", leaver.node), *_leaving(leaver, plan), ""]
    for nodes, body in _alike({node: _removals(found) for node, found in plan.changes.removals.items()}).items():
        lines += [_head("no longer wanted", nodes), *body, ""]
    renamed: dict[str, list[str]] = {}
    for old in plan.changes.kept_aside:
        renamed.setdefault(old.node, []).append(_entry(f"~ {old.role}: {old.name}: {old.why}"))
    for nodes, body in _alike(renamed).items():
        lines += [_head("take over", nodes, "(renamed to a name beside it, with the time)"), *body, ""]
    for step in plan.changes.steps:
        bodies = _bodies(step, plan, new_files, longest)
        for nodes, body in _alike(bodies).items():
            lines += [_head(step.role, nodes, body[0]), *body[1:], ""]
    if plan.changes.drains:
        lines.append(_head("scheduling", plan.policy.controller or ""))
        lines += [_entry(f"~ {drain.action} {drain.node}: {drain.reason}") for drain in plan.changes.drains]
        lines.append("")
    lines += _smoke(plan)
    lines += _notes(plan)
    lines.append(plan_summary(plan))
    return lines_text(lines)


def _bodies(step: Step, plan: Plan, new_files: bool, longest: int | None) -> dict[str, tuple[str, ...]]:
    """Return the lines of each node's change. Equal ones are one object: nodes may be thousands."""
    shown: dict[int, tuple[str, ...]] = {}  # by id: equal nodes share one change
    distinct: dict[tuple[str, ...], tuple[str, ...]] = {}
    bodies = {}
    for node, change in step.changes.items():
        if id(change) not in shown:
            body = (_why(change.reason, change.disruption), *_body(change, plan, new_files, longest))
            shown[id(change)] = distinct.setdefault(body, body)
        bodies[node] = shown[id(change)]
    return bodies


def _head(subject: str, nodes: str, *more: str) -> str:
    """Return the line above changes: a role or a step, its nodes, and the reason."""
    return joined((styled(subject, "title"), nodes, *more), "  ")


@lru_cache(maxsize=4096)  # most nodes have the same
def _entry(text: str) -> str:
    """Return the line of a change, in the style of the sign that it begins with."""
    return "  " + styled(text, _SIGNS[text[0]]) if text[:1] in _SIGNS else f"  {text}"


def installs_text(installs: Sequence[Install]) -> list[str]:
    """Lines about the nodes that get an operating system, and the disk that each may write."""
    bodies = {
        install.node: [
            _entry(f"! switched off at once, then started from the network: {install.system}, image {install.image}"),
            _entry(f"! writes {disks_text(install.wipes, install.drives)}"),
            *(_entry(f"! {one_line(warning)}") for warning in install.warnings),
            _entry("~ then its roles: `plan --offline` shows them"),
        ]
        for install in installs
    }
    return [line for nodes, body in _alike(bodies).items() for line in (_head("install", nodes), *body, "")]


def disks_text(wipes: Sequence[str], drives: int) -> str:
    """Which disks an installation writes; `wipes` has the serial numbers of those with data."""
    if len(wipes) > 1:
        return f"the disks with serial numbers {', '.join(wipes)}: THIS DESTROYS THEIR DATA"
    if wipes:
        beside = "; and a blank one of its size (RAID 1)" if drives > 1 else ""
        return f"the disk with serial number {wipes[0]}: THIS DESTROYS ITS DATA{beside}"
    if drives > 1:
        return f"{drives} blank disks of one size (RAID 1); nothing is written where fewer are blank"
    return "a blank disk; nothing is written where none is blank"


def _smoke(plan: Plan) -> Iterator[str]:
    """Write the tests on each node set, and the nodes of their sets that are not tested."""
    for run in plan.policy.smoke.runs:
        tests = ", ".join(run.tests)
        if run.whole:
            yield from (_head("smoke tests", fold(run.nodes), f"({run.why})"), _entry(f"~ {tests} on all of it"), "")
            continue
        partners = [node for node in run.nodes if node not in run.changed]
        reason = f"{fold(run.changed)} changed" if run.changed else "another node that jobs need changed"
        together = f", with {fold(partners)}" if partners and run.changed else ""
        rest = f"; not on {fold(run.untested)}" if run.untested else ""
        yield from (_head("smoke tests", fold(run.nodes), f"({reason})"), _entry(f"~ {tests}{together}{rest}"), "")
    for wait in plan.policy.smoke.waiting:
        jobs = ", ".join(f"{node}: {job}" for node, job in wait.held.items())
        nodes = fold(wait.nodes) or "jobs run"
        yield from (_head("smoke tests wait", nodes), _entry(f"~ {', '.join(wait.tests)}: {jobs}"), "")
    if (
        plan.touched
        and plan.policy.scheduler
        and (plan.policy.verify == "none" or not (plan.policy.smoke.runs or plan.changes.felt))
    ):
        reason = "--verify none" if plan.policy.verify == "none" else "jobs feel nothing of this"
        yield from (_head("smoke tests", "none", f"({reason})"), "")


def _alike(bodies: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Bodies by folded node set: nodes whose change reads the same are shown once."""
    by_body: dict[tuple[str, ...], list[str]] = {}
    for node, body in bodies.items():
        by_body.setdefault(tuple(body), []).append(node)
    return {fold(tuple(nodes)): list(body) for body, nodes in by_body.items()}


@lru_cache
def _why(reason: str, disruption: str) -> str:
    """Reason and disruption of a step, for its first line."""
    does = (", disrupts: ", styled(disruption, "warn")) if disruption != "none" else ()
    return joined((f"({reason}", *does, ")"))


def _removals(removals: Sequence[Removal]) -> list[str]:
    """Write removals role by role, then the resources that stay."""
    return [*_goes(removals), *_stays(removals)]


def _goes(removals: Sequence[Removal]) -> list[str]:
    lines = []
    for removal in removals:
        owns, stays = removal.owns, {(kept.kind, name) for kept in removal.stays for name in kept.names}
        if owns.on_remove == "keep" and not removal.wanted:
            lines.append(_entry(f"- {removal.role}: everything stays, and hpcforge watches it no longer"))
            continue
        lines += [_entry(f"- {removal.role}: unit {name}: stop") for name in owns.units if ("unit", name) not in stays]
        removed: dict[bool, list[str | None]] = {False: [], True: []}  # by whether it comes before packages
        for kind in reversed(TABLE):
            names = [name for name in owns.resources.get(kind.name, ()) if (kind.singular, name) not in stays]
            removed[kind.early] += map(TYPES[kind.name].removal_line, names)
        trees = [f"{path}, with its content" for path in owns.trees]
        lines += [_entry(f"- {removal.role}: {text}") for text in (*removed[False], *trees, *removed[True]) if text]
        if owns.packages:
            lines.append(_entry(f"- {removal.role}: packages {' '.join(owns.packages)}"))
    return lines


def _stays(removals: Sequence[Removal]) -> list[str]:
    return [f"  = stays: {line}" for line in stays_lines(kept for removal in removals for kept in removal.stays)]


def _leaving(leaver: Leaving, plan: Plan) -> list[str]:
    if reason := leaver.kept_for(plan.state.jobs.get(leaver.node, ())):
        return [_entry(f"! stays for now: {reason}")]
    if leaver.unreachable is not None and leaver.node not in plan.state.asked_for:
        return [
            _entry(
                f"! unreachable ({leaver.unreachable}): the cluster forgets it, but it keeps its keys and certificate"
            )
        ]
    if leaver.unknown is not None:
        return [_entry(f"! {leaver.unknown}")]
    jobs, asking = plan.state.jobs.get(leaver.node, ()), plan.state.asked_for.get(leaver.node, ())
    if asking:
        return [_entry(f"! stays for now: {asked_for(leaver.node, asking)}")]
    drained = [_entry(f"~ drain{_waiting(jobs, plan)}")] if leaver.worker else []
    return [
        *drained,
        *_goes(leaver.removals),
        _entry("- all state of hpcforge there"),
        *_stays(leaver.removals),
    ]


def _waiting(jobs: Sequence[str], plan: Plan) -> str:
    if not jobs:
        return ""
    longest = duration(plan.policy.rollout.busy_wait_s)
    return f"; jobs run there ({', '.join(jobs)}): waited for up to {longest}, never killed"


def _body(change: Change, plan: Plan, new_files: bool, longest: int | None) -> Iterator[str]:
    if change.packages:
        yield _entry(f"+ packages {' '.join(change.packages)}")
    for package in change.removes:
        yield _entry(f"- package {one_line(package.name)} (removed by {one_line(', '.join(package.by))})")
    if change.unforeseen and not plan.state.offline:
        else_ = "else " if change.removes else ""
        names = " ".join(change.unforeseen)
        cause = "its lists lack a package, or it cannot resolve a dependency"
        yield _entry(f"? what {else_}apt removes for {names} is not known yet: {cause}; nothing else may go")
    yield from (_entry(f"~ {path}: renamed to a name beside it") for path in change.renames)
    for resource_change in change.resources:
        if isinstance(resource_change.resource, File):
            lines = [*_file(resource_change.resource, resource_change.found, plan.changes.texts, new_files)]
            yield from lines[:longest]
            if longest is not None and len(lines) > longest:
                yield f"      ... and {plural(len(lines) - longest, 'more line')}; all of them: in a pipe or a file"
        else:
            yield _entry(resource_change.resource.line(resource_change.found))
    for unit in change.units:
        yield _entry(f"~ unit {unit.name}: {', '.join(unit.actions)} ({unit.reason})")
    if change.opaque:
        opaque = change.opaque.opaque
        watched = "" if change.checks else "; no checks: drift inside it is not watched"
        used = ", ".join(f"{entry.name} {entry.version}" for entry in opaque.collections)
        with_ = f" with {used}" if used else ""
        yield _entry(f"! run {opaque.engine} code {opaque.digest[:12]}{with_} ({change.opaque.reason}{watched})")
    for name, detail in change.failed_checks:
        yield _entry(f"! check failed: {name}: {detail}")
    if change.reboot:
        causes = ", ".join("due since an earlier run" if cause == "due" else cause for cause in change.reboot)
        yield _entry(f"! restart of the node, before its checks ({causes})")
    if change.reason == "to be noted":
        yield _entry("~ already as desired; only the node's record is updated")


def _file(file: File, actual: ActualState, texts: Mapping[str, str], new_files: bool) -> Iterator[str]:
    owned = f"{file.mode} {file.owner}:{file.group}"
    holds = "  (secret)" if file.secret else f"  (holds {', '.join(file.holds)})" if file.holds else ""
    if not actual["exists"]:
        yield _entry(f"+ file {file.path}  {owned}{holds}")
        if not new_files:
            return
    elif file.same_content(actual):
        yield _entry(f"~ file {file.path}  {actual['mode']} {actual['owner']}:{actual['group']} -> {owned}")
        return
    else:
        yield _entry(f"~ file {file.path}  {owned}{holds}")
    yield from (f"      secret {name} changed" for name in actual.get("secrets", ()))
    if file.secret and actual["exists"]:
        yield "      (another one is there, and is replaced)"
    if file.text is not None:
        text = actual.get("text")
        if actual["exists"] and text is None:
            yield "      (the present content is not text, too long to show, or held a secret)"
            return
        yield from map(diff_line, file_diff(text or "", file.shown(texts[file.text])))


def diff_line(line: str) -> str:
    """Return a line of a unified diff, indented, in the style of its sign."""
    style = "aside" if line.startswith(("--- ", "+++ ", "@@ ")) else _SIGNS.get(line[:1])
    return "      " + (styled(line, style) if style else line)


def file_diff(old: str, new: str) -> Iterator[str]:
    """Yield a unified diff of what a node says that a file has, in bounded time; else a line that says why not."""
    before, after = old.splitlines(), new.splitlines()
    if len(old) > _LONGEST_TEXT or _pairs(before, after) > _MOST_PAIRS:
        yield f"({len(before)} lines on the node, {len(after)} wanted: too long, or too many alike, to be compared)"
        return
    yield from difflib.unified_diff(before, after, "on the node", "wanted", lineterm="", n=2)


def _pairs(before: Sequence[str], after: Sequence[str]) -> int:
    counts = Counter(after)
    most = len(after) // 100 + 1 if len(after) >= _POPULAR_FROM else len(after)
    return sum(counts[line] for line in before if counts[line] <= most)


def _notes(plan: Plan) -> Iterator[str]:
    for shortfall in plan.state.shortfalls:
        short = f"{shortfall.what} {shortfall.observed}, declared {shortfall.declared}"
        yield styled(f"{shortfall.node} falls short", "warn") + f": {short}; it will be drained."
        if shortfall.todo:
            yield f"  to fix it: {shortfall.todo}"
        yield f"  to accept it, add to overrides:  {shortfall.override}"
    for nodes, count, reason in by_reason(plan.state.unreachable):
        are = "is" if count == 1 else "are"
        yield styled(f"{nodes} {are} unreachable and left out", "warn") + f": {reason}"
    if plan.policy.weights and any(
        step.role == plan.policy.scheduler and plan.policy.controller in step.changes for step in plan.changes.steps
    ):
        weights = ", ".join(plan.policy.weights)
        yield f"{weights}: chosen by hpcforge for the declared shares and priorities; see docs/operations.md"
    yield from (f"not as planned: {worker.sentence}" for worker in plan.state.down)
    for clock in plan.state.clocks:
        yield from _clock(clock)
    yield from _obstacles(plan.state.obstacles)
    order, hubs = Order(plan), (plan.policy.controller, plan.policy.via)
    for node in filter(order.has_to_be_empty, plan.touched):
        yield f"{node} is drained first{_waiting(plan.state.jobs.get(node, ()), plan)}"
    yield from map(_too_large, plan.state.too_large)
    if plan.restarts:
        longest = duration(plan.policy.rollout.reboot_wait_s)
        yield f"{fold(plan.restarts)}: restarted, and waited for up to {longest} each"
        yield from (f"{hub} restarts alone: nothing else is at work meanwhile" for hub in plan.restarts if hub in hubs)
    yield from _order(order)


def _too_large(job: WaitingJob) -> str:
    partitions = " and ".join(job.partitions)
    return f"job {job.number} of {job.user} asks for {job.at_least} nodes of {partitions}: it waits for more nodes"


def _clock(clock: ClockOff) -> Iterator[str]:
    if clock.refused:
        packages = "packages to be fetched: their lists and certificates are not valid at that time"
        purpose = packages if clock.stops_fetching else "Slurm's daemons to know each other"
        yield styled(f"{clock.node} is left out", "warn") + f": {clock.said}, too far for {purpose}"
        yield f"  to continue, have its time service set it, or run there: {clock.command}; then apply again"
    elif clock.far:
        yield f"{clock.node}: {clock.said}; it is set first, and roles that need a right clock wait for it"
    else:
        yield f"{clock.node}: {clock.said}"


def _obstacles(obstacles: Sequence[Obstacle]) -> Iterator[str]:
    """Write the obstacles, and the nodes that get no other change because of them."""
    nodes: dict[str, list[str]] = {}
    for obstacle in obstacles:
        lines = nodes.setdefault(obstacle.node, [])
        lines.append(_entry(f"! {obstacle.role}: {obstacle.said}"))
        lines += [f"      run there: {command}" for command in obstacle.commands]
    for names, body in _alike(nodes).items():
        yield f"{names}: left out, and nothing is changed there until this is resolved:"
        yield from body


def _order(order: Order) -> Iterator[str]:
    """How the nodes in service follow each other, where not all begin at once."""
    rollout = order.plan.policy.rollout
    first = [node for group in order.groups for node in order.canaries(group)]
    if first:
        yield f"first {fold(first)}, through to the checks; the others of {_its(first)} only if that goes well"
    if rollout.at_most is not None and len(order.limited) > rollout.at_most:
        yield f"at most {rollout.at_most} workers at a time"
    if rollout.stop_after_failures is not None and len(order.held) > rollout.stop_after_failures:
        yield f"no further node is begun after {rollout.stop_after_failures} have failed"


def _its(nodes: Sequence[str]) -> str:
    return "its group" if len(nodes) == 1 else "their groups"


def plan_summary(plan: Plan) -> str:
    """Write the last line: the number of changed nodes, and the disruption."""
    touched = set(plan.touched)
    out = {*plan.state.unreachable, *plan.state.refused, *(install.node for install in plan.changes.installs)}
    untouched = [node for node in plan.nodes if node not in touched and node not in out]
    left_out = [f"left out: {fold(tuple(plan.state.refused))}"] * bool(plan.state.refused)
    down = [f"not as planned: {fold(worker.node for worker in plan.state.down)}"] * bool(plan.state.down)
    if not plan.pending:
        nothing = f"Nothing to do on {plural(len(untouched), 'node')}"
        text = "; ".join([nothing, *left_out, *down])
        return styled(f"{text}.", "good") if untouched or left_out else "No node answers."
    parts = []
    if plan.changes.installs:
        names = [install.node for install in plan.changes.installs]
        parts.append(f"{plural(len(names), 'node')} to install: {fold(names)}")
    if plan.touched:
        parts.append(f"{plural(len(plan.touched), 'node')} to change: {fold(plan.touched)}")
    if plan.changes.leaving:
        names = [leaver.node for leaver in plan.changes.leaving]
        parts.append(f"{plural(len(names), 'node')} to leave: {fold(names)}")
    if untouched:
        parts.append(f"unchanged: {fold(tuple(untouched))}")
    parts += [*left_out, *down]
    if plan.changes.drains:
        parts.append(f"{plural(len(plan.changes.drains), 'scheduling change')}")
    worst_of = {node: plan.changes.disruption(node) for node in plan.touched}
    for kind in reversed(DISRUPTIONS[1:]):
        nodes = [node for node, does in worst_of.items() if does == kind]
        if nodes:
            parts.append(f"{kind}: {fold(nodes)}")
    return styled("; ".join(parts) + ".", "title")
