"""Ask every node, in one round trip each, what differs from what is wanted of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hpcforge.cluster.model import Cluster
from hpcforge.engines.tasks import Event, Program, Runner
from hpcforge.plan.admission import SLURM_NODES_COMMAND
from hpcforge.plan.desired import Desired
from hpcforge.plan.diff import SLURM_NODES
from hpcforge.plan.observed import Observed

VERDICTS_PATH = "/var/lib/hpcforge/verdicts.json"  # on the head: what the last verify said
_TIMEOUT_S = 120.0


def observe(runner: Runner, cluster: Cluster, desired: Desired, nodes: Sequence[str]) -> dict[str, Observed]:
    """Every node's answer, in the order of `nodes`; one that gives none is reported as unreachable, not left out."""
    waiting = {f"observe:{name}" for name in nodes}
    seen: dict[str, Observed] = {name: Observed(name) for name in nodes}
    for name in nodes:
        runner.start(Program(f"observe:{name}", name, _request(cluster, desired, name), _TIMEOUT_S))
    while waiting:
        event = runner.next(_TIMEOUT_S)
        if event is None or event.task not in waiting:
            continue
        seen[event.node] = _taken(seen[event.node], event)
        if event.kind == "result":
            waiting.discard(event.task)
    return seen


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
