"""What `plan` and `apply` do alike: choose nodes and roles, look, and compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hpcforge import __version__
from hpcforge.cli.site import Site, add_leaving
from hpcforge.cli.usage import UsageError
from hpcforge.cluster.select import select
from hpcforge.engines import Engines
from hpcforge.engines.tasks import Engine
from hpcforge.plan.desired import Desired
from hpcforge.plan.diff import Scope, diff
from hpcforge.plan.plan import Plan
from hpcforge.plan.roster import Known
from hpcforge.run.commit import Commit, commit_of, descends
from hpcforge.run.succession import commit_warning, refuse_older
from hpcforge.run.survey import Survey, survey


@dataclass(frozen=True)
class Choice:
    """What of a cluster is meant."""

    nodes: tuple[str, ...]
    whole: bool  # all of it
    scope: Scope


@dataclass(frozen=True)
class Comparison:
    """What there is, and what would change."""

    survey: Survey
    plan: Plan


def choose(
    site: Site,
    desired: Desired,
    limit: Sequence[str] | None,
    exclude: Sequence[str] | None,
    only: Sequence[str] | None,
    force: Sequence[str] | None,
) -> Choice:
    """Which nodes and roles are meant. Raises UsageError and SelectionError for what there is not."""
    for role in (*(only or ()), *(force or ())):
        if role not in desired.roles:
            raise UsageError(f"there is no role {role!r}", f"roles: {', '.join(desired.roles)}")
    return Choice(
        select(site.cluster, limit or (), exclude or ()),
        not (limit or exclude or only),
        Scope(frozenset(only) if only else None, frozenset(force or ())),
    )


def compare(
    site: Site, engines: Engines, engine: Engine, desired: Desired, choice: Choice, say: Callable[[str], None]
) -> Comparison:
    """Look at the nodes and compare. `engine` is what asks: the engines, or the lease around them.

    Raises:
        OlderError: a newer hpcforge has been at work here.
    """
    found = survey(
        engine,
        site.cluster,
        desired,
        choice.nodes,
        lambda nodes: add_leaving(site, engines, nodes),
        say,
        _known(site),
        whole=choice.whole,
    )
    refuse_older(__version__, found.roster)
    return Comparison(found, diff(site.cluster, desired, found.observed, found.leaving, choice.scope, found.head))


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
