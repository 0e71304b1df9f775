"""Power of a cluster's nodes: which may be switched, in which order, and with which result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Literal, NamedTuple, TypeVar

from hpcforge import __version__
from hpcforge.blueprint.hostlist import fold
from hpcforge.blueprint.inventory import BmcsSection
from hpcforge.cluster.model import Function, Node
from hpcforge.command_hint import command_line
from hpcforge.engines import Engines
from hpcforge.engines.tasks import Command
from hpcforge.errors import ExpectedError, UsageError
from hpcforge.metal.bmc import BmcError, Controller, Login, Power
from hpcforge.metal.bmc.fallback import RedfishOrIpmi
from hpcforge.metal.bmc.ipmi import Ipmi
from hpcforge.metal.bmc.redfish import Redfish
from hpcforge.metal.bmc.verbs import Wish, carry_out
from hpcforge.metal.bmc_passwords import read_passwords
from hpcforge.run.records.lease import Lease, LeaseHeldError, ended, look, take
from hpcforge.run.result import begin
from hpcforge.run.site import Site
from hpcforge.secrets.secrets import BMC_PASSWORD, read_secrets
from hpcforge.slurm.jobs import SLURM_JOBS_COMMAND, parse_jobs, readable

# Order of switching on: nodes that others need come first. Off uses the reverse order.
ORDER: tuple[Function, ...] = ("storage", "head", "login", "worker")
_AT_ONCE = 32  # controllers asked side by side
_WARNINGS_S = 30.0  # limit for the warnings of a plan: no request begins later
_BETWEEN_BEATS_S = 1.0
_NO_SLURM = "no configuration of Slurm"
_ADDRESS_HINT = "in the inventory: `{}: {{bmc: {{address: 10.10.0.43}}}}`; or a network for BMCs"
_NEVER = Event()  # for verbs that always run to their end
_USUAL = BmcsSection.model_construct()

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
State = Literal["done", "skipped", "failed", "unreachable"]


class HeadUnknownError(ExpectedError):
    """The head cannot say which jobs run."""


@dataclass(frozen=True)
class Outcome:
    """The result of a verb on a node; `why` is empty after success."""

    node: str
    state: State
    power: Power = "unknown"
    next_boot: str = ""  # "network once"; "": the firmware's order
    why: str = ""
    hint: str = ""
    reason: str = ""  # reason of a failure, as in `BmcError`
    notes: tuple[str, ...] = ()
    quirks: tuple[str, ...] = ()


def without_controller(nodes: Sequence[Node]) -> dict[str, Outcome]:
    """Return the result of a verb on nodes without a known controller's address."""
    reason = "the address of its management controller is not known"
    lacking = [node.name for node in nodes if node.bmc is None or node.bmc.address is None]
    return {name: Outcome(name, "failed", why=reason, hint=_ADDRESS_HINT.format(lacking[0])) for name in lacking}


def accesses(site: Site, names: Sequence[str]) -> dict[str, Login]:
    """Return where each node's management controller is, and how to get in.

    Raises:
        UsageError: an address, the user or a password is not known; names the nodes and what to write.
        SecretsError: passwords cannot be read.
    """
    inventory = site.loaded.inventory
    bmcs = (inventory.bmcs if inventory else None) or _USUAL
    nodes = [site.cluster.by_name[name] for name in names]
    nowhere = [node.name for node in nodes if node.bmc is None or node.bmc.address is None]
    if nowhere:
        raise UsageError(
            f"the address of the management controller is not known: {fold(nowhere)}",
            _ADDRESS_HINT.format(nowhere[0]),
        )
    user = {node.name: (node.bmc.user if node.bmc else None) or bmcs.user for node in nodes}
    without_user = [name for name, account in user.items() if account is None]
    if without_user:
        raise UsageError(
            f"the user of the management controller is not known: {fold(without_user)}",
            "in the inventory: `bmcs: {user: admin}`",
        )
    password = password_of(site)
    port = bmcs.port or (443 if bmcs.protocol == "redfish" else 623)
    return {
        node.name: Login(
            address=node.bmc.address or "",
            user=user[node.name] or "",
            password=password(node.name),
            port=port,
            certificate=node.bmc.certificate,
            verified=bmcs.tls == "pinned",
            cipher_suite=bmcs.cipher_suite,
        )
        for node in nodes
        if node.bmc is not None
    }


def password_of(site: Site) -> Callable[[str], str]:
    """Return a function for the password of a node or an address. Raises `SecretsError`; the function, `UsageError`."""
    common, own = read_passwords(read_secrets(site.loaded.secrets_path, site.identity), site.cluster.nodes)

    def find(name: str) -> str:
        password = own.get(name, common)
        if not password:
            raise UsageError(
                f"the password of the management controller is not set: {name}",
                command_line("secrets", "set", site.loaded.blueprint_path, BMC_PASSWORD),
            )
        return password

    return find


def controllers(site: Site, names: Sequence[str]) -> dict[str, Controller]:
    """Return what talks to each node's controller. Raises as `accesses`."""
    kind: Callable[[Login], Controller] = Ipmi if _protocol(site) == "ipmi" else RedfishOrIpmi
    return {name: kind(access) for name, access in accesses(site, names).items()}


def boot_warnings(site: Site, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return what people should read before nodes boot from the network, by node; nothing of a silent controller.

    Raises as `accesses`.
    """

    def read(access: Login) -> tuple[str, ...]:
        try:
            return Redfish(access, limit_s=_WARNINGS_S).warnings()
        except BmcError:  # the same error appears when the node is switched on
            return ()

    if _protocol(site) == "ipmi":  # IPMI does not report the make
        return {}
    logins = accesses(site, names)
    with ThreadPoolExecutor(min(_AT_ONCE, max(1, len(logins)))) as pool:
        return dict(zip(logins, pool.map(read, logins.values()), strict=True))


def _protocol(site: Site) -> str:
    inventory = site.loaded.inventory
    return ((inventory.bmcs if inventory else None) or _USUAL).protocol


def refuse_while_applying(engine: Engines, head: str) -> None:
    """Raise `LeaseHeldError` while a run changes the cluster; a silent head is no obstacle."""
    holder = look(engine, head)
    if holder is not None and not ended(holder.process):
        raise LeaseHeldError(holder)


def jobs(engine: Engines, head: str) -> dict[str, tuple[str, ...]]:
    """Return the jobs on each node that has some; none where the head has no Slurm yet. Raises `HeadUnknownError`."""
    data = engine.run(Command("power:jobs", head, jobs_command(), user="root", timeout_s=30.0)).data
    output = str(data["stdout"])
    if not data["ok"]:
        raise HeadUnknownError(f"{head} cannot say which jobs run: {data['error']}")
    if output.strip() == _NO_SLURM:
        return {}
    if not readable(output):
        raise HeadUnknownError(f"{head} cannot say which jobs run: squeue printed no list of jobs")
    return parse_jobs(output)


def jobs_command(configuration: str = "/etc/slurm/slurm.conf") -> tuple[str, ...]:
    """Return the command that lists jobs. It fails where squeue is missing beside a configuration."""
    script = f'[ -e "$1" ] || [ -L "$1" ] || {{ echo "{_NO_SLURM}"; exit; }}; shift; exec "$@"'
    return ("sh", "-c", script, "sh", configuration, *SLURM_JOBS_COMMAND)


def disturbed(nodes: Sequence[Node], running: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Return the nodes on which a loss of power would end jobs, with the reason: workers' own jobs, else all jobs."""
    ids = tuple(dict.fromkeys(job for numbers in running.values() for job in numbers))
    reasons: dict[str, str] = {}
    for node in nodes:
        if own := running.get(node.name):
            reasons[node.name] = f"it runs {_jobs(own)}"
        elif ids and set(node.functions) != {"worker"}:
            reasons[node.name] = f"{_jobs(ids)} run in the cluster, which needs it"
    return reasons


def in_order(nodes: Sequence[Node], verb: str) -> list[tuple[str, ...]]:
    """Return the nodes in groups that follow each other: storage, head, login, workers; for `off` the other way."""
    groups: dict[int, list[str]] = {}
    for node in nodes:
        groups.setdefault(min(ORDER.index(function) for function in node.functions), []).append(node.name)
    ranks = sorted(groups, reverse=verb == "off")
    return [tuple(groups[rank]) for rank in ranks]


def carried_out(
    by_node: Mapping[str, Controller], names: Sequence[str], request: Wish, stopped: Event = _NEVER
) -> Iterator[Outcome]:
    """Do it on these nodes side by side, and yield each outcome. Once `stopped` is set, no other node begins."""
    yield from side_by_side(lambda name: _outcome(name, by_node[name], request), names, stopped)


def side_by_side(do: Callable[[_Item], _Result], items: Sequence[_Item], stopped: Event = _NEVER) -> Iterator[_Result]:
    """Yield the results of `do` for each item as they are ready; `do` must not raise.

    Once `stopped` is set, no other item begins. Once the caller ends, as by Ctrl-C, nothing waits for running items.
    """
    waiting: SimpleQueue[_Item] = SimpleQueue()
    results: SimpleQueue[_Result | None] = SimpleQueue()
    over = Event()
    for item in items:
        waiting.put(item)

    def work() -> None:
        with suppress(Empty):
            while not stopped.is_set() and not over.is_set():
                results.put(do(waiting.get_nowait()))
        results.put(None)

    # Python would wait for the threads of an executor, here and at exit.
    threads = [Thread(target=work, daemon=True) for _ in range(min(_AT_ONCE, len(items)))]
    try:
        for thread in threads:
            thread.start()
        working = len(threads)
        while working:
            if (ready := results.get()) is None:
                working -= 1
            else:
                yield ready
    finally:
        over.set()


def announced(site: Site, engine: Engines, names: Collection[str], say: Callable[[str], None]) -> Lease:
    """Take the lease on the head for nodes that are switched: it holds back their alerts. Raises `LeaseHeldError`."""
    run = begin(site.cluster.name, __version__)
    lease = take(engine, site.cluster.slurm.controller, run.id, run.who, 0.0, say)
    lease.nodes = frozenset(names)
    return lease


def beside(lease: Lease | None, outcomes: Callable[[Event], Iterator[Outcome]]) -> Iterator[Outcome]:
    """Yield outcomes while the lease beats, which is of this thread. Once the caller ends, no other node begins."""
    if lease is None:
        yield from outcomes(_NEVER)
        return
    ready: SimpleQueue[Outcome | BaseException | None] = SimpleQueue()
    over = Event()

    def work() -> None:
        try:
            for outcome in outcomes(over):
                ready.put(outcome)
            ready.put(None)
        except BaseException as error:  # raised again for the reader of the outcomes
            ready.put(error)

    Thread(target=work, daemon=True).start()
    try:
        while True:
            lease.stay_alive()
            try:
                outcome = ready.get(timeout=_BETWEEN_BEATS_S)
            except Empty:
                continue
            if outcome is None:
                return
            if isinstance(outcome, BaseException):
                raise outcome
            yield outcome
    finally:
        over.set()


class TurnRules(NamedTuple):
    """Rules for the turns in which nodes switch on."""

    pause_s: float  # pause between turns
    lost_feeds: Collection[str] = ()
    later: Collection[str] = ()  # nodes that are switched on later


def switched_on(
    site: Site,
    by_node: Mapping[str, Controller],
    names: Sequence[str],
    request: Wish,
    turns: TurnRules,
    stopped: Event = _NEVER,
) -> Iterator[Outcome]:
    """Switch nodes on in turns that the racks' power allows, with a pause between turns.

    All nodes are counted as running that are not seen to be off.
    Once `stopped` is set, no other node is switched on.
    """
    to_read = [*names, *(name for name in turns.later if name in by_node)]
    states = {outcome.node: outcome for outcome in carried_out(by_node, to_read, Wish("status"), stopped)}
    if stopped.is_set():
        return
    # A node counts unless its controller reports that it is off: a silent controller's node may run.
    on = [node.name for node in site.cluster.nodes if node.name not in states or states[node.name].power != "off"]
    yield from (states[name] for name in names if states[name].state != "done" or states[name].power == "on")
    for outcome in (
        states[name] for name in names if states[name].state == "done" and states[name].power not in ("on", "off")
    ):
        yield replace(outcome, state="failed", why=f"its power state is {outcome.power}, neither on nor off")
    off = [name for name in names if states[name].state == "done" and name not in on]
    planned = site.loaded.placed.start_turns(on, off, turns.lost_feeds)
    yield from (Outcome(node, "skipped", "off", why=reason) for node, reason in planned.refused.items())
    for number, turn in enumerate(planned.turns):
        if number:
            stopped.wait(turns.pause_s)
        yield from carried_out(by_node, turn, request, stopped)


def cycled(
    site: Site,
    by_node: Mapping[str, Controller],
    names: Sequence[str],
    request: Wish,
    turns: TurnRules,
    stopped: Event = _NEVER,
) -> Iterator[Outcome]:
    """Switch nodes off side by side, and on again once they are off, in turns as `switched_on` does."""
    off = list(carried_out(by_node, names, replace(request, verb="off", then_on=True), stopped))
    yield from (outcome for outcome in off if outcome.state != "done")
    names = [outcome.node for outcome in off if outcome.state == "done"]
    yield from switched_on(site, by_node, names, replace(request, verb="on"), turns, stopped)


def _outcome(name: str, controller: Controller, request: Wish) -> Outcome:
    try:
        machine = carry_out(controller, request)
    except BmcError as error:
        state: State = "unreachable" if error.reason == "unreachable" else "failed"
        return Outcome(name, state, error.power, "", str(error), error.hint, error.reason, (), tuple(controller.quirks))
    except Exception as error:  # an odd answer of one controller must not end the others; its text may contain a secret
        return Outcome(name, "failed", "unknown", "", f"its controller cannot be used: {type(error).__name__}")
    boot = machine.boot
    next_boot = "" if boot.device == "none" else f"{boot.device} {'once' if boot.once else 'always'}"
    return Outcome(name, "done", machine.power, next_boot, notes=machine.notes, quirks=tuple(controller.quirks))


def _jobs(ids: Sequence[str]) -> str:
    shown = ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
    return f"job{'s' * (len(ids) > 1)} {shown}"
