"""The observed state before a plan: the nodes, the roster, and leaving nodes."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hpcforge import __version__
from hpcforge.cluster.model import Cluster
from hpcforge.engines.tasks import Engine
from hpcforge.plan.diff import SLURM_NODES, surplus
from hpcforge.plan.observation import Observation
from hpcforge.plan.plan import Leaving
from hpcforge.plan.roster import PATH as ROSTER_PATH
from hpcforge.plan.roster import Enrolled, KnownMachine, Roster, leaving, parse_roster, strangers
from hpcforge.run import leftover
from hpcforge.run.fanout import Waits
from hpcforge.run.observe import observe, observe_leaving
from hpcforge.run.preflight import distrusted, other_releases
from hpcforge.run.records.history import Copy
from hpcforge.run.site import Goal
from hpcforge.secrets.host_certificates import fingerprint
from hpcforge.slurm.nodes import parse_slurm_nodes
from hpcforge.verify.heartbeat import OwnedJob


@dataclass(frozen=True)
class Survey:
    """The answers of nodes and head. `head` is the controller's answer, selected or not."""

    goal: Goal  # the nodes were compared with it
    observed: Mapping[str, Observation]
    head: Observation
    roster: Roster
    leaving: tuple[Leaving, ...]
    departing: Mapping[str, Observation]  # the answers of leaving nodes
    strangers: frozenset[str] = field(default=frozenset())  # nodes of the roster that only the head knows
    tests: tuple[OwnedJob, ...] = ()  # test jobs that are in Slurm's queue

    @property
    def at_work(self) -> dict[str, Observation]:
        """Nodes with an active step of another run, or with an unconfirmed change."""
        return {
            name: observation
            for name, observation in {**self.observed, **self.departing}.items()
            if observation.at_work or observation.armed
        }


def survey_nodes(
    engine: Engine,
    cluster: Cluster,
    goal: Goal,
    reach: Callable[[Mapping[str, Enrolled]], None],
    say: Callable[[str], None],
    inventory: Mapping[str, KnownMachine],
    *,
    kept_as: str | None = None,
) -> Survey:
    """Ask the nodes, and the head in any case. `reach` is called with nodes that leave, so that they can be asked, too.

    Nodes that leave are searched only for the whole cluster. They are contacted only if this host's copy of the
    roster or the `inventory` agrees with the head. `kept_as` is the name of the copy, if it is not the cluster's.
    Nodes that are being installed are not asked and have nothing.
    """
    controller = cluster.slurm.controller
    copy = Copy.of(kept_as or cluster.name)
    observed = _observe(engine, cluster, goal, say)
    tests = leftover.parse(observed[controller].answers)
    observed[controller] = _without_leftovers(observed[controller], tests)
    roster = _read_roster(observed[controller], cluster, copy, say)
    for name, reason in _distrusted(cluster, observed, roster).items():
        observed[name] = Observation(name, unreachable=reason)
    head = observed[controller]
    leavers = leaving(roster, cluster) if goal.whole else {}
    unknown = strangers(roster, cluster, [inventory, copy.known(cluster.name)])
    reached = {name: machine for name, machine in leavers.items() if name not in unknown}
    departing: dict[str, Observation] = {}
    if reached:
        reach(reached)
        departing = observe_leaving(engine, tuple(reached), Waits(say, None))
    selected = {name: observed[name] for name in goal.nodes}
    return Survey(goal, selected, head, roster, _leaving(leavers, departing, head), departing, unknown, tests)


def _observe(engine: Engine, cluster: Cluster, goal: Goal, say: Callable[[str], None]) -> dict[str, Observation]:
    """Return the answers of the selected nodes and the controller."""
    controller = cluster.slurm.controller
    roles = {name: goal.desired.nodes[name] for name in goal.nodes if name not in goal.arriving}
    if controller not in goal.nodes:
        roles[controller] = ()
    desired = replace(goal.desired, nodes=roles)
    observed = observe(engine, cluster, desired, goal.secrets, waits=Waits(say, controller))
    return observed | {name: Observation(name, {}, python=False) for name in goal.arriving}


def _without_leftovers(head: Observation, tests: Sequence[OwnedJob]) -> Observation:
    """Return the head's answers without test jobs of dead runs."""
    answers = leftover.without_left(head.answers, tuple(filter(leftover.dead, tests)))
    return replace(head, answers=answers)


def _read_roster(head: Observation, cluster: Cluster, copy: Copy, say: Callable[[str], None]) -> Roster:
    """Return the roster of the head; this host's copy if the head's cannot be used."""
    roster = parse_roster(head.reads.get(ROSTER_PATH), cluster.name)
    if roster.problem:
        problem = f"the node list on {head.node} cannot be used: {roster.problem}"
        roster, consequence = copy.in_place_of(roster, cluster.name)
        say(f"{problem}; {consequence}")
    return roster


def _distrusted(cluster: Cluster, observed: Mapping[str, Observation], roster: Roster) -> dict[str, str]:
    """Return the nodes that are skipped because of their receipt or their distribution, with the reason."""
    number = roster.run.number if roster.run else None
    receipts = {name: observation.receipt for name, observation in observed.items()}
    facts = {name: observation.facts for name, observation in observed.items() if "os_id" in observation.facts}
    return distrusted(__version__, number, receipts) | other_releases(cluster, facts)


def _leaving(
    leavers: Mapping[str, Enrolled], departing: Mapping[str, Observation], head: Observation
) -> tuple[Leaving, ...]:
    """Return the nodes that leave, with what remains on those that answered."""
    workers = parse_slurm_nodes(head.answers.get(SLURM_NODES, ""))
    return tuple(
        Leaving(name, machine.address, name in workers, departing[name].unreachable, surplus(departing[name]))
        if name in departing
        else Leaving(name, machine.address, name in workers, None, unknown=_not_entered(name, machine, head.node))
        for name, machine in leavers.items()
    )


def _not_entered(name: str, machine: Enrolled, controller: str) -> str:
    keys = ", ".join(fingerprint(base64.b64decode(key.split()[1])) for key in machine.host_keys) or "none"
    return (
        f"only the node list on {controller} says which machine it is: at {machine.address}, with host key {keys}; "
        f"hpcforge does not log in there until you confirm it: hpcforge trust BLUEPRINT {name}"
    )
