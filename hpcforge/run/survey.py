"""The observed state before a plan: the nodes, the roster, and those that leave."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping
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
    going: Mapping[str, Observation]  # the answers of those that leave
    strangers: frozenset[str] = field(default=frozenset())  # nodes of the roster that only the head knows
    tests: tuple[OwnedJob, ...] = ()  # test jobs that are in Slurm's queue

    @property
    def at_work(self) -> dict[str, Observation]:
        """Nodes on which a step of another run is active, or that will yet undo one."""
        return {
            name: observation
            for name, observation in {**self.observed, **self.going}.items()
            if observation.at_work or observation.armed
        }


def survey(
    engine: Engine,
    cluster: Cluster,
    goal: Goal,
    reach: Callable[[Mapping[str, Enrolled]], None],
    say: Callable[[str], None],
    inventory: Mapping[str, KnownMachine],
    *,
    kept_as: str | None = None,
    arriving: Collection[str] = (),
) -> Survey:
    """Ask the nodes, and the head in any case. `reach` is called with nodes that leave, so that they can be asked, too.

    Nodes that leave are searched only for the whole cluster. They are contacted only if this host's copy of the
    roster or the `inventory` agrees with the head. `kept_as` is the name of the copy, if it is not the cluster's.
    `arriving`: nodes that are being installed, which are not asked and have nothing.
    """
    controller, desired, nodes = cluster.slurm.controller, goal.desired, goal.nodes
    names = [name for name in (nodes if controller in nodes else (*nodes, controller)) if name not in arriving]
    if controller not in nodes:
        desired = replace(desired, nodes={**desired.nodes, controller: ()})
    seen = observe(engine, cluster, desired, names, goal.secrets, waits=Waits(say, controller))
    seen |= {name: Observation(name, {}, python=False) for name in arriving}
    tests = leftover.parse(seen[controller].answers)
    answers = leftover.without_left(seen[controller].answers, tuple(filter(leftover.dead, tests)))
    head = seen[controller] = replace(seen[controller], answers=answers)
    copy = Copy.of(kept_as or cluster.name)
    roster = parse_roster(head.reads.get(ROSTER_PATH), cluster.name)
    if roster.problem:
        why = f"the node list on {controller} cannot be used: {roster.problem}"
        roster, instead = copy.in_place_of(roster, cluster.name)
        say(f"{why}; {instead}")
    number = roster.run.number if roster.run else None
    skipped = distrusted(__version__, number, {name: observation.receipt for name, observation in seen.items()})
    known_as = {name: observation.facts for name, observation in seen.items() if "os_id" in observation.facts}
    skipped |= other_releases(cluster, known_as)
    for name, reason in skipped.items():
        seen[name] = Observation(name, unreachable=reason)
    head = seen[controller]
    gone = leaving(roster, cluster) if goal.whole else {}
    unknown = strangers(roster, cluster, [inventory, copy.known(cluster.name)])
    reached = {name: machine for name, machine in gone.items() if name not in unknown}
    going: dict[str, Observation] = {}
    if reached:
        reach(reached)
        going = observe_leaving(engine, tuple(reached), Waits(say, None))
    known = parse_slurm_nodes(head.answers.get(SLURM_NODES, ""))
    return Survey(
        goal=goal,
        observed={name: seen[name] for name in nodes},
        head=head,
        roster=roster,
        leaving=tuple(
            Leaving(name, machine.address, name in known, going[name].unreachable, surplus(going[name]))
            if name in going
            else Leaving(name, machine.address, name in known, None, unknown=_not_entered(name, machine, controller))
            for name, machine in gone.items()
        ),
        going=going,
        strangers=unknown,
        tests=tests,
    )


def _not_entered(name: str, machine: Enrolled, controller: str) -> str:
    keys = ", ".join(fingerprint(base64.b64decode(key.split()[1])) for key in machine.host_keys) or "none"
    return (
        f"only the node list on {controller} says which machine it is: at {machine.address}, with host key {keys}; "
        f"hpcforge does not log in there until you confirm it: hpcforge trust BLUEPRINT {name}"
    )
