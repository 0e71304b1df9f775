"""From a cluster and a lab to the cluster that is rehearsed there, rule by rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hpcforge.cluster.model import Cluster
from hpcforge.rehearsal.lab_facts import LabFacts


@dataclass(frozen=True)
class StandIn:
    """What is not rehearsed: in a word or two for a summary, and in a sentence that says what is there instead."""

    name: str
    short: str
    sentence: str


@dataclass(frozen=True)
class StandInRule:
    """One kind of thing that a lab cannot have.

    `says` tells what is stood in for, None where the cluster has nothing of the kind, and is asked before `change`,
    which makes the cluster that has the stand-in instead. `of_labs`: it holds for blueprints made for a lab, too.
    """

    name: str
    says: Callable[[Cluster, LabFacts], tuple[str, str] | None]  # as in `StandIn`
    change: Callable[[Cluster, LabFacts], Cluster]
    of_labs: bool = False


@dataclass(frozen=True)
class AppliedRule:
    """A rule that was applied, and the cluster after it."""

    stand_in: StandIn
    cluster: Cluster


def steps(cluster: Cluster, lab: LabFacts, rules: Sequence[StandInRule]) -> Iterator[AppliedRule]:
    """Apply the rules, one after the other; those that have nothing to say are passed over."""
    for rule in rules:
        said = rule.says(cluster, lab)
        if said is not None:
            cluster = rule.change(cluster, lab)
            yield AppliedRule(StandIn(rule.name, *said), cluster)


def rehearsed(cluster: Cluster, lab: LabFacts, rules: Sequence[StandInRule]) -> tuple[Cluster, tuple[StandIn, ...]]:
    """The cluster that the lab is to be, and what stands in for what."""
    done = tuple(steps(cluster, lab, rules))
    return (done[-1].cluster if done else cluster), tuple(step.stand_in for step in done)
