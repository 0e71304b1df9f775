"""After a run: drain the workers that fall short of what they declare, resume those that no longer do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hpcforge.engines.tasks import Command, Engine
from hpcforge.plan.admission import (
    SLURM_NODES_COMMAND,
    Drain,
    Shortfall,
    drains,
    judged,
    not_scheduled,
    parse_slurm_nodes,
    shortfalls,
)
from hpcforge.plan.plan import Plan

_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Admission:
    """Who falls short, what Slurm was told, which nodes it does not schedule on, and what went wrong on the way."""

    shortfalls: tuple[Shortfall, ...]
    ordered: tuple[Drain, ...]
    not_scheduled: Mapping[str, str]  # worker -> Slurm's state and reason
    error: str | None


def admit(engine: Engine, plan: Plan, facts: Mapping[str, Mapping[str, Any]]) -> Admission:
    """Judge the workers by their latest facts (by node) and tell Slurm; only the difference is sent."""
    workers = tuple(worker for worker in plan.declared if worker.node in facts)
    short = tuple(one for worker in workers for one in shortfalls(worker, facts[worker.node], gpus_ready=True))
    before = _ask(engine, plan.controller, SLURM_NODES_COMMAND)
    if not before.data["ok"]:
        return Admission(short, (), {}, before.data["error"] or before.data["stderr"])
    orders = drains(short, judged(workers, parse_slurm_nodes(before.data["stdout"])))
    error = None
    for one in orders:
        words = ["scontrol", "update", f"NodeName={one.node}", f"State={one.action.upper()}"]
        if one.action == "drain":
            words.append(f"Reason={one.reason}")
        told = _ask(engine, plan.controller, words)
        if not told.data["ok"]:
            error = f"{one.action} {one.node}: {told.data['error'] or told.data['stderr']}"
    after = parse_slurm_nodes(_ask(engine, plan.controller, SLURM_NODES_COMMAND).data["stdout"]) if orders else None
    states = judged(workers, after or parse_slurm_nodes(before.data["stdout"]))
    return Admission(short, orders, not_scheduled(states), error)


def _ask(engine: Engine, node: str, argv: tuple[str, ...] | list[str]) -> Any:
    return engine.run(Command(f"slurm:{argv[0]}:{argv[-1]}", node, tuple(argv), "", "root", _TIMEOUT_S))
