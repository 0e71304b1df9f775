"""After a run: drain the workers that fall short of what they declare, resume those that no longer do."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

from hpcforge.blueprint.hostlist import fold
from hpcforge.engines.tasks import Command, Engine, command_failure
from hpcforge.plan.admission import DeclaredWorker, DrainOrder, drains, judged, shortfalls, unsettled
from hpcforge.plan.plan import Plan
from hpcforge.run.result import Admission, RunResult
from hpcforge.slurm.commands import update_nodes
from hpcforge.slurm.nodes import SLURM_NODES_COMMAND, down, drained, not_scheduled, parse_slurm_nodes

_TIMEOUT_S = 30.0
_POLL_S = 0.5
_PATIENCE_S = 15.0  # a daemon that starts registers within seconds


def admit(
    engine: Engine,
    plan: Plan,
    facts: Mapping[str, Mapping[str, Any]],
    settle_s: float,
    ended: RunResult,
    lost: Callable[[Sequence[str]], Container[str]] = lambda _: (),
) -> Admission:
    """Judge the workers by their latest facts (by node) and tell Slurm; only the difference is sent.

    `ended` is how the run did. Who failed in it or was lost is not resumed. Daemons that were restarted have up to
    `settle_s` seconds to register before and after that; not those of workers that it did not finish, which it may
    never have started. `lost` gets those that have not registered after 15 s; the ones that it returns are not waited
    for.
    """
    keep, unfinished = {*ended.failed(), *ended.lost}, ended.unfinished()
    workers = tuple(worker for worker in plan.declared if worker.node in facts)
    awaited = tuple(worker for worker in workers if worker.node not in unfinished)
    short = tuple(
        shortfall for worker in workers for shortfall in shortfalls(worker, facts[worker.node], gpus_ready=True)
    )
    try:
        states = _settled(engine, plan.controller, awaited, settle_s, lost)
        orders = drains(short, judged(workers, states), keep)
        for (state, reason), nodes in _together(orders).items():
            _ask(engine, plan.controller, *update_nodes(fold(nodes), state, reason))
        if orders:
            states = _settled(engine, plan.controller, awaited, settle_s, lost)
    except _SlurmError as error:
        return Admission(short, (), {}, str(error))
    # Others, which were not waited for, may be about to register.
    known = judged(workers, states) | {n: state for n, state in states.items() if drained(state[0]) or down(state[0])}
    return Admission(short, orders, not_scheduled(known), None)


def _together(orders: Iterable[DrainOrder]) -> dict[tuple[str, str], list[str]]:
    """State and reason -> the nodes to get them: a thousand nodes with the same fault need one command."""
    nodes: dict[tuple[str, str], list[str]] = {}
    for order in orders:
        reason = order.reason if order.action == "drain" else ""
        nodes.setdefault((order.action.upper(), reason), []).append(order.node)
    return nodes


class _SlurmError(Exception):
    """The controller did not do what it was asked."""


def _settled(
    engine: Engine,
    controller: str,
    workers: Sequence[DeclaredWorker],
    settle_s: float,
    lost: Callable[[Sequence[str]], Container[str]],
) -> dict[str, tuple[str, str]]:
    """Slurm's view of all its nodes, once none of these workers is on its way up, or when time is up."""
    began = time.monotonic()
    given_up: Container[str] | None = None
    while True:
        states = parse_slurm_nodes(_ask(engine, controller, *SLURM_NODES_COMMAND))
        awaited = {n: s for n, s in judged(workers, states).items() if not given_up or n not in given_up}
        waited_s = time.monotonic() - began
        if not unsettled(awaited) or waited_s >= settle_s:
            return states
        if given_up is None and waited_s >= _PATIENCE_S:
            given_up = lost([name for name, state in awaited.items() if unsettled({name: state})])
            continue
        time.sleep(_POLL_S)


def _ask(engine: Engine, node: str, *argv: str) -> str:
    data = engine.run(Command(f"slurm:{time.monotonic_ns()}", node, argv, "", "root", _TIMEOUT_S)).data
    if not data["ok"]:
        command = "scontrol show node" if argv == SLURM_NODES_COMMAND else shlex.join(argv)
        raise _SlurmError(command_failure(command, data))
    return str(data["stdout"])
