"""A verb of `hpcforge power` on many nodes: which it leaves alone, in which groups, and with the lease held."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from threading import Event

from hpcforge.blueprint.hostlist import HostlistError, expand, fold
from hpcforge.cluster.model import Node
from hpcforge.errors import UsageError
from hpcforge.metal.bmc import Controller
from hpcforge.metal.bmc.verbs import Wish
from hpcforge.metal.power import (
    HeadUnknownError,
    Outcome,
    TurnRules,
    announced,
    beside,
    carried_out,
    cycled,
    disturbed,
    in_order,
    jobs,
    refuse_while_applying,
    switched_on,
)
from hpcforge.run.site import Site, open_engines


@dataclass(frozen=True)
class PowerSwitch:
    """A verb, and how it goes through many nodes."""

    wish: Wish
    everything: bool = False  # all nodes, in the order in which they need each other
    pause_s: float = 5.0  # pause between nodes that start in turn
    lost_feeds: tuple[str, ...] = ()

    @property
    def disturbs(self) -> bool:
        """Return whether jobs would be lost."""
        return self.wish.verb in ("off", "cycle")

    def groups(self, nodes: Sequence[Node]) -> list[tuple[str, ...]]:
        """Return the names of nodes that are switched side by side, group by group."""
        return in_order(nodes, self.wish.verb) if self.everything else [tuple(node.name for node in nodes)]


def check_feeds(site: Site, lost: Sequence[str]) -> None:
    """Raise `UsageError` for a feed that the blueprint does not have."""
    unknown = [name for name in lost if name not in site.loaded.placed.room.feeds]
    if unknown:
        feeds = ", ".join(site.loaded.placed.room.feeds) or "none"
        raise UsageError(f"{unknown[0]} is not a feed of the blueprint", f"its feeds: {feeds}")


def left_alone(site: Site, nodes: Sequence[Node], force: str | None) -> dict[str, str]:
    """Return the nodes whose jobs would be lost, with the reasons. Raises `LeaseHeldError`, and `UsageError`."""
    forced = _forced(site, force)
    ask = [node for node in nodes if node.name not in forced]
    head = site.cluster.slurm.controller
    with open_engines(site) as engine:
        refuse_while_applying(engine, head)
        if not ask:
            return {}
        try:
            running = jobs(engine, head)
        except HeadUnknownError as error:
            return {node.name: f"{error}; --force {node.name} does it all the same" for node in ask}
    return disturbed(ask, running)


def _forced(site: Site, force: str | None) -> frozenset[str]:
    """Return the nodes of --force: names of nodes, and nothing that stands for some. Raises UsageError."""
    try:
        names = expand(force) if force else ()
    except HostlistError as error:
        raise UsageError(f"--force {force}: {error}", "name the nodes themselves, as in w[03-04]") from None
    unknown = [name for name in names if name not in site.cluster.by_name]
    if unknown:
        raise UsageError(f"--force {force}: {unknown[0]} is not a node", "name the nodes themselves, as in w[03-04]")
    return frozenset(names)


def switched(
    site: Site,
    by_node: Mapping[str, Controller],
    switch: PowerSwitch,
    groups: Sequence[tuple[str, ...]],
    say: Callable[[str], None],
) -> Iterator[Outcome]:
    """Do it group by group, and yield each outcome. Raises `LeaseHeldError`."""
    verb, head = switch.wish.verb, site.cluster.slurm.controller
    with ExitStack() as until_end:
        lease = None
        if switch.disturbs and groups and head not in groups[0]:
            engine = until_end.enter_context(open_engines(site))
            names = [name for group in groups for name in group]
            lease = until_end.enter_context(announced(site, engine, names, say))
        for number, group in enumerate(groups):
            if lease is not None and head in group:
                lease.release()
                lease = None
            later = frozenset(name for names in groups[number + 1 :] for name in names)
            wrong = False
            for outcome in beside(lease, partial(_outcomes, site, by_node, switch, group, later)):
                wrong |= outcome.state != "done"
                yield outcome
            if switch.everything and verb != "status" and wrong:
                say(f"stopped: nodes after {fold(group)} were not switched {verb}")
                break


def _outcomes(
    site: Site,
    by_node: Mapping[str, Controller],
    switch: PowerSwitch,
    names: Sequence[str],
    later: Collection[str],
    stopped: Event,
) -> Iterator[Outcome]:
    request, turns = switch.wish, TurnRules(switch.pause_s, switch.lost_feeds, later)
    if request.verb == "cycle":
        yield from cycled(site, by_node, names, request, turns, stopped)
    elif request.verb == "on":
        yield from switched_on(site, by_node, names, request, turns, stopped)
    else:
        yield from carried_out(by_node, names, request, stopped)
