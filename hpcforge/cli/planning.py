"""What `plan` and `apply` do alike: choose nodes and roles, look, and compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hpcforge import __version__
from hpcforge.cli.site import Goal, Site, add_leaving, revoking
from hpcforge.cluster.select import select
from hpcforge.engines import Engines
from hpcforge.engines.tasks import Engine
from hpcforge.errors import UsageError
from hpcforge.plan.admission import not_scheduled, parse_slurm_nodes
from hpcforge.plan.desired import Desired
from hpcforge.plan.diff import SLURM_NODES, Scope, diff
from hpcforge.plan.plan import Plan
from hpcforge.plan.roster import Known, Roster, gone_keys, renamed, without
from hpcforge.plan.smoke_runs import VERIFY, Verify
from hpcforge.program import typed
from hpcforge.run.commit import Commit, commit_of, descends
from hpcforge.run.history import Copy
from hpcforge.run.succession import commit_warning, refuse_older
from hpcforge.run.survey import Survey, survey
from hpcforge.run.testing import planned
from hpcforge.verify.kept import VERDICTS_PATH, load


@dataclass(frozen=True)
class Choice:
    """What of a cluster is meant."""

    nodes: tuple[str, ...]
    whole: bool  # all of it
    scope: Scope
    verify: Verify  # what is tested afterwards


@dataclass(frozen=True)
class Comparison:
    """What there is, and what would change."""

    survey: Survey
    plan: Plan
    goal: Goal  # what the nodes were compared with


def choose(
    site: Site,
    desired: Desired,
    limit: Sequence[str] | None,
    exclude: Sequence[str] | None,
    only: Sequence[str] | None,
    force: Sequence[str] | None,
    verify: str | None,
) -> Choice:
    """Which nodes, roles and tests are meant. Raises UsageError and SelectionError for what there is not."""
    what = next((one for one in VERIFY if one == (verify or "touched")), None)
    if what is None:
        raise UsageError(f"--verify {verify}: there is no such choice", f"one of {', '.join(VERIFY)}")
    for role in (*(only or ()), *(force or ())):
        if role not in desired.roles:
            raise UsageError(f"there is no role {role!r}", f"roles: {', '.join(desired.roles)}")
    return Choice(
        select(site.cluster, limit or (), exclude or ()),
        not (limit or exclude or only),
        Scope(frozenset(only) if only else None, frozenset(force or ())),
        what,
    )


def compare(
    site: Site, engines: Engines, engine: Engine, goal: Goal, choice: Choice, say: Callable[[str], None]
) -> Comparison:
    """Look at the nodes and compare. `engine` is what asks: the engines, or the lease around them.

    Raises:
        OlderError: a newer hpcforge has been at work here.
        UsageError: a node has got another name.
    """

    def look(goal: Goal) -> Survey:
        found = survey(
            engine,
            site.cluster,
            goal.desired,
            choice.nodes,
            lambda nodes: add_leaving(site, engines, nodes),
            say,
            _known(site),
            whole=choice.whole,
        )
        refuse_older(__version__, found.roster)
        return found

    found = look(goal)
    roster = without(found.roster, found.strangers)
    _refuse_renamed(site, roster, choice)
    with_gone = revoking(site, goal, _gone(site, roster))
    if with_gone is not goal:
        found, goal = look(with_gone), with_gone
    plan = diff(site.cluster, goal.desired, found.observed, found.leaving, choice.scope, found.head)
    recorded = load(found.head.reads.get(VERDICTS_PATH))
    out = not_scheduled(parse_slurm_nodes(found.head.answers.get(SLURM_NODES, "")))
    return Comparison(found, planned(site.cluster, plan, recorded, choice.verify, out), goal)


def _gone(site: Site, roster: Roster) -> frozenset[str]:
    """Host keys of machines that left or were replaced: by the roster, and where the head itself was, by our copy."""
    gone = gone_keys(roster, site.cluster)
    if site.lab is not None:  # the copy is of rehearsals that are no more, too
        return gone
    return gone | gone_keys(Copy.of(site.cluster.name).read(site.cluster.name, 0)[1], site.cluster)


def _refuse_renamed(site: Site, roster: Roster, choice: Choice) -> None:
    """A machine that leaves under one name and is there under another: it would be cleaned of what it was given."""
    same = {new: old for new, old in renamed(roster, site.cluster).items() if new in choice.nodes}
    if not same:
        return
    new, old = next(iter(same.items()))
    others = f" ({len(same)} nodes are like this: {', '.join(f'{old} -> {new}' for new, old in same.items())})"
    path = site.loaded.blueprint_path
    way = f"take {new} out ({typed('nodes', 'remove', path, new)}), apply, put it in again, apply"
    if new == site.cluster.slurm.controller:
        way = f"give it the name {old} again: the head keeps its name"
    raise UsageError(
        f"{old} leaves, and {new} has the same address or host key: is {new} the machine that was {old}?"
        + (others if len(same) > 1 else ""),
        f"a machine cannot leave and stay in one apply: {way}",
    )


def _known(site: Site) -> dict[str, Known]:
    """The machines of the inventory; those that have left the blueprint may still be in it."""
    machines = site.loaded.inventory.nodes if site.loaded.inventory else {}
    return {name: Known(machine.address, machine.host_keys) for name, machine in machines.items()}


def remark(site: Site, found: Survey, say: Callable[[str], None]) -> Commit | None:
    """Say what is odd about the blueprint's commit and the nodes' receipts; the commit."""
    inventory = None if site.lab else site.loaded.inventory_path  # a rehearsal's is nobody's to commit
    commit = commit_of(*(path for path in (site.loaded.blueprint_path, inventory) if path is not None))
    last = found.roster.run
    known = descends(site.loaded.blueprint_path, last.commit) if last and last.commit else None
    warning = commit_warning(commit, last, known)
    if warning:
        say(f"warning: {warning}")
    for name, seen in found.observed.items():
        if seen.receipt and seen.receipt.get("trouble"):
            say(f"{name}: its receipt cannot be used: {seen.receipt['trouble']}; what it says is done again")
        for one in seen.reverted:
            say(f"{name}: an earlier change of {one['role']} was taken back by the node: nobody confirmed it")
    return commit
