"""Workers that take no job: detection from the controller's answers, and the cause from the workers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from hpcforge.cluster.model import Cluster
from hpcforge.engines.tasks import Engine
from hpcforge.node.requests import Request
from hpcforge.plan.clocks import clocks_off
from hpcforge.plan.desired import Desired
from hpcforge.plan.diff import SLURM_NODES
from hpcforge.plan.observation import Observation
from hpcforge.run import worker_ports
from hpcforge.run.fanout import Waits
from hpcforge.run.observe import ask, probe_asks
from hpcforge.run.requests import wanted
from hpcforge.secrets.secret_files import Contents
from hpcforge.slurm.down_causes import (
    WorkerAnswers,
    causes,
    checked,
    controller_causes,
    controller_questions,
    questions,
)
from hpcforge.slurm.down_nodes import (
    COMPLETING,
    SECOND_LIMIT_S,
    SLURM_REQUESTS,
    DownWorker,
    down_workers,
    slurm_requests,
    slurmd_requests,
    still_suspect,
    suspect_states,
)
from hpcforge.slurm.nodes import SLURM_NODES_COMMAND

_HEAD_S = 10.0  # with the workers' time, a cause is determined within 30 s
_WORKERS_S = 18.0
_MOST_ASKED = 32  # workers: further ones likely have the same cause
_MOST_OBSTACLES = 5
_SLURMD_REQUESTS = "slurmd_requests"
# A user without rights makes it, for root alone: a reader of process lists cannot use it.
_CREDENTIAL = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "munge", "-n", "--restrict-uid=0"]


def find(
    cluster: Cluster, observed: Mapping[str, Observation], names: Collection[str], registered: Collection[str] = ()
) -> tuple[DownWorker, ...]:
    """Return those of the workers `names` that take no job by the answers of controller and workers, without causes.

    Some are suspects, which `explained` may leave out. `registered`: workers that have been configured, which Slurm has
    to list.
    """
    head = observed[cluster.slurm.controller]
    workers = [node.name for node in cluster.workers if node.name in names]
    number = _slurm_uid(cluster, head)
    numbers = {name: _slurm_uid(cluster, observed[name]) for name in workers if name in observed}
    refusing = {name for name, worker_number in numbers.items() if number and worker_number not in (None, number)}
    requests = {name: observed[name].answers.get(SLURM_REQUESTS, "") for name in numbers}
    return down_workers(
        workers,
        head.answers.get(SLURM_NODES, ""),
        worker_ports.silent(cluster, head.answers),
        cluster.os_of(head.node).account("slurm"),
        registered=registered,
        refusing=refusing,
        suspects=suspect_states(head.answers.get(COMPLETING, ""), requests),
    )


def _slurm_uid(cluster: Cluster, observation: Observation) -> int | None:
    """Return the number of slurmctld's account there; None where it is not known."""
    return (
        observation.accounts.users.get(cluster.os_of(observation.node).account("slurm"))
        if observation.accounts
        else None
    )


def configured(observed: Mapping[str, Observation]) -> list[str]:
    """Return the reachable nodes that hpcforge has configured before."""
    return [
        name for name, observation in observed.items() if observation.unreachable is None and observation.configured
    ]


def look(
    engine: Engine, cluster: Cluster, names: Collection[str], before: Mapping[str, Observation]
) -> tuple[DownWorker, ...]:
    """Ask the controller now, and workers without an answer in `before`; as `find`, for configured workers."""
    head = cluster.slurm.controller
    new = [name for name in names if name != head and name not in before]
    requests = {name: _observe_request(probe_asks(cluster, name)) for name in new}
    requests[head] = _observe_request({SLURM_NODES: list(SLURM_NODES_COMMAND), **probe_asks(cluster, head)})
    return find(cluster, {**before, **_answers(engine, requests, _HEAD_S)}, names, names)


def _observe_request(asks: dict[str, list[str]]) -> Request:
    return {"verb": "observe", "wanted": [], "asks": asks, "folders": []}


def explained(
    engine: Engine, cluster: Cluster, desired: Desired, workers: Sequence[DownWorker]
) -> tuple[DownWorker, ...]:
    """Ask the workers, and the controller about them; return them with causes, within 30 s.

    A drained worker is not asked: the reason of the drain is the cause. Suspects for which the second look of both
    sides gives no cause are left out.
    """
    may_be_asked = sorted(
        (worker for worker in workers if worker.state != "drained"), key=lambda worker: worker.suspect
    )
    names = [worker.node for worker in may_be_asked][:_MOST_ASKED]
    if not names:
        return tuple(workers)
    head = cluster.slurm.controller
    head_observation = _answers(engine, {head: _head_request(cluster, names)}, _HEAD_S)[head]
    credential = head_observation.answers.get("credential", "").strip()
    requests = {name: _worker_request(cluster, desired, name, credential) for name in names}
    observed = _answers(engine, requests, _WORKERS_S)
    by_name = {
        w.node: _with_causes(cluster, w, head_observation, observed[w.node]) for w in workers if w.node in observed
    }
    several = any(worker.suspect and by_name.get(worker.node) for worker in workers)  # the others are likely no better
    by_name |= {w.node: w for w in workers if w.node not in by_name and (several or not w.suspect)}
    return tuple(worker for name in (worker.node for worker in workers) if (worker := by_name.get(name)))


def silent_controller(engine: Engine, cluster: Cluster, desired: Desired, head: Observation) -> tuple[DownWorker, ...]:
    """Return the head with the causes where it was configured with Slurm and has not listed its nodes; else none."""
    has_slurm = any(role.role == desired.scheduler for role in desired.nodes.get(head.node, ()))
    if head.unreachable is not None or not head.configured or not has_slurm or SLURM_NODES in head.answers:
        return ()
    os = cluster.os_of(head.node)
    asks = controller_questions(os.unit("slurmctld.service"), os.unit("munge.service"))
    answers = _answers(engine, {head.node: _observe_request(asks)}, _HEAD_S)[head.node].answers
    return (DownWorker(head.node, "", causes=controller_causes(head.node, answers)),)


def _answers(engine: Engine, requests: Mapping[str, Request], timeout_s: float) -> dict[str, Observation]:
    return ask(engine, requests, Waits(lambda _: None, None), timeout_s)


def _head_request(cluster: Cluster, names: Sequence[str]) -> Request:
    asks = {
        SLURM_NODES: list(SLURM_NODES_COMMAND),
        _SLURMD_REQUESTS: slurmd_requests(names, SECOND_LIMIT_S),
        "credential": list(_CREDENTIAL),
        worker_ports.SLURMD_PORTS: worker_ports.probe(worker_ports.slurmd(cluster, name) for name in names),
    }
    return _observe_request(asks)


def _worker_request(cluster: Cluster, desired: Desired, name: str, credential: str) -> Request:
    os = cluster.os_of(name)
    units = os.unit("slurmd.service"), os.unit("munge.service")
    # Checks may wait for half a minute.
    roles = [replace(role, checks=(), opaque=None) for role in desired.nodes.get(name, ())]
    contents = Contents(desired.texts, {})
    return {
        "verb": "observe",
        "wanted": [wanted(role, contents) for role in roles],
        "inspect": True,
        "folders": [],
        "asks": {
            **questions(*units, credential),
            SLURM_REQUESTS: slurm_requests(SECOND_LIMIT_S),
            "ports": worker_ports.probe(worker_ports.services(cluster, name)),
        },
    }


def _with_causes(
    cluster: Cluster, worker: DownWorker, head_observation: Observation, observation: Observation
) -> DownWorker | None:
    """Return a worker with the causes, or with what was checked; None for a suspect that may well be healthy."""
    still = still_suspect(worker, head_observation.answers.get(SLURM_NODES, ""))
    if observation.unreachable is not None:
        if worker.suspect and not still and worker.node not in worker_ports.silent(cluster, head_observation.answers):
            return None
        return replace(worker, checked=f"{worker.node} did not answer hpcforge: {observation.unreachable}")
    answers = _worker_answers(cluster, worker.node, head_observation, observation)
    reasons = causes(answers)
    both_answered = SLURM_REQUESTS in observation.answers and _SLURMD_REQUESTS in head_observation.answers
    if worker.suspect and (answers.cut_off or still) and causes(replace(answers, obstacles=())):
        return replace(worker, reason=worker.reason or (answers.evidence if answers.cut_off else ""), causes=reasons)
    if worker.suspect and (not still or worker.state == COMPLETING or (both_answered and not answers.cut_off)):
        return None
    return replace(worker, causes=reasons, checked="" if reasons else checked(answers))


def _worker_answers(
    cluster: Cluster, node: str, head_observation: Observation, observation: Observation
) -> WorkerAnswers:
    head = cluster.slurm.controller
    clocks = {
        name: answer.clock
        for name, answer in ((head, head_observation), (node, observation))
        if answer.clock is not None
    }
    off = [clock.said for clock in clocks_off(clocks, head, ()) if clock.node == node and abs(clock.off_s) > 60]
    services = worker_ports.services(cluster, node)
    unreached = worker_ports.failures(observation.answers.get("ports", ""))
    obstacles = observation.obstacles[:_MOST_OBSTACLES]
    return WorkerAnswers(
        node,
        head,
        observation.answers,
        (_slurm_uid(cluster, observation), _slurm_uid(cluster, head_observation)),
        off[0] if off else "",
        worker_ports.silent(cluster, head_observation.answers).get(node, ""),
        [f"{services[port]} ({port}): {reason}" for port, reason in unreached.items() if port in services],
        [f"{node}: {obstacle['kind']} {obstacle['name']}: {obstacle['why']}" for obstacle in obstacles],
        sorted(observation.answers.get(SLURM_REQUESTS, "").split()),
        node in head_observation.answers.get(_SLURMD_REQUESTS, "").split(),
    )
