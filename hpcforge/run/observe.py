"""Ask every node for its differences from the desired state, in one round trip each."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from hpcforge.blueprint.hostlist import fold
from hpcforge.cluster.model import Cluster
from hpcforge.engines.tasks import Engine, Event, NodeProgram
from hpcforge.kinds.files import File
from hpcforge.node.requests import Request
from hpcforge.plan.account_numbers import shared_folders
from hpcforge.plan.clocks import Span
from hpcforge.plan.desired import Desired, DesiredRole
from hpcforge.plan.diff import SLURM_NODES
from hpcforge.plan.observation import Accounts, Observation
from hpcforge.plan.roster import PATH as ROSTER_PATH
from hpcforge.run import leftover, worker_ports
from hpcforge.run.fanout import Waits, ask_all
from hpcforge.run.requests import wanted
from hpcforge.run.result import UNREACHABLE
from hpcforge.secrets.secret_files import Contents
from hpcforge.slurm.down_nodes import FIRST_LIMIT_S, SLURM_REQUESTS, slurm_requests
from hpcforge.slurm.jobs import SLURM_JOBS, SLURM_JOBS_COMMAND, SLURM_WAITING, SLURM_WAITING_COMMAND
from hpcforge.slurm.nodes import SLURM_NODES_COMMAND, not_scheduled, parse_slurm_nodes
from hpcforge.verify.verdict_records import VERDICTS_PATH

NO_SECRETS: Mapping[str, bytes] = {}
NO_FILES: Mapping[str, Sequence[str]] = {}
_TIMEOUT_S = 120.0
_BEGINS_S = 30.0  # until a node reports that it has begun; python3 normally starts within a second
_CUT = 1400  # characters: longer texts of first contact are cut off
_LOOK_AGAIN_S = 5.0  # until the next observation of an unconfirmed change


def observe(
    engine: Engine,
    cluster: Cluster,
    desired: Desired,
    secrets: Mapping[str, bytes] = NO_SECRETS,
    reads: Mapping[str, Sequence[str]] = NO_FILES,
    *,
    waits: Waits,
    probes: bool = True,
) -> dict[str, Observation]:
    """Return the answers of the nodes of `desired`, in its order. A node without an answer counts as unreachable.

    `secrets` are the secrets in its files, which no answer contains. `reads`: files to read, by node. `waits` gets the
    nodes that have not answered. `probes`: the controller tries the port of each slurmd, which logs that, and workers
    send a request to slurmctld and to slurmd.
    """
    contents = Contents(desired.texts, secrets)
    asks = {name: {**_asks(cluster, name), **(probe_asks(cluster, name) if probes else {})} for name in desired.nodes}
    requests = {
        name: _request(cluster, desired, name, contents, reads.get(name, ()), asks[name]) for name in desired.nodes
    }
    observed = ask(engine, requests, waits)
    return {
        name: _without_secrets(observation, desired.nodes[name], contents) for name, observation in observed.items()
    }


def _without_secrets(observation: Observation, roles: Sequence[DesiredRole], contents: Contents) -> Observation:
    """Return the same with reports on files that contain no secrets."""
    differs = dict(observation.differs)
    for role in roles:
        reported = differs.get(role.role, {})
        if reported.get(File.kind):
            by_path = {file.path: file for file in role.of(File)}
            files = [contents.heard(by_path.get(file["path"]), file) for file in reported[File.kind]]
            differs[role.role] = {**reported, File.kind: files}
    return dataclasses.replace(observation, differs=differs)


def observe_leaving(engine: Engine, nodes: Collection[str], waits: Waits) -> dict[str, Observation]:
    """Observe hpcforge's resources on nodes that have left the blueprint."""
    request: Request = {"verb": "observe", "wanted": [], "surplus": True}
    return ask(engine, dict.fromkeys(nodes, request), waits)


def observe_machines(engine: Engine, names: Collection[str], waits: Waits) -> dict[str, Observation]:
    """Return the facts of machines that no blueprint has yet."""
    request: Request = {"verb": "observe", "wanted": []}
    return ask(engine, dict.fromkeys(names, request), waits)


def wait_for_others(
    engine: Engine, busy: Mapping[str, Observation], timeout_s: float, say: Callable[[str], None]
) -> None:
    """Wait until the last steps of an earlier run on nodes have ended, or `timeout_s` has passed.

    A killed run leaves its last step active on each node: a second run does not repeat it beside it. The node reverts
    an unconfirmed guarded change soon: wait a few seconds for that, before the next observation.
    """
    waits = []
    unconfirmed: dict[str, dict[str, float]] = {}  # roles -> node -> seconds left
    for name, observation in busy.items():
        for guard in observation.armed:
            unconfirmed.setdefault(", ".join(guard["roles"]), {})[name] = float(guard["left_s"])
        work = observation.at_work
        if not work:
            continue
        say(f"{name}: a step of run {work.get('number')} by {work.get('who')} is still at work there: waiting for it")
        request: Request = {"verb": "wait", "timeout_s": timeout_s}
        waits.append(NodeProgram(f"wait:{name}", name, request, timeout_s + _TIMEOUT_S))
    for roles, left_s in unconfirmed.items():
        say(
            f"{fold(left_s)}: the node reverts an unconfirmed change of {roles} in {max(left_s.values()):.0f} s: "
            "waiting"
        )
    until = time.monotonic() + (_LOOK_AGAIN_S if unconfirmed else 0.0)
    for _ in ask_all(engine, waits):
        pass
    while time.monotonic() < until:
        engine.next(1.0)  # this keeps the lease alive


def ask(
    engine: Engine, requests: Mapping[str, Request], waits: Waits, timeout_s: float = _TIMEOUT_S
) -> dict[str, Observation]:
    """Return the answers to requests to observe, by node."""
    observed: dict[str, Observation] = {name: Observation(name) for name in requests}
    tasks = [
        NodeProgram(f"observe:{name}", name, request, timeout_s, begins_s=min(_BEGINS_S, timeout_s))
        for name, request in requests.items()
    ]
    for event in ask_all(engine, tasks, waits):
        observed[event.node] = _add_event(observed[event.node], event)
    return observed


def find_usable(
    engine: Engine, cluster: Cluster, say: Callable[[str], None], reads: Sequence[str] = ()
) -> tuple[dict[str, str], dict[str, Observation]]:
    """Return workers that jobs cannot use now, with the reason: unreachable, or not scheduled by Slurm.

    Also return the answers of all nodes; the controller's has the texts of the files `reads`.
    """
    nodes = [node.name for node in cluster.nodes]
    read = {cluster.slurm.controller: reads}
    none = Desired((), dict.fromkeys(nodes, ()), {})
    observed = observe(engine, cluster, none, reads=read, waits=Waits(say, None))
    head = observed[cluster.slurm.controller]
    states = not_scheduled(parse_slurm_nodes(head.answers.get(SLURM_NODES, "")))
    out = {worker.name: states[worker.name] for worker in cluster.workers if worker.name in states}
    lost = {
        name: UNREACHABLE + observation.unreachable
        for name, observation in observed.items()
        if observation.unreachable is not None
    }
    return out | lost, observed


def _request(
    cluster: Cluster,
    desired: Desired,
    name: str,
    contents: Contents,
    reads: Sequence[str],
    asks: dict[str, list[str]],
) -> Request:
    controller = name == cluster.slurm.controller
    return {
        "verb": "observe",
        "wanted": [wanted(role, contents) for role in desired.nodes[name]],
        "reads": [*([VERDICTS_PATH, ROSTER_PATH] if controller else []), *reads],
        "folders": shared_folders(cluster, name),
        "asks": asks,
    }


def _asks(cluster: Cluster, node: str) -> dict[str, list[str]]:
    if node != cluster.slurm.controller:
        return {}
    return {
        SLURM_NODES: list(SLURM_NODES_COMMAND),
        SLURM_JOBS: list(SLURM_JOBS_COMMAND),
        SLURM_WAITING: list(SLURM_WAITING_COMMAND),
        **leftover.asks(cluster),
    }


def probe_asks(cluster: Cluster, node: str) -> dict[str, list[str]]:
    """Return the questions that detect workers that take no job."""
    worker, controller = "worker" in cluster.by_name[node].functions, node == cluster.slurm.controller
    requests = {SLURM_REQUESTS: slurm_requests(FIRST_LIMIT_S)} if worker else {}
    return {**requests, **(worker_ports.asks(cluster) if controller else {})}


def _clock(data: Mapping[str, Any]) -> Span | None:
    """Return the bounds of the node's clock minus this host's, from the times of question and answer."""
    node, received = data.get("clock"), data.get("heard")
    if not (node and received):
        return None
    return Span(float(node["said_s"]) - received["said_s"], float(node["asked_s"]) - received["asked_s"])


def _add_event(observation: Observation, event: Event) -> Observation:
    data = event.data
    if event.kind == "observed":
        return dataclasses.replace(
            observation,
            facts=data["facts"],
            differs={difference["role"]: difference for difference in data["differs"]},
            obstacles=tuple(data["obstacles"]),
            accounts=Accounts(**data["accounts"]) if data.get("accounts") else None,
            reads=data["reads"],
            answers=data.get("answers", {}),
            receipt=data.get("receipt"),
            at_work=data.get("at_work"),
            reverted=tuple(data.get("reverted") or ()),
            armed=tuple(data.get("armed") or ()),
            clock=_clock(data),
        )
    if event.kind == "failed" and data["role"] is not None:
        return dataclasses.replace(observation, failed=(*observation.failed, data))
    if event.kind == "warning":
        return dataclasses.replace(observation, warnings=(*observation.warnings, str(data.get("detail"))))
    if event.kind == "no_python":
        accounts = Accounts(_numbers(data.get("users", "")), _numbers(data.get("groups", "")))
        return dataclasses.replace(observation, facts=data, python=False, accounts=accounts)
    if event.kind == "result" and not data["ok"]:
        return dataclasses.replace(observation, unreachable=data["error"] or "no answer", reason=data.get("reason"))
    if event.kind == "result" and not observation.facts:
        return dataclasses.replace(observation, unreachable="its answer does not match the request")
    return observation


def _numbers(text: str) -> dict[str, int]:
    """Return numbers by name of what a node without Python answers: NAME:NUMBER, with spaces between."""
    words = text.split()[: -1 if len(text) >= _CUT else None]  # the last may lack its end
    pairs = [word.partition(":") for word in words]
    return {name: int(number) for name, _, number in pairs if name and number.isascii() and number.isdecimal()}
