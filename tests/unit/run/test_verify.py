"""Which nodes a verification drains, and which it tests before they return."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, cast

import pytest

from hpcforge.engines.tasks import Engine, NodeProgram, Task
from hpcforge.plan.diff import SLURM_NODES
from hpcforge.plan.observation import Observation
from hpcforge.plan.test_selection import SmokeRun
from hpcforge.run import verify
from hpcforge.run.expectations import Expectations
from hpcforge.run.result import Listener, Reached, Run, Verified
from hpcforge.run.verify import GateError, Usable, Verification, drain_blamed, gate_reason, keep, not_passed
from hpcforge.tally import silent
from hpcforge.verify.baselines import Verifications, dump
from hpcforge.verify.verdict_records import Recorded
from hpcforge.verify.verdicts import Isolation, NamedPart, Status, Verdict
from tests.support.three_nodes import CLUSTER, DESIRED, DONE, HEAD_SAYS, Line, Nodes, observed
from tests.unit.verify.test_reservation import TellingHead


def test_nothing_is_tested_where_slurm_on_the_head_lists_no_nodes() -> None:
    def odd(task: Task) -> list[Line] | None:
        said = HEAD_SAYS if task.node == "head" else observed("client")
        return [{**said, "answers": {}, "armed": [], "at_work": None}, DONE] if isinstance(task, NodeProgram) else None

    desired = replace(DESIRED, scheduler=DESIRED.nodes["head"][0].role)
    usable = verify.look(Nodes(odd), CLUSTER, desired, cast("Listener", Deaf()))
    assert usable.out == dict.fromkeys(("w1", "w2", "head"), "scontrol on head gives no answer")
    assert [worker.node for worker in usable.down] == ["head"]
    assert verify.look(Nodes(odd), CLUSTER, DESIRED, cast("Listener", Deaf())).down == ()  # the site installs no Slurm


class Deaf:
    def say(self, text: str) -> None:
        pass

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        yield

    tally = staticmethod(silent)


def outcome(status: Status, node: str | None = "w2") -> Verified:
    run = SmokeRun(("copy",), ("w1", "w2"), ("w1", "w2"), "asked for")
    return Verified((Reached(run, Verdict("copy", status, ("w1", "w2"), node=node, detail="slow")),))


@pytest.mark.parametrize(
    ("status", "drains"),
    [("missed", True), ("wrong", True), ("failed", True), ("timed_out", True), ("unknown", False), ("pending", False)],
)
def test_a_node_is_drained_only_if_a_verdict_says_something_about_it(status: Status, drains: bool) -> None:
    head = TellingHead()
    found, _ = drain_blamed(head, outcome(status), cast("Listener", Deaf()))
    reason = f"smoke test copy {status.replace('_', ' ')}: slow"
    assert found == ({"w2": reason} if drains else {})
    assert head.told == [f"scontrol update NodeName=w2 State=DRAIN Reason={reason}"] * drains
    assert drain_blamed(head, outcome(status, None), cast("Listener", Deaf())) == ({}, {})


def test_each_node_that_isolation_names_as_bad_by_itself_is_drained() -> None:
    def named(verdict: Literal["bad", "unsteady"], *nodes: str) -> NamedPart:
        return NamedPart(verdict, "node", f"node {nodes[0]}", nodes, 0.4, "GFLOP/s", 0.95, "", "slow", "")

    parts = (named("bad", "w1"), named("bad", "w2"), named("bad", "w3", "w4"), named("unsteady", "w5"))
    tests = outcome("missed", None)
    verdict = replace(tests.reached[0].verdict, isolation=Isolation((), parts))
    nodes = tuple(f"w{number}" for number in range(1, 31))
    tests = replace(tests, reached=(replace(tests.reached[0], verdict=replace(verdict, nodes=nodes)),))
    drained, beyond = drain_blamed(TellingHead(), tests, cast("Listener", Deaf()))
    assert ([*drained], [*beyond]) == (["w1", "w2"], [])


def blaming(count: int, *blamed: str) -> Verified:
    """Tests of some nodes, each of which blames one of these."""
    nodes = tuple(f"w{number}" for number in range(1, count + 1))
    run = SmokeRun(("copy",), nodes, nodes, "asked for")
    return Verified(tuple(Reached(run, Verdict("copy", "failed", nodes, node=node, detail="x")) for node in blamed))


@pytest.mark.parametrize(("count", "most"), [(3, 1), (19, 1), (20, 2), (64, 6)])
def test_one_verification_drains_a_tenth_of_its_nodes_at_most(count: int, most: int) -> None:
    head = TellingHead()
    blamed = [f"w{number}" for number in range(1, min(count, 8) + 1)]
    drained, beyond = drain_blamed(head, blaming(count, *blamed), cast("Listener", Deaf()))
    assert ([*drained], [*beyond]) == (blamed[:most], blamed[most:])
    assert len(head.told) == most
    assert beyond["w8" if count > 3 else "w3"].endswith(
        f"one verification drains at most {most}: verify again, or drain it by hand"
    )


@pytest.mark.parametrize("node", ["ALL", "w[1-2]", "w1,w2", "w9", ""])
def test_only_one_node_of_the_test_is_drained(node: str) -> None:
    head = TellingHead()
    assert drain_blamed(head, blaming(3, node), cast("Listener", Deaf())) == ({}, {})
    assert head.told == []


def usable(state: str, out: dict[str, str]) -> Usable:
    seen = {"head": Observation("head", answers={SLURM_NODES: f"NodeName=w2 {state}\n"})}
    return Usable(out, Recorded(), seen)


def test_only_a_drained_node_has_a_gate() -> None:
    drained = usable("State=IDLE+DRAIN Reason=bad fan [root@2026-11-20T10:00:00]", {"w2": "drained: bad fan"})
    assert gate_reason(CLUSTER, drained, "w2") == "bad fan"
    with pytest.raises(GateError, match="w2 is not drained: Slurm has it as idle"):
        gate_reason(CLUSTER, usable("State=IDLE", {}), "w2")
    with pytest.raises(GateError, match="w2 is unreachable: no route"):
        gate_reason(CLUSTER, usable("State=DOWN", {"w2": "unreachable: no route"}), "w2")


def test_only_passed_tests_on_the_node_itself_open_the_gate() -> None:
    assert not_passed(outcome("passed", None), "w2") == ""
    assert not_passed(outcome("unknown"), "w2") == "smoke test copy unknown: slow"
    assert not_passed(outcome("passed", None), "w3") == "no test ran on w3"
    assert not_passed(Verified(), "w2") == "no test ran on w2"


def test_a_baseline_that_somebody_saved_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = Verifications().saved("theirs", 1.0, {})
    head, stored = TellingHead(stdout=dump(theirs)), list[Verifications]()
    monkeypatch.setattr(verify, "EngineHead", lambda *_: head)
    monkeypatch.setattr(verify, "store_verifications", lambda _engine, _node, kept: stored.append(kept))
    done = Verification(outcome("passed", None), Run(1, "cafe1234", "ada@desk", "small", "0.2.0"), 5.0, 6.0)
    assert keep(cast("Engine", None), CLUSTER, usable("State=IDLE", {}), done, Expectations(CLUSTER), None) is None
    assert [(kept.baseline("theirs") is not None, len(kept.runs)) for kept in stored] == [(True, 1)]
    head.stdout = "{damaged"
    said = keep(cast("Engine", None), CLUSTER, usable("State=IDLE", {}), done, Expectations(CLUSTER), None)
    assert said is not None and "was not replaced" in said and len(stored) == 1
