"""`hpcforge power`: switch nodes on and off by their management controllers."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event

import typer

from hpcforge.blueprint.hostlist import HostlistError, expand, fold
from hpcforge.cli.exit_codes import Exit, worst
from hpcforge.cli.site import open_site
from hpcforge.cluster.model import Node
from hpcforge.cluster.select import select
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.metal.bmc import Controller, Device
from hpcforge.metal.bmc.verbs import Wish
from hpcforge.metal.power import (
    HeadUnknownError,
    Outcome,
    announced,
    beside,
    carried_out,
    controllers,
    cycled,
    disturbed,
    in_order,
    jobs,
    refuse_while_applying,
    switched_on,
    without_controller,
)
from hpcforge.report import printing
from hpcforge.report.text import one_line, table
from hpcforge.run.site import Site, open_engines

__all__ = ["Asked", "Wish", "boot_wish", "run"]

SCHEMA_VERSION = 1
_DEVICES: Mapping[str, Device] = {"network": "network", "disk": "disk", "none": "none"}
_CODES = {"done": Exit.DONE, "skipped": Exit.FAILED, "failed": Exit.FAILED, "unreachable": Exit.UNREACHABLE}


@dataclass(frozen=True)
class Asked:
    """The options that the verbs share."""

    blueprint: Path
    inventory: Path | None
    identity: Path | None
    nodes: str | None
    everything: bool
    as_json: bool
    yes: bool = True
    force: str | None = None
    pause_s: float = 5.0
    lost: tuple[str, ...] = ()  # feeds

    def again(self, *words: object, **options: object) -> str:
        """A command on the same site."""
        return command_line(*words[:2], self.blueprint, *words[2:], inventory=self.inventory, **options)


def boot_wish(device: str) -> Wish:
    """The wish of `boot-once`. Raises UsageError."""
    if device not in _DEVICES:
        raise UsageError(f"--device {device}: invalid value", f"one of {', '.join(_DEVICES)}")
    return Wish("boot-once", device=_DEVICES[device])


def run(asked: Asked, wish: Wish) -> int:
    """Run a verb of `hpcforge power`. Returns the exit status."""
    site = open_site(asked.blueprint, asked.inventory, None, asked.identity, needs_lab=False)
    if site.loaded.wants_lab and asked.inventory is None:
        raise UsageError("the nodes of a rehearsal have no management controllers", "hpcforge rehearse up and down")
    nodes = _chosen(site, asked)
    _check_feeds(site, asked.lost)
    lacking = without_controller(nodes) if wish.verb == "status" else {}
    nodes = [node for node in nodes if node.name not in lacking] or nodes  # of none: as for every verb
    of = controllers(site, [node.name for node in nodes])
    kept = _kept(site, asked, nodes) if wish.verb in ("off", "cycle") else {}
    going = [node for node in nodes if node.name not in kept]
    if wish.verb in ("on", "off", "cycle") and going:
        _confirm(asked, wish, going)
        if not asked.yes and wish.verb in ("off", "cycle"):  # jobs may have begun while the question stood
            kept = _kept(site, asked, nodes)
            going = [node for node in nodes if node.name not in kept]
    outcomes = [Outcome(node, "skipped", why=why) for node, why in kept.items()]
    for outcome in outcomes:
        _say(outcome)
    outcomes += [outcome for name, outcome in lacking.items() if name not in of]
    stopped = asked.everything and bool(kept)
    groups = [] if stopped else in_order(going, wish.verb) if asked.everything else [tuple(node.name for node in going)]
    return _switch(site, asked, of, wish, groups, outcomes)


def _switch(
    site: Site,
    asked: Asked,
    of: Mapping[str, Controller],
    wish: Wish,
    groups: Sequence[tuple[str, ...]],
    outcomes: list[Outcome],
) -> int:
    """Do it group by group, and show all outcomes. Returns the exit status. Raises `LeaseHeldError`."""
    head = site.cluster.slurm.controller
    going = [name for names in groups for name in names]
    with ExitStack() as until_end:
        lease = None
        if wish.verb in ("off", "cycle") and groups and head not in groups[0]:
            engine = until_end.enter_context(open_engines(site))
            lease = until_end.enter_context(announced(site, engine, going, _note))
        for number, group in enumerate(groups):
            if lease is not None and head in group:
                lease.release()
                lease = None
            later = frozenset(name for names in groups[number + 1 :] for name in names)
            found: list[Outcome] = []
            try:
                for outcome in beside(lease, partial(_outcomes, site, asked, of, group, wish, later)):
                    if wish.verb != "status":
                        _say(outcome)
                    found.append(outcome)
            except KeyboardInterrupt:
                return _interrupted(site, asked, wish, [*outcomes, *found], going)
            outcomes += found
            if asked.everything and wish.verb != "status" and any(outcome.state != "done" for outcome in found):
                printing.note(f"stopped: what follows {fold(group)} was not switched {wish.verb}\n")
                break
    return _finish(site, asked, wish, outcomes)


def _note(text: str) -> None:
    printing.note(f"{text}\n")


def _interrupted(site: Site, asked: Asked, wish: Wish, outcomes: Sequence[Outcome], names: Sequence[str]) -> int:
    """Show what is known by now. Returns the exit status."""
    ended = {outcome.node for outcome in outcomes}
    left = [Outcome(name, "failed", why="interrupted") for name in names if name not in ended]
    _finish(site, asked, wish, [*outcomes, *left])
    printing.note(f"interrupted: not known: {fold([outcome.node for outcome in left])}\n")
    return Exit.INTERRUPTED


def _outcomes(
    site: Site,
    asked: Asked,
    of: Mapping[str, Controller],
    names: Sequence[str],
    wish: Wish,
    later: Collection[str],
    stopped: Event,
) -> Iterator[Outcome]:
    if wish.verb == "cycle":
        yield from cycled(site, of, names, wish, asked.pause_s, asked.lost, later, stopped)
    elif wish.verb == "on":
        yield from switched_on(site, of, names, wish, asked.pause_s, asked.lost, later, stopped)
    else:
        yield from carried_out(of, names, wish, stopped)


def _chosen(site: Site, asked: Asked) -> list[Node]:
    if asked.nodes is None and not asked.everything:
        raise UsageError("no nodes are named", "name them, or add --all")
    if asked.nodes is not None and asked.everything:
        raise UsageError("both nodes and --all are given", "use one of them")
    names = select(site.cluster, [asked.nodes] if asked.nodes else (), ())
    return [site.cluster.by_name[name] for name in names]


def _check_feeds(site: Site, lost: Sequence[str]) -> None:
    unknown = [name for name in lost if name not in site.loaded.placed.room.feeds]
    if unknown:
        known = ", ".join(site.loaded.placed.room.feeds) or "none"
        raise UsageError(f"{unknown[0]} is not a feed of the blueprint", f"its feeds: {known}")


def _kept(site: Site, asked: Asked, nodes: Sequence[Node]) -> dict[str, str]:
    """Of which nodes jobs would be lost, with why. Raises `LeaseHeldError`."""
    forced = _forced(site, asked)
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


def _forced(site: Site, asked: Asked) -> frozenset[str]:
    """The nodes of --force: names of nodes and nothing that stands for some. Raises UsageError."""
    try:
        names = expand(asked.force) if asked.force else ()
    except HostlistError as error:
        raise UsageError(f"--force {asked.force}: {error}", "name the nodes themselves, as in w[03-04]") from None
    unknown = [name for name in names if name not in site.cluster.by_name]
    if unknown:
        raise UsageError(
            f"--force {asked.force}: {unknown[0]} is not a node", "name the nodes themselves, as in w[03-04]"
        )
    return frozenset(names)


def _confirm(asked: Asked, wish: Wish, nodes: Sequence[Node]) -> None:
    if asked.yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal for the question", "add --yes")
    what = {"on": "Switch on", "off": "Switch off", "cycle": "Switch off and on"}[wish.verb]
    typer.confirm(f"{what} {fold([node.name for node in nodes])}?", abort=True, err=True)


def _say(outcome: Outcome) -> None:
    what = one_line(outcome.why) if outcome.why else outcome.power
    printing.note(f"{outcome.node}: {'skipped: ' if outcome.state == 'skipped' else ''}{what}\n")


def _finish(site: Site, asked: Asked, wish: Wish, outcomes: Sequence[Outcome]) -> int:
    place = {node.name: index for index, node in enumerate(site.cluster.nodes)}
    outcomes = sorted(outcomes, key=lambda outcome: place[outcome.node])
    if asked.as_json:
        said = [dataclasses.asdict(outcome) for outcome in outcomes]
        printing.result(json.dumps({"schema_version": SCHEMA_VERSION, "nodes": said}, indent=2) + "\n")
    else:
        rows = [
            [outcome.node, outcome.power, outcome.next_boot or "-", "; ".join((*_whys(outcome), *outcome.notes)) or "-"]
            for outcome in outcomes
        ]
        printing.result(table(("node", "power", "next boot", "remarks"), rows))
    for hint in dict.fromkeys(filter(None, (_hint(asked, outcome) for outcome in outcomes))):
        printing.note(f"hint: {hint}\n")
    wrong = [outcome.node for outcome in outcomes if outcome.state != "done"]
    if not wrong and wish.verb == "boot-once":
        printing.note(f"Next: {asked.again('power', 'cycle', asked.nodes or '')}\n")
    elif wish.verb != "status":
        printing.note(f"Next: {asked.again('power', 'status', *([fold(wrong)] if wrong else []))}\n")
    return worst(_CODES[outcome.state] for outcome in outcomes)


def _whys(outcome: Outcome) -> Iterator[str]:
    if outcome.why:
        yield one_line(outcome.why)
    if outcome.quirks:
        yield f"quirks: {', '.join(outcome.quirks)}"


def _hint(asked: Asked, outcome: Outcome) -> str:
    if outcome.reason == "login":
        return (
            outcome.hint
            or f"{command_line('secrets', 'set', asked.blueprint, 'bmc_password')}, or another user in the inventory"
        )
    if outcome.reason == "certificate":
        again = command_line("discover", asked.blueprint, inventory=asked.inventory, trust_new=True)
        return f"to record certificates: {again}; if a controller was replaced, remove its old one first"
    return outcome.hint
