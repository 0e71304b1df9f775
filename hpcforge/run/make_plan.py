"""The common part of `plan` and `apply`: observe the selected nodes, and compare them with the desired state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpcforge import __version__
from hpcforge.atomic import write_atomically
from hpcforge.blueprint.reader import find, mark_of
from hpcforge.blueprint.untrusted_files import read_named
from hpcforge.command_hint import command_line
from hpcforge.engines import Engines
from hpcforge.engines.tasks import Engine
from hpcforge.errors import UsageError
from hpcforge.host.commit import Commit, commit_of, descends
from hpcforge.plan.desired import Desired
from hpcforge.plan.diff import SLURM_NODES, diff
from hpcforge.plan.observation import Observation, taken_back
from hpcforge.plan.plan import Obstacle, Plan
from hpcforge.plan.plan_file import dump_plan, load_plan
from hpcforge.plan.roster import KnownMachine, Roster, gone_keys, renamed, without
from hpcforge.plan.secrets import PLAN_KEY
from hpcforge.run import down_workers, leftover
from hpcforge.run.preflight import commit_warning, refuse_older
from hpcforge.run.records.history import Copy
from hpcforge.run.site import Goal, Site, add_leaving, revoking
from hpcforge.run.smoke_tests import planned
from hpcforge.run.survey import Survey, survey_nodes
from hpcforge.slurm.nodes import not_scheduled, parse_slurm_nodes
from hpcforge.verify.verdict_records import VERDICTS_PATH, Recorded, load


def compare(
    site: Site, engines: Engines, engine: Engine, goal: Goal, say: Callable[[str], None]
) -> tuple[Survey, Plan]:
    """Ask the nodes and compare their answers. `engine` is the engines, or the lease around them.

    The plan has all that a bare node gets for nodes that are being installed.

    Raises:
        OlderError: a newer hpcforge has been at work here.
        UsageError: a node has got another name.
    """

    def look(goal: Goal) -> Survey:
        machines = _inventory_machines(site)
        survey = survey_nodes(
            engine,
            site.cluster,
            goal,
            lambda nodes: add_leaving(site, engines, nodes),
            say,
            machines,
            kept_as=site.kept_as,
        )
        refuse_older(__version__, survey.roster)
        return survey

    survey = look(goal)
    roster = without(survey.roster, survey.strangers)
    _refuse_renamed(site, roster, goal.nodes)
    with_revoked = revoking(site, goal, _keys_to_revoke(site, roster))
    if with_revoked is not goal:
        survey = look(with_revoked)
    for name, observation in survey.observed.items():
        for text in observation.warnings:
            say(f"{name}: {text}")
    return survey, _plan(site, engine, survey)


def _plan(site: Site, engine: Engine, survey: Survey) -> Plan:
    """Return the plan by these answers, with the workers that take no job and the tests after the changes."""
    cluster, goal, head = site.cluster, survey.goal, survey.head
    plan = diff(cluster, goal.desired, survey.observed, survey.leaving, goal.scope, head)
    down = down_workers.find(
        cluster, {**survey.observed, cluster.slurm.controller: head}, down_workers.configured(survey.observed)
    )
    state = replace(
        plan.state,
        obstacles=tuple(with_line(site, obstacle) for obstacle in plan.state.obstacles),
        down=(
            *down_workers.silent_controller(engine, cluster, goal.desired, head),
            *down_workers.explained(engine, cluster, goal.desired, down),
        ),
    )
    recorded = load(head.reads.get(VERDICTS_PATH))
    out = not_scheduled(parse_slurm_nodes(head.answers.get(SLURM_NODES, "")))
    out |= {worker.node: worker.sentence for worker in state.down}
    return planned(cluster, replace(plan, state=state), recorded, goal.verify, out)


def with_line(site: Site, obstacle: Obstacle) -> Obstacle:
    """Add the line of the blueprint to an obstacle that is an account with another number."""
    if obstacle.kind != "account":
        return obstacle
    document = site.loaded.draft.document
    loc = ("users", obstacle.name, "uid")
    if find(document.root, loc) is None:
        return obstacle
    mark = mark_of(document.root, loc)
    return replace(obstacle, why=f"{obstacle.why} ({(mark.source or document.source).name}:{mark.line})")


def look(engines: Engines, site: Site, goal: Goal, say: Callable[[str], None]) -> tuple[Survey, Plan]:
    """Compare for a run that changes nothing; prints warnings. Raises as `compare` does."""
    survey, plan = compare(site, engines, engines, goal, say)
    remark(site, survey, say)
    for job in filter(leftover.dead, survey.tests):
        say(f"{job.sentence()}: its run has ended; the next apply or verify cancels it")
    return survey, plan


def compare_unseen(site: Site, goal: Goal) -> Plan:
    """Return the plan for nodes that have only Python, without contacting a node."""
    nothing: dict[str, Any] = {}  # one for all nodes, which may be thousands
    bare = {
        name: Observation(name, nothing, nothing, reads=nothing, answers=nothing, python=False) for name in goal.nodes
    }
    plan = diff(site.cluster, goal.desired, bare)
    plan = replace(plan, changes=replace(plan.changes, first_contact=()), state=replace(plan.state, offline=True))
    return planned(site.cluster, plan, Recorded(), goal.verify)


def _keys_to_revoke(site: Site, roster: Roster) -> frozenset[str]:
    """Return the host keys of removed or replaced machines, by the roster and this host's copy of it."""
    keys = gone_keys(roster, site.cluster)
    if site.lab is not None:  # the copy also has machines of earlier rehearsals
        return keys
    return keys | gone_keys(Copy.of(site.cluster.name).read(site.cluster.name, 0)[1], site.cluster)


def _refuse_renamed(site: Site, roster: Roster, nodes: Collection[str]) -> None:
    """Refuse a machine that leaves under one name and stays under another: the removal would undo its configuration."""
    same = {new: old for new, old in renamed(roster, site.cluster).items() if new in nodes}
    if not same:
        return
    new, old = next(iter(same.items()))
    others = f" ({len(same)} nodes are like this: {', '.join(f'{old} -> {new}' for new, old in same.items())})"
    path = site.loaded.blueprint_path
    hint = f"take {new} out ({command_line('nodes', 'remove', path, new)}), apply, put it in again, apply"
    if new == site.cluster.slurm.controller:
        hint = f"give it the name {old} again: the head keeps its name"
    raise UsageError(
        f"{old} leaves, and {new} has the same address or host key: is {new} the machine that was {old}?"
        + (others if len(same) > 1 else ""),
        f"one apply cannot remove and keep a machine: {hint}",
    )


def _inventory_machines(site: Site) -> dict[str, KnownMachine]:
    """Return the machines of the inventory; those that have left the blueprint may still be in it."""
    machines = site.loaded.inventory.nodes if site.loaded.inventory else {}
    return {name: KnownMachine(machine.address, machine.host_keys) for name, machine in machines.items()}


def remark(site: Site, survey: Survey, say: Callable[[str], None]) -> Commit | None:
    """Print warnings about the blueprint's commit and the nodes' receipts; return the commit."""
    commit = commit_of(*site.files)
    last = survey.roster.run
    follows = descends(site.loaded.blueprint_path, last.commit) if last and last.commit else None
    warning = commit_warning(commit, last, follows)
    if warning:
        say(f"warning: {warning}")
    for name, observation in survey.observed.items():
        if observation.receipt and observation.receipt.get("trouble"):
            say(f"{name}: its record is unusable: {observation.receipt['trouble']}; its work is repeated")
        for reversal in (reversal for reversal in observation.reverted if reversal["role"] in observation.differs):
            say(f"{name}: {taken_back(reversal)}")
    return commit


# Plan files: written by `plan -o`, read by `apply --plan`.


_MOST_BYTES = 1 << 30  # plans of many nodes are large


def write_plan(path: Path, plan: Plan, desired: Desired, secrets: Mapping[str, bytes]) -> None:
    """Write a plan, sealed with the cluster's own key."""
    sealed = replace(plan, policy=replace(plan.policy, desired=desired.digest))
    write_atomically(path, dump_plan(sealed, secrets[PLAN_KEY]))


def read_plan(path: Path, desired: Desired, secrets: Mapping[str, bytes], command: str) -> Plan:
    """Read a plan for exactly this blueprint and these roles. `command` is the command that makes one.

    Raises:
        PlanFileError, UsageError: it must not be applied.
    """
    plan = load_plan(read_named(path, _MOST_BYTES), secrets[PLAN_KEY])
    if plan.policy.desired != desired.digest:
        raise UsageError(
            f"{path} was made for another state of the blueprint, its secrets or hpcforge's roles",
            f"make a new one: {command}",
        )
    return plan
