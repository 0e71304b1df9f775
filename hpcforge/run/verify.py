"""The smoke tests by themselves, on the cluster as it is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from hpcforge import __version__
from hpcforge.cluster.model import Cluster
from hpcforge.engines.tasks import Engine
from hpcforge.run import leftover
from hpcforge.run.engine_head import EngineHead, owner
from hpcforge.run.listener import Listener
from hpcforge.run.observe import find_usable
from hpcforge.run.run import begin
from hpcforge.run.smoke_tests import Verified, run_tests
from hpcforge.verify.isolate import Plans
from hpcforge.verify.verdict_records import VERDICTS_PATH, Recorded, load


@dataclass(frozen=True)
class Usable:
    """What the nodes and the head said: the workers that tests must not count on, with why, and the last verdicts."""

    out: Mapping[str, str]
    recorded: Recorded


def look(engine: Engine, cluster: Cluster, listener: Listener) -> Usable:
    """Ask all nodes; test jobs that a run has left behind are cancelled."""
    with listener.phase("observe"):
        out, head = find_usable(engine, cluster, listener.say)
        if leftover.told(head.answers):
            leftover.clear(engine, cluster, listener.say)
    return Usable(out, load(head.reads.get(VERDICTS_PATH)))


def verify_now(
    engine: Engine,
    cluster: Cluster,
    usable: Usable,
    names: Collection[str] | None,
    limit: Collection[str] | None,
    listener: Listener,
    stop: Callable[[], bool],
    plans: Plans,
) -> Verified:
    """Run all tests, or those called `names`, on all of their nodes, or those of `limit`, and keep the verdicts.

    Raises `StoppedError` once `stop()` is true.
    """
    head = EngineHead(engine, cluster.slurm.controller, owner(begin(cluster.name, __version__)), stop)
    return run_tests(engine, head, cluster, usable.recorded, "all", usable.out, listener, names, limit, plans)
