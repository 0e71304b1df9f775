"""Which tests run on which nodes after a change, and what a change is that jobs feel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.cluster.model import Acceptance, Cluster, Gpus, Partition, SmokeTest, SmokeTestProgram
from hpcforge.design.fabric.topology_conf import Block, Topology
from hpcforge.kinds.accounts import Account
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.diff import nodes_affecting_jobs
from hpcforge.plan.plan import Change, OwnedResources, Removal, ResourceChange, Step, UnitChange
from hpcforge.plan.role_check import usual_variables
from hpcforge.plan.roles.role import load_roles
from hpcforge.plan.test_selection import DeferredTests, PassedNodes, SmokeRun, Verify, gate_runs, smoke_runs

GPU = Gpus("fake", 2)
ALL = ("c1", "c2", "c3", "g1", "g2")
PARTITIONS = (("c1", "c2", "c3"), ("g1", "g2"))


@pytest.fixture
def mixed(cluster: Cluster) -> Cluster:
    """Three workers without GPUs and two with some."""
    worker = cluster.by_name["w1"]
    nodes = [replace(worker, name=name, gpus=GPU if name.startswith("g") else None) for name in ALL]
    return replace(cluster, nodes=(cluster.nodes[0], *nodes))


def wanting(cluster: Cluster, *sets: tuple[str, ...], names: tuple[str, ...] = ("allreduce", "train_ddp")) -> Cluster:
    tests = tuple(SmokeTest(name, nodes, 600) for name in names for nodes in sets)
    return replace(cluster, acceptance=Acceptance("ada", tests))


def known(cluster: Cluster, changed: tuple[str, ...] = (), *, served: bool = True) -> dict[SmokeTest, PassedNodes]:
    """Everything has passed, and these have changed since."""
    assert cluster.acceptance is not None
    return {test: PassedNodes(frozenset(test.nodes) - {*changed}, served) for test in cluster.acceptance.tests}


BOTH = ("allreduce", "train_ddp")


def test_what_was_never_tested_is_tested_whole(mixed: Cluster) -> None:
    cluster = wanting(mixed, *PARTITIONS)
    found = smoke_runs(cluster, {}, "touched", (), {"c1": "job 7"})
    assert found.runs == tuple(SmokeRun(BOTH, nodes, nodes, "not passed yet") for nodes in PARTITIONS)
    assert found.waiting == ()


def test_a_test_that_has_not_passed_is_whole_and_the_other_is_spared(mixed: Cluster) -> None:
    cluster = wanting(mixed, PARTITIONS[0])
    assert cluster.acceptance is not None
    passed = known(cluster)
    del passed[cluster.acceptance.tests[0]]
    assert smoke_runs(cluster, passed, "touched", (), {}).runs == (
        SmokeRun(("allreduce",), PARTITIONS[0], PARTITIONS[0], "not passed yet"),
    )


def test_what_passed_with_other_options_is_tested_again_whole(mixed: Cluster) -> None:
    cluster = wanting(mixed, PARTITIONS[0])
    assert cluster.acceptance is not None
    tests = tuple(
        replace(test, options=(("sizes_kib", "4"),)) if test.name == "allreduce" else test
        for test in cluster.acceptance.tests
    )
    asked = replace(cluster, acceptance=replace(cluster.acceptance, tests=tests))
    assert smoke_runs(asked, known(cluster), "touched", (), {}).runs == (
        SmokeRun(("allreduce",), PARTITIONS[0], PARTITIONS[0], "other options"),
    )
    same = {test: replace(one, options=test.options) for test, one in zip(tests, known(asked).values(), strict=True)}
    assert smoke_runs(asked, same, "touched", (), {}).runs == ()
    (back,) = smoke_runs(cluster, same, "touched", (), {}).runs  # to the defaults
    assert (back.tests, back.why) == (("allreduce",), "other options")


@pytest.mark.parametrize(("verify", "count"), [("none", 0), ("touched", 0), ("all", 2)])
def test_without_a_change_only_all_is_tested(mixed: Cluster, verify: Verify, count: int) -> None:
    cluster = wanting(mixed, *PARTITIONS)
    assert len(smoke_runs(cluster, known(cluster), verify, (), {}).runs) == count


@pytest.mark.parametrize(
    ("changed", "busy", "out", "nodes", "for_whom"),
    [
        (("c2",), (), (), ("c1", "c2"), ("c2",)),
        (("c1",), (), (), ("c1", "c2"), ("c1",)),
        (("c1",), ("c2",), (), ("c1", "c3"), ("c1",)),  # an idle partner
        (("c1",), (), ("c2",), ("c1", "c3"), ("c1",)),  # that can run jobs
        (("c1",), ("c2", "c3"), (), ("c1", "g1"), ("c1",)),  # of another kind rather than none
        (("c1", "g2"), (), (), ("c1", "c2", "g1", "g2"), ("c1", "g2")),  # one of each kind
        (("c1", "c2"), (), (), ("c1", "c2", "c3"), ("c1", "c2")),
        (("c1", "c2"), ("c3",), (), ("c1", "c2"), ("c1", "c2")),
        (ALL, (), (), ALL, ALL),
        (("c1", "c2"), ("c2",), (), ("c1", "c3"), ("c1",)),
    ],
)
def test_what_changed_is_tested_with_a_partner_of_its_kind(
    mixed: Cluster,
    changed: tuple[str, ...],
    busy: tuple[str, ...],
    out: tuple[str, ...],
    nodes: tuple[str, ...],
    for_whom: tuple[str, ...],
) -> None:
    cluster = wanting(mixed, ALL)
    found = smoke_runs(cluster, known(cluster, changed), "touched", out, dict.fromkeys(busy, "job 7"))
    assert found.runs == (SmokeRun(BOTH, nodes, ALL, "changed", for_whom),)
    late = tuple(node for node in changed if node not in for_whom)
    assert [one.nodes for one in found.waiting] == ([late] if late else [])
    assert set(found.runs[0].untested) == {*ALL} - {*nodes}


def test_a_partner_is_of_the_same_block_and_without_one_all_are_tested(mixed: Cluster) -> None:
    """Slurm places a job of two nodes in one block, and one of the whole set in all (eval_nodes_block.c)."""
    names = ("c1", "c2", "c3", "g1")
    blocks = (Block("a", ("c1", "g1")), Block("b", ("c2", "c3")))
    near = Topology("block", None, False, (), blocks, (2, 4))
    slurm = replace(mixed.slurm, partitions=(Partition("main", names, True, "INFINITE"),), topologies=(near,))
    cluster = wanting(replace(mixed, slurm=slurm), names)
    assert smoke_runs(cluster, known(cluster, ("c3",)), "touched", (), {}).runs[0].nodes == ("c2", "c3")
    assert smoke_runs(cluster, known(cluster, ("c1",)), "touched", (), {}).runs[0].nodes == names


def test_a_node_that_a_job_holds_waits_and_so_does_one_without_a_partner(mixed: Cluster) -> None:
    cluster = wanting(mixed, *PARTITIONS)
    busy = {"c1": "job 7, ada's train", "g2": "job 8"}
    found = smoke_runs(cluster, known(cluster, ("c1", "g1")), "touched", (), busy)
    assert found.runs == ()
    assert found.waiting == (
        DeferredTests(BOTH, ("c1",), {"c1": "job 7, ada's train"}),
        DeferredTests(BOTH, ("g1",), {"g2": "job 8"}),
    )


def test_a_set_of_one_node_is_tested_alone(mixed: Cluster) -> None:
    cluster = wanting(mixed, ("c1",))
    assert smoke_runs(cluster, known(cluster, served=False), "touched", (), {}).runs == (
        SmokeRun(BOTH, ("c1",), ("c1",), "changed"),
    )


def test_after_a_change_of_the_scheduler_a_node_of_each_kind_is_enough(mixed: Cluster) -> None:
    cluster = wanting(mixed, ALL, PARTITIONS[0])
    found = smoke_runs(cluster, known(cluster, served=False), "touched", (), {"c1": "job 7"})
    assert found.runs == (
        SmokeRun(BOTH, ("c2", "g1"), ALL, "changed"),
        SmokeRun(BOTH, ("c2", "c3"), PARTITIONS[0], "changed"),
    )
    all_busy = smoke_runs(cluster, known(cluster, served=False), "touched", (), dict.fromkeys(ALL, "job 7"))
    assert all_busy.runs == ()
    assert {one.nodes for one in all_busy.waiting} == {()}


def test_a_change_of_a_node_that_no_job_can_use_waits_for_nobody(mixed: Cluster) -> None:
    cluster = wanting(mixed, ALL)
    found = smoke_runs(cluster, known(cluster, ("c1",)), "touched", ("c1",), {})
    assert (found.runs, found.waiting) == ((), ())


def step(role: str, *nodes: str, change: Change | None = None) -> Step:
    return Step(role, dict.fromkeys(nodes, change or Change(units=(UnitChange("x.service", ("restart",), "why"),))))


def test_which_changes_jobs_feel(cluster: Cluster) -> None:
    """With the shipped roles: by what they say, and on nodes without jobs by what workers need of them."""
    login = replace(cluster.nodes[0], name="login", functions=("login",), address="10.0.0.9")
    roles = load_roles(Path("roles"))
    chosen = {role.name: usual_variables(role) for role in roles}
    cluster = replace(cluster, nodes=(*cluster.nodes, login), variables=chosen)
    desired = compile_desired(cluster, roles, {})
    workers = [node.name for node in cluster.workers]

    def feels(*steps: Step, removals: dict[str, list[Removal]] | None = None) -> set[str]:
        return set(nodes_affecting_jobs(desired, workers, "tests", steps, removals or {}, ()))

    assert feels(step("time", "w1")) == {"w1"}
    assert feels(step("slurm_controller", "head")) == {"head"}
    assert feels(step("dns_server", "head"), step("base", "head")) == {"head"}
    assert feels(step("users", "head", "w1", "w2"), step("ssh_trust", "head", "w1")) == set()
    assert feels(step("depot", "head"), step("site_motd", "head")) == set()
    assert feels(step("site_motd", "w1")) == {"w1"}
    assert feels(step("base", "login"), step("slurm_client", "login"), step("munge", "login")) == set()
    assert feels(step("base", "w1", change=Change(noted=False))) == set()
    account = Change(resources=(ResourceChange(Account("tests", 2002, "/home/tests", "/bin/bash"), {}),))
    assert feels(step("users", "w1", change=account)) == {"w1"}
    gone = {"w1": [Removal("users", OwnedResources())], "w2": [Removal("of_old", OwnedResources())]}
    assert feels(removals=gone) == {"w2"}


def test_levels_add_tests(mixed: Cluster) -> None:
    cluster = wanting(mixed, PARTITIONS[0])
    assert cluster.acceptance is not None
    smoke, other = cluster.acceptance.tests
    quick = replace(other, program=SmokeTestProgram(level="quick"))
    cluster = replace(cluster, acceptance=replace(cluster.acceptance, tests=(smoke, quick)))
    assert [run.tests for run in smoke_runs(cluster, {}, "touched", (), {}).runs] == [("allreduce",)]
    assert [run.tests for run in smoke_runs(cluster, {}, "all", (), {}, "standard").runs] == [BOTH]


def test_a_node_that_returns_is_tested_with_one_idle_partner(mixed: Cluster) -> None:
    cluster = wanting(mixed, PARTITIONS[0])
    out = {"c2": "drained: bad fan"}
    (run,) = gate_runs(cluster, "c2", out, {"c1": "job 7"}).runs
    assert (run.tests, run.nodes, run.changed) == (BOTH, ("c2", "c3"), ("c2",))
    found = gate_runs(cluster, "c2", {**out, "c3": "down"}, {"c1": "job 7"})
    assert found.runs == ()
    assert found.waiting[0].held == {"c1": "job 7"}
    assert gate_runs(cluster, "g1", {"g1": "drained"}, {}).runs == ()
