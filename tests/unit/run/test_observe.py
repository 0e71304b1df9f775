"""Answers of nodes to `observe`."""

from hpcforge.engines.tasks import Event
from hpcforge.plan.observation import Observation
from hpcforge.run import observe
from hpcforge.run.worker_ports import SLURMD_PORTS
from hpcforge.slurm.down_nodes import COMPLETING, SLURM_REQUESTS
from tests.support.three_nodes import CLUSTER


def test_the_warnings_of_a_node_are_kept():
    seen = Observation("w02")
    for text in ("package source /etc/apt/sources.list:1: no answer", "another"):
        seen = observe._add_event(seen, Event("w02", "observe:w02", "warning", {"event": "warning", "detail": text}))
    assert seen.warnings == ("package source /etc/apt/sources.list:1: no answer", "another")


def test_workers_try_the_daemons_and_the_controller_tries_workers():
    asks = {node.name: {*observe.probe_asks(CLUSTER, node.name)} for node in CLUSTER.nodes}
    assert asks == {"head": {SLURMD_PORTS, COMPLETING}, "w1": {SLURM_REQUESTS}, "w2": {SLURM_REQUESTS}}
