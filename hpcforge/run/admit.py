"""After a run: drain the workers that fall short of what they declare, resume those that no longer do."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpcforge.blueprint.hostlist import fold
from hpcforge.engines.tasks import Command, Engine, command_failure
from hpcforge.plan.admission import DeclaredWorker, DrainOrder, Shortfall, drains, judged, shortfalls, unsettled
from hpcforge.plan.plan import Plan
from hpcforge.run.result import RunResult
from hpcforge.slurm.nodes import SLURM_NODES_COMMAND, down, drained, not_scheduled, parse_slurm_nodes

_TIMEOUT_S = 30.0
_POLL_S = 0.5


@dataclass(frozen=True)
class Admission:
    """Who falls short, what Slurm was told, which nodes it does not schedule on, and what went wrong on the way."""

    shortfalls: tuple[Shortfall, ...]
    ordered: tuple[DrainOrder, ...]
    not_scheduled: Mapping[str, str]  # node of Slurm's, also one that was not judged -> its state and reason
    error: str | None


def admit(
    engine: Engine, plan: Plan, facts: Mapping[str, Mapping[str, Any]], settle_s: float, ended: RunResult
) -> Admission:
    """Judge the workers by their latest facts (by node) and tell Slurm; only the difference is sent.

    `ended` is how the run did. Who failed in it or was lost is not resumed. Daemons that were restarted have up to
    `settle_s` seconds to register before and after that; not those of workers that it did not finish, which it may
    never have started.
    """
    keep, unfinished = {*ended.failed(), *ended.lost}, ended.unfinished()
    workers = tuple(worker for worker in plan.declared if worker.node in facts)
    awaited = tuple(worker for worker in workers if worker.node not in unfinished)
    short = tuple(
        shortfall for worker in workers for shortfall in shortfalls(worker, facts[worker.node], gpus_ready=True)
    )
    try:
        states = _settled(engine, plan.controller, awaited, settle_s)
        orders = drains(short, judged(workers, states), keep)
        for (state, *reason), nodes in _together(orders).items():
            _ask(engine, plan.controller, "scontrol", "update", f"NodeName={fold(nodes)}", state, *reason)
        if orders:
            states = _settled(engine, plan.controller, awaited, settle_s)
    except _SlurmError as error:
        return Admission(short, (), {}, str(error))
    # Others, which were not waited for, may be about to register.
    known = judged(workers, states) | {n: state for n, state in states.items() if drained(state[0]) or down(state[0])}
    return Admission(short, orders, not_scheduled(known), None)


def _together(orders: Iterable[DrainOrder]) -> dict[tuple[str, ...], list[str]]:
    """Slurm's update -> its nodes: a thousand nodes with the same fault need one command."""
    told: dict[tuple[str, ...], list[str]] = {}
    for order in orders:
        words = (f"State={order.action.upper()}", *([f"Reason={order.reason}"] if order.action == "drain" else []))
        told.setdefault(words, []).append(order.node)
    return told


class _SlurmError(Exception):
    """The controller did not do what it was asked."""


def _settled(
    engine: Engine, controller: str, workers: Sequence[DeclaredWorker], settle_s: float
) -> dict[str, tuple[str, str]]:
    """Slurm's view of all its nodes, once none of these workers is on its way up, or when time is up."""
    until = time.monotonic() + settle_s
    while True:
        states = parse_slurm_nodes(_ask(engine, controller, *SLURM_NODES_COMMAND))
        if not unsettled(judged(workers, states)) or time.monotonic() >= until:
            return states
        time.sleep(_POLL_S)


def _ask(engine: Engine, node: str, *argv: str) -> str:
    data = engine.run(Command(f"slurm:{time.monotonic_ns()}", node, argv, "", "root", _TIMEOUT_S)).data
    if not data["ok"]:
        command = "scontrol show node" if argv == SLURM_NODES_COMMAND else shlex.join(argv)
        raise _SlurmError(command_failure(command, data))
    return str(data["stdout"])
