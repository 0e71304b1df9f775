"""What is there before anything is planned: the nodes, the roster, and those that leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hpcforge.cluster.model import Cluster
from hpcforge.engines.tasks import Engine
from hpcforge.plan.admission import parse_slurm_nodes
from hpcforge.plan.desired import Desired
from hpcforge.plan.diff import SLURM_NODES, surplus
from hpcforge.plan.observed import Observed
from hpcforge.plan.plan import Leaving
from hpcforge.plan.roster import PATH as ROSTER_PATH
from hpcforge.plan.roster import Enrolled, Roster, leaving, parse_roster
from hpcforge.run.history import Copy
from hpcforge.run.observe import observe, observe_leaving


@dataclass(frozen=True)
class Survey:
    """What nodes and head said. `head` is the controller's answer, asked for or not."""

    observed: Mapping[str, Observed]
    head: Observed
    roster: Roster
    leaving: tuple[Leaving, ...]
    going: Mapping[str, Observed]  # the answers of those that leave

    @property
    def at_work(self) -> dict[str, Observed]:
        """Nodes on which a step of another run is at work, or that will yet undo one."""
        return {name: one for name, one in {**self.observed, **self.going}.items() if one.at_work or one.armed}


def survey(
    engine: Engine,
    cluster: Cluster,
    desired: Desired,
    nodes: Sequence[str],
    reach: Callable[[Mapping[str, Enrolled]], None],
    say: Callable[[str], None],
    *,
    whole: bool,
) -> Survey:
    """Ask the nodes, and the head in any case. `reach` is called with nodes that leave, so that they can be asked, too.

    Nodes that leave are looked for only where the `whole` cluster is meant.
    """
    controller = cluster.slurm.controller
    asked = nodes if controller in nodes else (*nodes, controller)
    if controller not in nodes:
        desired = Desired(desired.roles, {**desired.nodes, controller: ()}, desired.texts)
    seen = observe(engine, cluster, desired, asked)
    head = seen[controller]
    roster = parse_roster(head.reads.get(ROSTER_PATH), cluster.name)
    if roster.problem:
        why = f"the roster on {controller} cannot be used: {roster.problem}"
        roster, instead = Copy.of(cluster.name).in_place_of(roster, cluster.name)
        say(f"{why}; {instead}")
    gone = leaving(roster, cluster) if whole else {}
    going: dict[str, Observed] = {}
    if gone:
        reach(gone)
        going = observe_leaving(engine, cluster, tuple(gone))
    known = parse_slurm_nodes(head.answers.get(SLURM_NODES, ""))
    return Survey(
        observed={name: seen[name] for name in nodes},
        head=head,
        roster=roster,
        leaving=tuple(
            Leaving(name, one.address, name in known, going[name].unreachable, surplus(going[name]))
            for name, one in gone.items()
        ),
        going=going,
    )
