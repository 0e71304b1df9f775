"""Ask every node, in one round trip each, what differs from what is wanted of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hpcforge.cluster.model import Cluster
from hpcforge.engines.tasks import Engine, Event, Program
from hpcforge.plan.admission import SLURM_NODES_COMMAND, not_scheduled, parse_slurm_nodes
from hpcforge.plan.desired import Desired
from hpcforge.plan.diff import SLURM_NODES
from hpcforge.plan.observed import Observed
from hpcforge.verify.verdicts import VERDICTS_PATH

UNREACHABLE = "unreachable: "  # how a reason begins where hpcforge could not get in
_TIMEOUT_S = 120.0


def observe(engine: Engine, cluster: Cluster, desired: Desired, nodes: Sequence[str]) -> dict[str, Observed]:
    """Every node's answer, in the order of `nodes`; one that gives none is reported as unreachable, not left out."""
    waiting = {f"observe:{name}" for name in nodes}
    seen: dict[str, Observed] = {name: Observed(name) for name in nodes}
    for name in nodes:
        engine.start(Program(f"observe:{name}", name, _request(cluster, desired, name), _TIMEOUT_S))
    while waiting:
        event = engine.next(_TIMEOUT_S)
        if event is None or event.task not in waiting:
            continue
        seen[event.node] = _taken(seen[event.node], event)
        if event.kind == "result":
            waiting.discard(event.task)
    return seen


def find_usable(engine: Engine, cluster: Cluster) -> dict[str, str]:
    """Workers that jobs cannot use just now, and why: hpcforge cannot reach them, or Slurm does not schedule there."""
    nodes = [node.name for node in cluster.nodes]
    seen = observe(engine, cluster, Desired((), dict.fromkeys(nodes, ()), {}), nodes)
    states = not_scheduled(parse_slurm_nodes(seen[cluster.slurm.controller].answers.get(SLURM_NODES, "")))
    out = {worker.name: states[worker.name] for worker in cluster.workers if worker.name in states}
    lost = {name: UNREACHABLE + one.unreachable for name, one in seen.items() if one.unreachable is not None}
    return out | lost


def _request(cluster: Cluster, desired: Desired, name: str) -> dict[str, object]:
    controller = name == cluster.slurm.controller
    return {
        "verb": "observe",
        "wanted": [dataclasses.asdict(wanted) for wanted in desired.nodes[name]],
        "reads": [VERDICTS_PATH] if controller else [],
        "asks": {SLURM_NODES: list(SLURM_NODES_COMMAND)} if controller else {},
    }


def _taken(seen: Observed, event: Event) -> Observed:
    data = event.data
    if event.kind == "observed":
        return dataclasses.replace(
            seen,
            facts=data["facts"],
            differs={one["role"]: one for one in data["differs"]},
            reads=data["reads"],
            answers=data.get("answers", {}),
        )
    if event.kind == "no_python":
        return dataclasses.replace(seen, facts=data, python=False)
    if event.kind == "result" and not data["ok"]:
        return dataclasses.replace(seen, unreachable=data["error"] or "no answer")
    if event.kind == "result" and not seen.facts:
        return dataclasses.replace(seen, unreachable="it answered, but not what was asked")
    return seen
