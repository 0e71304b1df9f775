"""`hpcforge power`: switch nodes on and off by their management controllers."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from hpcforge.cli import completion
from hpcforge.cli.exit_codes import Exit, worst
from hpcforge.cli.options import AsJson, Blueprint, Identity, Inventory
from hpcforge.cli.verb import VerbGroup
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.report import printing
from hpcforge.report.text import one_line, table

if TYPE_CHECKING:
    from hpcforge.cluster.model import Node
    from hpcforge.metal.bmc import Controller, Device
    from hpcforge.metal.power import Outcome
    from hpcforge.metal.switch_nodes import PowerSwitch
    from hpcforge.run.site import Site

SCHEMA_VERSION = 1
_DEVICES: Mapping[str, Device] = {"network": "network", "disk": "disk", "none": "none"}
_CODES = {"done": Exit.DONE, "skipped": Exit.FAILED, "failed": Exit.FAILED, "unreachable": Exit.UNREACHABLE}

power = VerbGroup(
    "Redfish, or IPMI. Each verb reads the state afterwards. The inventory has the controllers' addresses; the "
    "password is the secret bmc_password."
)
_All = Annotated[
    bool, typer.Option("--all", help="All nodes, in order: storage, head, login, workers; off in reverse.")
]
_Force = Annotated[
    str | None,
    typer.Option(
        "--force",
        help="These nodes even if jobs run on them or need them: node names, as a hostlist.",
        metavar="NODES",
        show_default=False,
    ),
]
_Hard = Annotated[bool, typer.Option("--hard", help="Switch off at once, not by the operating system.")]
_Wait = Annotated[
    float,
    typer.Option("--wait", help="Seconds within which a node must reach the state.", min=1, max=3600, metavar="S"),
]
_Pause = Annotated[
    float, typer.Option("--pause", help="Seconds between nodes that start in turn.", min=0, max=600, metavar="S")
]


@dataclass(frozen=True, kw_only=True)
class PowerNodesOptions:
    """The nodes of all verbs of `hpcforge power`."""

    blueprint: Blueprint
    nodes: Annotated[
        str | None,
        typer.Argument(
            help="The nodes: a hostlist, a partition, a rack or a function.",
            show_default=False,
            autocompletion=completion.node_sets,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class PowerAccessOptions:
    """Options to reach their controllers."""

    inventory: Inventory = None
    identity: Identity = None


@dataclass(frozen=True, kw_only=True)
class PowerAskOptions(PowerAccessOptions):
    """The same, for a verb that asks."""

    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False


@dataclass(frozen=True, kw_only=True)
class PowerStatusOptions:
    """Options of `hpcforge power status`."""

    which: PowerNodesOptions
    access: PowerAccessOptions
    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class PowerOnOptions:
    """Options of `hpcforge power on`."""

    which: PowerNodesOptions
    all_nodes: _All = False
    without_feed: Annotated[
        list[str] | None,
        typer.Option(
            "--without-feed",
            help="A power feed that has failed: only nodes that the other feeds can carry start. Repeatable.",
            metavar="FEED",
            show_default=False,
        ),
    ] = None
    pause: _Pause = 5.0
    wait: _Wait = 180.0
    access: PowerAskOptions
    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class PowerOffOptions:
    """Options of `hpcforge power off`."""

    which: PowerNodesOptions
    all_nodes: _All = False
    hard: _Hard = False
    force: _Force = None
    wait: _Wait = 180.0
    access: PowerAskOptions
    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class PowerCycleOptions:
    """Options of `hpcforge power cycle`."""

    which: PowerNodesOptions
    hard: _Hard = False
    force: _Force = None
    pause: _Pause = 5.0
    wait: _Wait = 180.0
    access: PowerAskOptions
    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class PowerBootOptions:
    """Options of `hpcforge power boot-once`."""

    which: PowerNodesOptions
    device: Annotated[
        str, typer.Option("--device", help="network, disk, or none: the firmware's own setting.", metavar="DEVICE")
    ] = "network"
    access: PowerAccessOptions
    as_json: AsJson = False


@power.verb(epilog="Example: hpcforge power status site.yaml --json")
def status(options: PowerStatusOptions) -> int:
    """Show power state and next boot of each node. Changes nothing."""
    from hpcforge.metal.bmc.verbs import Wish
    from hpcforge.metal.switch_nodes import PowerSwitch

    return _run(_Call(options, PowerSwitch(Wish("status"), everything=options.which.nodes is None)))


@power.verb(epilog="Example: hpcforge power on site.yaml --all --yes")
def on(options: PowerOnOptions) -> int:
    """Switch nodes on, in turns that racks, PDUs and feeds of the design carry."""
    from hpcforge.metal.bmc.verbs import Wish
    from hpcforge.metal.switch_nodes import PowerSwitch

    request, lost = Wish("on", limit_s=options.wait), tuple(options.without_feed or ())
    return _run(_Call(options, PowerSwitch(request, options.all_nodes, options.pause, lost)))


@power.verb(epilog="Example: hpcforge power off site.yaml w03")
def off(options: PowerOffOptions) -> int:
    """Shut nodes down. A node with jobs is left alone."""
    from hpcforge.metal.bmc.verbs import Wish
    from hpcforge.metal.switch_nodes import PowerSwitch

    request = Wish("off", hard=options.hard, limit_s=options.wait)
    return _run(_Call(options, PowerSwitch(request, options.all_nodes), options.force))


@power.verb(epilog="Example: hpcforge power cycle site.yaml w03 --hard --force w03")
def cycle(options: PowerCycleOptions) -> int:
    """Switch nodes off, see that they are off, and switch them on again. A node with jobs is left alone."""
    from hpcforge.metal.bmc.verbs import Wish
    from hpcforge.metal.switch_nodes import PowerSwitch

    request = Wish("cycle", hard=options.hard, limit_s=options.wait)
    return _run(_Call(options, PowerSwitch(request, pause_s=options.pause), options.force))


@power.verb(epilog="Example: hpcforge power boot-once site.yaml w03 --device network")
def boot_once(options: PowerBootOptions) -> int:
    """Choose what nodes boot from at their next start. Restarts nothing."""
    from hpcforge.metal.bmc.verbs import Wish
    from hpcforge.metal.switch_nodes import PowerSwitch

    if options.device not in _DEVICES:
        raise UsageError(f"--device {options.device}: invalid value", f"one of {', '.join(_DEVICES)}")
    return _run(_Call(options, PowerSwitch(Wish("boot-once", device=_DEVICES[options.device]))))


@dataclass(frozen=True)
class _Call:
    """A verb as it was called."""

    options: PowerStatusOptions | PowerOnOptions | PowerOffOptions | PowerCycleOptions | PowerBootOptions
    switch: PowerSwitch
    force: str | None = None

    @property
    def verb(self) -> str:
        return self.switch.wish.verb

    @property
    def asks(self) -> bool:
        return isinstance(self.options.access, PowerAskOptions) and not self.options.access.yes

    def command(self, *words: object, **options: object) -> str:
        """Return a command line for the same site."""
        which, inventory = self.options.which, self.options.access.inventory
        return command_line(*words[:2], which.blueprint, *words[2:], inventory=inventory, **options)


def _run(call: _Call) -> int:
    from hpcforge.cli.site import open_site
    from hpcforge.metal.power import Outcome, controllers, without_controller
    from hpcforge.metal.switch_nodes import check_feeds, left_alone

    which, access, switch = call.options.which, call.options.access, call.switch
    site = open_site(which.blueprint, access.inventory, None, access.identity, needs_lab=False)
    if site.loaded.wants_lab and access.inventory is None:
        raise UsageError("the nodes of a rehearsal have no management controllers", "hpcforge rehearse up and down")
    nodes = _chosen(site, which.nodes, switch)
    check_feeds(site, switch.lost_feeds)
    lacking = without_controller(nodes) if call.verb == "status" else {}
    nodes = [node for node in nodes if node.name not in lacking] or nodes  # none left: the error of every verb
    by_node = controllers(site, [node.name for node in nodes])
    busy = left_alone(site, nodes, call.force) if switch.disturbs else {}
    free = [node for node in nodes if node.name not in busy]
    if call.verb in ("on", "off", "cycle") and free and call.asks:
        _confirm(call.verb, free)
        if switch.disturbs:  # jobs may have begun during the question
            busy = left_alone(site, nodes, call.force)
            free = [node for node in nodes if node.name not in busy]
    outcomes = [Outcome(node, "skipped", why=reason) for node, reason in busy.items()]
    for outcome in outcomes:
        _say(outcome)
    outcomes += [outcome for name, outcome in lacking.items() if name not in by_node]
    groups = [] if switch.everything and busy else switch.groups(free)
    return _switch(call, site, by_node, groups, outcomes)


def _switch(
    call: _Call,
    site: Site,
    by_node: Mapping[str, Controller],
    groups: Sequence[tuple[str, ...]],
    outcomes: list[Outcome],
) -> int:
    """Switch the nodes, and show all outcomes. Returns the exit status. Raises `LeaseHeldError`."""
    from hpcforge.metal.switch_nodes import switched

    try:
        for outcome in switched(site, by_node, call.switch, groups, _note):
            outcomes.append(outcome)
            if call.verb != "status":
                _say(outcome)
    except KeyboardInterrupt:
        return _interrupted(call, site, outcomes, [name for names in groups for name in names])
    return _finish(call, site, outcomes)


def _note(text: str) -> None:
    printing.note(f"{text}\n")


def _interrupted(call: _Call, site: Site, outcomes: Sequence[Outcome], names: Sequence[str]) -> int:
    """Show the outcomes so far. Returns the exit status."""
    from hpcforge.blueprint.hostlist import fold
    from hpcforge.metal.power import Outcome

    ended = {outcome.node for outcome in outcomes}
    unknown = [Outcome(name, "failed", why="interrupted") for name in names if name not in ended]
    _finish(call, site, [*outcomes, *unknown])
    printing.note(f"interrupted: not known: {fold([outcome.node for outcome in unknown])}\n")
    return Exit.INTERRUPTED


def _chosen(site: Site, nodes: str | None, switch: PowerSwitch) -> list[Node]:
    from hpcforge.cluster.select import select

    if nodes is None and not switch.everything:
        raise UsageError("no nodes are named", "name them, or add --all")
    if nodes is not None and switch.everything:
        raise UsageError("nodes and --all exclude each other", "use one")
    return [site.cluster.by_name[name] for name in select(site.cluster, [nodes] if nodes else (), ())]


def _confirm(verb: str, nodes: Sequence[Node]) -> None:
    from hpcforge.blueprint.hostlist import fold

    if not sys.stdin.isatty():
        raise UsageError("the question needs a terminal", "add --yes")
    question = {"on": "Switch on", "off": "Switch off", "cycle": "Switch off and on"}[verb]
    typer.confirm(f"{question} {fold([node.name for node in nodes])}?", abort=True, err=True)


def _say(outcome: Outcome) -> None:
    text = one_line(outcome.why) if outcome.why else outcome.power
    printing.note(f"{outcome.node}: {'skipped: ' if outcome.state == 'skipped' else ''}{text}\n")


def _finish(call: _Call, site: Site, outcomes: Sequence[Outcome]) -> int:
    from hpcforge.blueprint.hostlist import fold

    place = {node.name: index for index, node in enumerate(site.cluster.nodes)}
    outcomes = sorted(outcomes, key=lambda outcome: place[outcome.node])
    if call.options.as_json:
        entries = [dataclasses.asdict(outcome) for outcome in outcomes]
        printing.result(json.dumps({"schema_version": SCHEMA_VERSION, "nodes": entries}, indent=2) + "\n")
    else:
        rows = [
            [outcome.node, outcome.power, outcome.next_boot or "-", "; ".join((*_whys(outcome), *outcome.notes)) or "-"]
            for outcome in outcomes
        ]
        printing.result(table(("node", "power", "next boot", "remarks"), rows))
    for hint in dict.fromkeys(filter(None, (_hint(call, outcome) for outcome in outcomes))):
        printing.note(f"hint: {hint}\n")
    wrong = [outcome.node for outcome in outcomes if outcome.state != "done"]
    if not wrong and call.verb == "boot-once":
        printing.note(f"Next: {call.command('power', 'cycle', call.options.which.nodes or '')}\n")
    elif call.verb != "status":
        printing.note(f"Next: {call.command('power', 'status', *([fold(wrong)] if wrong else []))}\n")
    return worst(_CODES[outcome.state] for outcome in outcomes)


def _whys(outcome: Outcome) -> Iterator[str]:
    if outcome.why:
        yield one_line(outcome.why)
    if outcome.quirks:
        yield f"quirks: {', '.join(outcome.quirks)}"


def _hint(call: _Call, outcome: Outcome) -> str:
    if outcome.reason == "login":
        setting = command_line("secrets", "set", call.options.which.blueprint, "bmc_password")
        return outcome.hint or f"{setting}, or another user in the inventory"
    if outcome.reason == "certificate":
        inventory = call.options.access.inventory
        command = command_line("discover", call.options.which.blueprint, inventory=inventory, trust_new=True)
        return f"to record certificates: {command}; if a controller was replaced, remove its old one first"
    return outcome.hint
