"""The status of a cluster, without any change: its nodes, the present run, the last runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hpcforge.cluster.model import Cluster
from hpcforge.engines.tasks import Engine
from hpcforge.plan.admission import DeclaredWorker, declared, gpu_shortfalls
from hpcforge.plan.desired import Desired
from hpcforge.plan.diff import SLURM_NODES
from hpcforge.plan.gpus import remarks
from hpcforge.plan.observation import Observation, taken_back
from hpcforge.plan.roster import Enrolled, Roster, leaving
from hpcforge.run import down_workers
from hpcforge.run.fanout import Waits
from hpcforge.run.observe import observe
from hpcforge.run.records.history import History, Past, last_changed, read_log
from hpcforge.run.records.lease import LeaseHolder, ended, look
from hpcforge.secrets.certificate_expiry import Certificate, certificate_paths, certificates
from hpcforge.slurm.down_nodes import DownWorker
from hpcforge.slurm.nodes import parse_slurm_nodes
from hpcforge.verify.verdict_records import VERDICTS_PATH, Recorded, load

_NO_ROLES = Desired((), {}, {})


@dataclass(frozen=True)
class NodeStatus:
    """One node of the blueprint."""

    name: str
    unreachable: str | None  # the reason for no answer
    slurm: str | None  # "idle", "down: Not responding"; None: Slurm does not know it, or cannot be asked
    changed: Past | None  # the last run in the read history that changed it
    run: int | None  # the newest run in its receipt
    troubles: tuple[str, ...] = ()
    nvml: Mapping[str, Any] | None = None  # GPUs as its driver reports them: `hpcforge.node.answer_types.Nvml`
    certificates: tuple[Certificate, ...] = ()
    down: DownWorker | None = None  # set where it takes no job, though no operator holds it
    reason: str | None = None  # the kind of unreachable, as an Event has it


@dataclass(frozen=True)
class Status:
    """The status of a cluster. Ages are in seconds."""

    cluster: str
    head: str
    nodes: tuple[NodeStatus, ...]
    leaving: Mapping[str, Enrolled]  # in the roster, not in the blueprint
    away: str | None  # the reason for no answer of the head; history and roster are then this host's copy
    at_work: LeaseHolder | None
    history: History
    verdicts: Recorded
    notes: tuple[str, ...] = field(default=())  # unreadable records, and their replacements

    @property
    def last(self) -> Past | None:
        """The newest run."""
        return self.history.runs[-1] if self.history.runs else None


def status(
    engine: Engine,
    cluster: Cluster,
    last: int,
    say: Callable[[str], None],
    kept_as: str | None = None,
    desired: Desired = _NO_ROLES,
    probes: bool = True,
) -> Status:
    """Ask every node, and the head for its records: of the history, the `last` runs. `kept_as`: see `read_log`.

    `say` prints the nodes that have not answered. `desired`: the roles of each node; their certificates are checked,
    and whether a change that the node reverted is still due. `probes` as in `observe`.
    """
    none = Desired((), {node.name: () for node in cluster.nodes}, {})
    paths = {name: certificate_paths(desired.nodes.get(name, ())) for name in none.nodes}
    observed = observe(engine, cluster, none, reads=paths, waits=Waits(say, None), probes=probes)
    needed = _needed_again(engine, cluster, desired, observed, say)
    head = cluster.slurm.controller
    down = _down(engine, cluster, desired, observed)
    silent = down_workers.silent_controller(engine, cluster, desired, observed[head])
    down |= {worker.node: worker for worker in silent}
    history, roster, away = read_log(engine, head, cluster.name, last, kept_as)
    recorded = load(observed[head].reads.get(VERDICTS_PATH))
    nodes = _nodes(cluster, desired, observed, history, needed)
    holder = look(engine, head) if away is None else None
    dead = holder if holder and ended(holder.process) else None
    notes = _notes(head, away, history, roster, recorded)
    notes += [f"Slurm on {head} does not list its nodes: {controller.explanation}" for controller in silent]
    if dead:
        notes.append(f"{dead.sentence()}: that process has ended on this machine, and the run was cut off")
    shown = tuple(_with_down(node, down.get(node.name)) for node in nodes)
    holder = None if dead else holder
    leavers = leaving(roster, cluster)
    return Status(cluster.name, head, shown, leavers, away, holder, history, recorded, tuple(notes))


def _nodes(
    cluster: Cluster,
    desired: Desired,
    observed: Mapping[str, Observation],
    history: History,
    needed: Mapping[str, Collection[str]],
) -> list[NodeStatus]:
    """Return the status of each node, with its state in Slurm, its last change and its certificates."""
    slurm = parse_slurm_nodes(observed[cluster.slurm.controller].answers.get(SLURM_NODES, ""))
    changed, certified = last_changed(history), _certified(desired, observed)
    workers = {worker.node: worker for worker in declared(cluster)}
    return [
        _node(answer, slurm.get(name), changed.get(name), workers.get(name), certified[name], needed.get(name))
        for name, answer in observed.items()
    ]


def _certified(desired: Desired, observed: Mapping[str, Observation]) -> dict[str, tuple[Certificate, ...]]:
    """Return the certificates of nodes, by name."""
    now_s = time.time()
    return {
        name: certificates(desired.nodes.get(name, ()), observation.reads, now_s)
        for name, observation in observed.items()
    }


def _down(
    engine: Engine, cluster: Cluster, desired: Desired, observed: Mapping[str, Observation]
) -> dict[str, DownWorker]:
    """Return the workers that take no job, with the causes, by name."""
    names = down_workers.configured(observed)
    suspects = down_workers.find(cluster, observed, names, names)
    return {worker.node: worker for worker in down_workers.explained(engine, cluster, desired, suspects)}


def past_runs(engine: Engine, cluster: Cluster, last: int, kept_as: str) -> tuple[tuple[Past, ...], str | None]:
    """Return the `last` runs, and why the head could not be asked for them, if they are from this host's copy."""
    history, _, away = read_log(engine, cluster.slurm.controller, cluster.name, last, kept_as)
    return history.runs, away


def _needed_again(
    engine: Engine, cluster: Cluster, desired: Desired, observed: Mapping[str, Observation], say: Callable[[str], None]
) -> dict[str, Collection[str]]:
    """Return by node the roles with a reverted change that still differ from the desired state.

    A role with a secret in a file counts as such: `status` reads no secrets.
    """
    reverted = {
        name: {reversal["role"] for reversal in node.reverted} for name, node in observed.items() if node.reverted
    }
    roles = {
        name: tuple(role for role in desired.nodes.get(name, ()) if role.role in reverted[name]) for name in reverted
    }
    if not any(roles.values()):
        return {}
    latest = observe(engine, cluster, replace(desired, nodes=roles), waits=Waits(say, None), probes=False)
    return {
        name: reverted[name]
        if observation.unreachable
        else {*observation.differs, *(failed["role"] for failed in observation.failed)}
        for name, observation in latest.items()
    }


def _node(
    observation: Observation,
    slurm: tuple[str, str] | None,
    changed: Past | None,
    worker: DeclaredWorker | None,
    certified: tuple[Certificate, ...],
    needed: Collection[str] | None,
) -> NodeStatus:
    receipt = observation.receipt or {}
    troubles = [f"its record is unusable: {receipt['trouble']}"] if receipt.get("trouble") else []
    if observation.at_work:
        troubles.append(
            f"a step of run {observation.at_work.get('number')} by {observation.at_work.get('who')} is at work"
        )
    troubles += [taken_back(reversal) for reversal in observation.reverted if reversal["role"] in (needed or ())]
    if not observation.python and observation.unreachable is None:
        troubles.append("it has no Python yet")
    nvml = observation.facts.get("nvml") or observation.facts.get("amdgpu")
    if nvml and worker:
        short = gpu_shortfalls(worker, observation.facts)
        troubles += [f"{shortfall.what} {shortfall.observed}, declared {shortfall.declared}" for shortfall in short]
    troubles += remarks(nvml) if nvml else ()
    state = None if slurm is None else f"{slurm[0].lower()}: {slurm[1]}" if slurm[1] else slurm[0].lower()
    number = receipt.get("run")
    run = number if isinstance(number, int) else None
    shown = NodeStatus(observation.node, observation.unreachable, state, changed, run, tuple(troubles), nvml, certified)
    return replace(shown, reason=observation.reason)


def _with_down(node: NodeStatus, down: DownWorker | None) -> NodeStatus:
    """Return the node with the causes for which it takes no job; its state and Slurm's reason are shown anyway."""
    if down is None or not down.state:
        return replace(node, down=down)
    since = f"down since {down.since}" if down.since and down.state == "down" else down.state
    text = ": ".join(filter(None, (since, down.explanation or down.reason)))
    return replace(node, troubles=(text, *node.troubles), down=down)


def _notes(head: str, away: str | None, history: History, roster: Roster, recorded: Recorded) -> list[str]:
    notes = []
    if away is not None:
        notes.append(f"{head} gives no answer ({away}): last run, history and node list are as this host last saw them")
    if history.unreadable:
        notes.append(f"unreadable lines of the history: {history.unreadable}")
    if roster.problem:
        notes.append(f"the node list cannot be used: {roster.problem}; nodes that left the blueprint are not noticed")
    if recorded.problem:
        notes.append(f"the last verdicts cannot be read: {recorded.problem}")
    return notes
