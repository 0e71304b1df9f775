"""Installation of nodes without an operating system: their selection, and each node's way from power to its first ssh.

It does the same as `netboot want`, `power boot-once`, `power cycle` and `netboot record`, with the same functions.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import yaml

from hpcforge.blueprint.hostlist import fold
from hpcforge.cluster.model import Node
from hpcforge.command_hint import command_line
from hpcforge.errors import ExpectedError, UsageError
from hpcforge.image.manifest import Manifest
from hpcforge.image.recipe import MIRRORS
from hpcforge.metal.bmc import Controller
from hpcforge.metal.bmc.verbs import Wish
from hpcforge.metal.netboot.decide import Record, failed
from hpcforge.metal.power import (
    HeadUnknownError,
    Outcome,
    TurnRules,
    carried_out,
    controllers,
    disturbed,
    jobs,
    refuse_while_applying,
    switched_on,
)
from hpcforge.metal.serve import record_keys, records_of, want, withdraw
from hpcforge.plan.plan import Install
from hpcforge.run.site import Site, open_engines

_FORGOTTEN = "its controller lost the request to boot from the network when it was switched off"
_OWN_DISK = (
    "ssh answers, but it never asked for its boot script: it started from its own disk. Its firmware takes no "
    "override, or boots from another interface"
)
LIMIT_S = 1800.0  # limit of one try, from power to ssh; docs/bare-metal.md has measured times
_OF_INSTALLER = 1 / 3  # part of it from the boot script to the installer's request for a disk
_TRIES = 2
# Their ends: power is on; the boot script is sent; the disk is chosen; it is written; ssh answers.
PHASES = ("power", "firmware", "kernel", "install", "start")
_EVERY_S = 2.0
_PAUSE_S = 5.0  # pause between turns of nodes, as with `power on`
_SSH_S = 2.0
_AT_ONCE = 32
# Reasons that a second question would not change: it is not sent, since the controller may lock its account.
_REFUSED = ("login", "certificate")
_LASTING = (*_REFUSED, "licence", "override")  # reasons that a second boot would not change


@dataclass(frozen=True)
class Installation:
    """The result on one node; `why` is empty if ssh answers. Seconds by phase, with the names of `PHASES`."""

    node: str
    tries: int
    why: str = ""
    console: tuple[str, ...] = ()
    phases_s: Mapping[str, float] = field(default_factory=dict)


@dataclass
class _Try:
    """A node that is under way."""

    number: int = 1
    asked_s: float = 0.0
    on_s: float | None = None  # None: its controller is still busy
    offered_s: float | None = None
    begun_s: float | None = None
    installed_s: float | None = None
    lasting_boot: bool = False  # its controller keeps the network as first device


def ssh_answers(address: str) -> bool:
    """Return whether any ssh server answers there: its host key is compared when hpcforge logs in."""
    try:
        with socket.create_connection((address, 22), _SSH_S) as connection:
            connection.settimeout(_SSH_S)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def choose(
    site: Site,
    names: Sequence[str],
    wipe: Mapping[str, tuple[str, ...]],
    image: Manifest,
    answers: Callable[[str], bool] = ssh_answers,
) -> tuple[tuple[Install, ...], dict[str, str]]:
    """Return which of these nodes would be installed, and why the others are not.

    A node with a recorded host key has an operating system, though it may be silent now: it is left as it is. So is
    one where ssh answers, unless `wipe` names a disk of it.

    Raises:
        UsageError: a disk is named of a node that is left as it is.
        LeaseHeldError: a run changes the cluster.
        HeadUnknownError: the head has an operating system, and cannot say which jobs run, or is not trusted yet.
    """
    nodes = [site.cluster.by_name[name] for name in names]
    reasons = {node.name: reason for node in nodes if (reason := _unfit(node) or _other_image(site, node, image))}
    for name in wipe.keys() & reasons.keys():
        raise UsageError(
            f"--wipe {name}: {reasons[name]}", f"hpcforge nodes replace BLUEPRINT {name} forgets an installed machine"
        )
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        candidates = [node for node in nodes if node.name not in reasons and node.name not in wipe]
        for node, answered in zip(candidates, pool.map(answers, [node.address for node in candidates]), strict=True):
            if answered:
                reasons[node.name] = f"ssh answers at {node.address}: --trust-new takes it as it is, --wipe installs it"
    fitting = [node for node in nodes if node.name not in reasons]
    reasons |= _with_jobs(site, fitting, wipe, answers)
    system = f"{image.lock.request.distribution.capitalize()} {image.lock.request.release}"
    chosen = tuple(
        Install(node.name, system, image.name, wipe.get(node.name, ()), node.system_disk.drives)
        for node in nodes
        if node.name not in reasons
    )
    return chosen, reasons


def _other_image(site: Site, node: Node, image: Manifest) -> str:
    os, request = site.cluster.os_of(node.name), image.lock.request
    if node.system_disk.drives > 1 and MIRRORS not in request.packages:
        return f"image {image.name} has no {MIRRORS}, which `system_disk.drives: {node.system_disk.drives}` takes"
    if (request.distribution, request.release) == (os.name, os.release):
        return ""
    content = f"image {image.name} has {request.distribution} {request.release}"
    return f"{content}, and the blueprint says {os.name} {os.release} (--image names another)"


def _unfit(node: Node) -> str:
    if node.host_keys:
        return "its host key is recorded: it has an operating system"
    if node.mac is None:
        return "its MAC address is not known"
    if node.bmc is None or node.bmc.address is None:
        return "its management controller is not known"
    return ""


def _with_jobs(
    site: Site, nodes: Sequence[Node], wipe: Mapping[str, tuple[str, ...]], answers: Callable[[str], bool]
) -> dict[str, str]:
    head = site.cluster.by_name[site.cluster.slurm.controller]
    if not nodes:
        return {}
    if not head.host_keys:  # a head without an operating system has no Slurm
        wiped = [node.name for node in nodes if node.name in wipe]
        if wiped and head not in nodes and answers(head.address):
            raise HeadUnknownError(
                f"jobs of {fold(wiped)} cannot be read: ssh answers on {head.name}, but its host key is not recorded",
                "record it first: " + command_line("apply", site.loaded.blueprint_path, trust_new=True),
            )
        return {}
    with open_engines(site) as engine:
        refuse_while_applying(engine, head.name)
        try:
            return disturbed(nodes, jobs(engine, head.name))
        except HeadUnknownError as error:
            hint = f"{head.name} has an operating system, so it must answer before others are switched off"
            raise HeadUnknownError(str(error), hint) from None


@dataclass(frozen=True)
class InstallWatch:
    """Settings for following nodes until ssh answers, with the clock."""

    limit_s: float = LIMIT_S
    every_s: float = _EVERY_S
    answers: Callable[[str], bool] = ssh_answers
    now_s: Callable[[], float] = time.monotonic


_WATCH = InstallWatch()


def install(
    site: Site,
    installs: Sequence[Install],
    check: Callable[[], None],
    say: Callable[[str], None],
    *,
    watch: InstallWatch = _WATCH,
    finished: Callable[[Installation], None] = lambda _: None,
) -> list[Installation]:
    """Install these nodes while they are served, and record their host keys; a node that fails twice is left out.

    `check` raises once the servers have ended; `finished` gets each node as it ends. At the end of this function
    remaining requests are withdrawn, and the nodes' controllers no longer boot from the network.
    """
    names = [install.node for install in installs]
    by_node = controllers(site, names)
    want(site, names, _wipes(installs), installs[0].image, _TRIES * watch.limit_s / 3600)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        work = _Work(site, installs, by_node, pool, say, watch, finished)
        try:
            work.boot(names)
            while work.open:
                check()
                work.step()
                time.sleep(watch.every_s if work.open else 0.0)
        finally:
            work.stopped.set()
            try:
                withdraw(site, names)
            finally:
                work.series.shutdown(wait=True, cancel_futures=True)
                work.cut_off()
                work.forget()
    return [work.done[name] for name in names]


def left_out(
    site: Site, installs: Sequence[Install], answers: Callable[[str], bool] = ssh_answers
) -> list[Installation]:
    """Return the nodes that got a job since they were chosen. Raises as `choose` does."""
    chosen = [site.cluster.by_name[install.node] for install in installs]
    reasons = _with_jobs(site, chosen, _wipes(installs), answers)
    return [Installation(name, 0, reason) for name, reason in reasons.items()]


def _wipes(installs: Sequence[Install]) -> dict[str, tuple[str, ...]]:
    return {install.node: install.wipes for install in installs if install.wipes}


class _Work:
    def __init__(
        self,
        site: Site,
        installs: Sequence[Install],
        by_node: Mapping[str, Controller],
        pool: ThreadPoolExecutor,
        say: Callable[[str], None],
        watch: InstallWatch,
        finished: Callable[[Installation], None],
    ) -> None:
        self.site, self.by_node, self.pool, self.say = site, by_node, pool, say
        self.limit_s, self.answers, self.now_s, self.finished = watch.limit_s, watch.answers, watch.now_s, finished
        self.installs = {install.node: install for install in installs}
        self.open = {name: _Try() for name in self.installs}
        self.done: dict[str, Installation] = {}
        self.switched: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        # One after another, since turns and the power budget apply to one series of nodes. A separate executor:
        # waiting nodes must not take threads from `pool`, which contacts nodes by ssh.
        self.series = ThreadPoolExecutor(1)
        self.stopped = threading.Event()
        self.restarts: dict[bool, list[str]] = {True: [], False: []}  # True: from the network
        self.network_booted: set[str] = set()  # nodes whose controllers were asked to boot from the network
        self.refused: set[str] = set()  # nodes whose controllers refuse the login, or have another certificate

    def boot(self, names: Collection[str], *, network: bool = True) -> None:
        """Have nodes start; how that comes out is in the queue."""
        for name in names:
            self.open[name].asked_s = self.now_s()
        self.series.submit(self._switch, tuple(names), network)

    def _switch(self, names: Sequence[str], network: bool) -> None:
        remaining = dict.fromkeys(names)
        if network and not self.stopped.is_set():
            self.network_booted.update(names)
        try:
            with contextlib.closing(_started(self.site, self.by_node, names, network, self.stopped)) as outcomes:
                for outcome in outcomes:
                    if outcome.reason in _REFUSED:
                        self.refused.add(outcome.node)
                    self.switched.put(outcome)
                    remaining.pop(outcome.node, None)
                    if self.stopped.is_set():
                        return
        except Exception as error:  # otherwise the nodes would be waited for forever
            for name in remaining:
                self.switched.put(Outcome(name, "failed", why=f"it cannot be switched on: {type(error).__name__}"))

    def cut_off(self) -> None:
        """Have the records say which disks were being written when this ended."""
        for name in self.open:
            half = records_of(self.site).change(
                name, lambda record: failed(record, "it was cut off") if record and record.state == "begun" else None
            )
            if half is not None:
                wipe = [f"{name}={serial}" for serial in half.disks]
                command = command_line("apply", self.site.loaded.blueprint_path, install=name, wipe=wipe)
                self.say(f"{name}: cut off while disk {' and '.join(half.disks)} was written; again: {command}")

    def forget(self) -> None:
        """Have controllers of nodes without an operating system forget the network, so that none starts from it."""
        names = [
            name
            for name in self.installs
            if name in self.network_booted - self.refused and (name in self.open or self.done[name].why)
        ]
        self._boot_as_before(names)
        for name in sorted(self.network_booted & self.refused):
            self.say(f"{name}: it may still boot from the network: its controller refuses hpcforge")

    def _boot_as_before(self, names: Sequence[str]) -> None:
        off = []
        for outcome in carried_out(self.by_node, names, Wish("boot-once", device="none")):
            if outcome.state != "done":
                command = command_line(
                    "power", "boot-once", self.site.loaded.blueprint_path, outcome.node, device="none"
                )
                self.say(f"{outcome.node}: it may still boot from the network: {outcome.why}; {command}")
            elif outcome.power == "off":
                off.append(outcome.node)
        if off:
            self.say(f"off: {fold(off)}")

    def step(self) -> None:
        """Follow every node once."""
        while not self.switched.empty():
            self._switched(self.switched.get())
        records = records_of(self.site).read()
        for name in [name for name, tried in self.open.items() if tried.on_s is not None and tried.installed_s is None]:
            self._follow(name, records.get(name))
        self._ask_for_ssh(records)
        self._start_again()

    def _ask_for_ssh(self, records: Mapping[str, Record]) -> None:
        """Ask machines that start from their disk, or could: ssh before the boot script is another system's."""
        on = {name: tried for name, tried in self.open.items() if tried.on_s is not None}
        starting = [name for name, tried in on.items() if tried.installed_s is not None or _unasked(records.get(name))]
        addresses = [self.site.cluster.by_name[name].address for name in starting]
        for name, answered in zip(starting, self.pool.map(self.answers, addresses), strict=True):
            if on[name].installed_s is None:
                if answered and _unasked(records_of(self.site).read().get(name)):
                    self._fail(name, _OWN_DISK, retry=False)
            elif answered:
                self._finish(name, "")
            elif self._late(name):
                self._fail(name, f"installed, and ssh does not answer within {self.limit_s:g} s of power")

    def _start_again(self) -> None:
        """Start all nodes that failed in this step together, in turns."""
        for network, names in self.restarts.items():
            if names:
                self.boot(names, network=network)
        self.restarts = {True: [], False: []}

    def _switched(self, outcome: Outcome) -> None:
        tried = self.open.get(outcome.node)
        if tried is None or (tried.on_s is not None and outcome.state == "done"):
            return
        if outcome.state != "done":
            lasting = outcome.state == "skipped" or outcome.reason in _LASTING
            self._fail(outcome.node, outcome.why, retry=not lasting)
            return
        tried.on_s = self.now_s()
        tried.lasting_boot = outcome.next_boot == "network always"
        self.say(f"{outcome.node}: is on")

    def _follow(self, name: str, record: Record | None) -> None:
        tried = self.open[name]
        if record is None:
            self._fail(name, "its record is gone", retry=False)
        elif record.state == "failed":
            # If no disk was chosen, the next try would meet the same disks.
            self._fail(name, record.why, retry=bool(record.disks), console=record.console)
        elif record.state == "installed":
            tried.installed_s = self.now_s()
            tried.begun_s = tried.begun_s or tried.installed_s
            self.say(f"{name}: installed on {' and '.join(record.disks)}, {self._record_key(name)}; it starts")
            if tried.lasting_boot:
                self.pool.submit(self._boot_as_before, [name])  # a slow controller must not delay the others
        elif self._late(name):
            self._fail(name, _stopped_at(record, self.limit_s), console=record.console)
        elif record.state == "begun" and tried.begun_s is None:
            tried.begun_s = self.now_s()
        elif record.state == "offered":
            # The firmware's phase, which may be long, has ended; next are kernel and link.
            tried.offered_s = tried.offered_s or self.now_s()
            if self.now_s() - tried.offered_s > self.limit_s * _OF_INSTALLER:
                self._fail(name, _stopped_at(record, self.limit_s * _OF_INSTALLER))

    def _record_key(self, name: str) -> str:
        """Record a node's host key; a failure ends nothing for the others. Returns how it came out."""
        try:
            record_keys(self.site, [name])
        except (ExpectedError, OSError, ValueError, yaml.YAMLError) as error:
            command = command_line("netboot", "record", self.site.loaded.blueprint_path)
            return f"host key NOT recorded ({error}): {command}"
        return "host key recorded"

    def _late(self, name: str) -> bool:
        on_s = self.open[name].on_s
        return on_s is not None and self.now_s() - on_s > self.limit_s

    def _fail(self, name: str, reason: str, *, retry: bool = True, console: Sequence[str] = ()) -> None:
        tried = self.open[name]
        if not retry or tried.number == _TRIES:
            self._finish(name, reason, console)
            return
        self.say(f"{name}: {reason}; it is tried again")
        if tried.installed_s is not None:  # an installed node is only restarted
            now_s = self.now_s()
            self.open[name] = replace(tried, number=tried.number + 1, on_s=None, installed_s=now_s)
            self.restarts[False].append(name)
            return
        record = records_of(self.site).read().get(name)
        planned = self.installs[name]
        # Disks that were blank now have half of hpcforge's installation.
        wipe = (record.disks if record else ()) or planned.wipes
        want(self.site, [name], {name: wipe} if wipe else {}, planned.image, _TRIES * self.limit_s / 3600)
        self.open[name] = _Try(tried.number + 1)
        self.restarts[True].append(name)

    def _finish(self, name: str, reason: str, console: Sequence[str] = ()) -> None:
        tried = self.open.pop(name)
        if reason and tried.installed_s is None:
            records_of(self.site).change(name, lambda record: failed(record, reason, console) if record else None)
        offered_s = tried.offered_s or tried.begun_s
        times = (tried.asked_s, tried.on_s, offered_s, tried.begun_s, tried.installed_s, self.now_s())
        phases = zip(PHASES, times[:-1], times[1:], strict=True)
        took = {phase: end - start for phase, start, end in phases if start is not None and end is not None}
        self.done[name] = Installation(name, tried.number, reason, tuple(console), {} if reason else took)
        self.say(f"{name}: {f'left out: {reason}' if reason else 'ssh answers'}")
        self.finished(self.done[name])


def _started(
    site: Site, by_node: Mapping[str, Controller], names: Sequence[str], network: bool, stopped: threading.Event
) -> Generator[Outcome]:
    """Switch nodes off at once, and on in turns, from the network or as their firmware has it, until `stopped`."""
    override = Wish("boot-once", device="network" if network else "none")
    prepared = {outcome.node: outcome for outcome in carried_out(by_node, names, override, stopped)}
    if stopped.is_set():
        return
    yield from (outcome for outcome in prepared.values() if outcome.state != "done")
    ready = [name for name in names if prepared[name].state == "done"]
    off = list(carried_out(by_node, ready, Wish("off", hard=True, then_on=True), stopped)) if ready else []
    yield from (outcome for outcome in off if outcome.state != "done")
    still = [outcome for outcome in off if outcome.state == "done"]
    forgotten = [outcome for outcome in still if network and not outcome.next_boot.startswith("network")]
    for outcome in forgotten:
        yield replace(outcome, state="failed", why=_FORGOTTEN, reason="override")
    on = [outcome.node for outcome in still if outcome not in forgotten]
    for outcome in switched_on(site, by_node, on, Wish("on"), TurnRules(_PAUSE_S), stopped) if on else ():
        lasts = prepared[outcome.node].next_boot == "network always"
        yield replace(outcome, next_boot="network always" if lasts else outcome.next_boot)


def _unasked(record: Record | None) -> bool:
    return record is not None and record.state == "wanted"


def _stopped_at(record: Record, limit_s: float) -> str:
    explanations = {
        "wanted": "it never asked for its boot script: it did not boot from this network, or has another MAC address",
        "offered": "it got its boot script, and its installer never asked for a disk: kernel, driver or link",
        "begun": "its installation began, and did not end",
    }
    return f"{explanations.get(record.state, record.state)}, within {limit_s:g} s"
