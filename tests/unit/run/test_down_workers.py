"""A worker of three takes no job: it is named with its cause by every verb, and the exit status is not 0.

The nodes answer through the border; what a worker answers counts for itself alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hpcforge.cli.apply import exit_code as of_apply
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.plan import exit_code as of_plan
from hpcforge.cli.status import _code as of_status
from hpcforge.cli.verify import exit_status as of_verify
from hpcforge.engines.tasks import NodeProgram, Task
from hpcforge.plan.diff import SLURM_NODES
from hpcforge.plan.test_selection import SmokeRun
from hpcforge.report.apply_text import nodes_table
from hpcforge.report.plan_markdown import plan_markdown
from hpcforge.report.plan_text import plan_text
from hpcforge.report.status import status_json, status_text
from hpcforge.run import down_workers
from hpcforge.run.apply import _Workers, left_out
from hpcforge.run.fanout import Waits
from hpcforge.run.observe import observe
from hpcforge.run.result import Admission, ApplyResult, Reached, Run, RunResult, Verified
from hpcforge.run.status import status
from hpcforge.run.verify import Verification
from hpcforge.run.worker_ports import SLURMD_PORTS, slurmd
from hpcforge.slurm.down_nodes import COMPLETING, SLURM_REQUESTS, DownWorker
from hpcforge.verify.verdicts import Verdict
from tests.support.three_nodes import CLUSTER, DESIRED, DONE, HEAD_SAYS, Line, Nodes, observed
from tests.unit.run.test_executor import plan

W2 = "NodeName=w2 State=IDLE\n"
DOWN = f"NodeName=w1 State=DOWN+NOT_RESPONDING Reason=Not responding [slurm@2026-11-28T10:02:41]\n{W2}"
IDLE = f"NodeName=w1 State=IDLE\n{W2}"
PORT = slurmd(CLUSTER, "w1")
CAUSE = "w1: slurm is 1001 here and 64030 on head"
SENTENCE = f"w1 is down since 2026-11-28 10:02 (Not responding): {CAUSE}"
WORKER = DownWorker("w1", "down", "Not responding", "2026-11-28 10:02", (CAUSE,))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def saying(
    slurm: str, head_ports: str = "", *, number: int = 64030, head: Mapping[str, str] | None = None, **worker: str
) -> Callable[[Task], list[Any] | None]:
    """Slurm has the nodes so, and the head gives these answers; the worker w1 those, with this number of slurm."""

    def odd(task: Task) -> list[Line] | None:
        if not isinstance(task, NodeProgram) or task.request["verb"] != "observe":
            return None
        of_slurm = number if task.node == "w1" else 64030
        if task.node == "head":
            answers = {SLURM_NODES: slurm, SLURMD_PORTS: head_ports, "credential": "MUNGE:x:\n", **(head or {})}
            first = HEAD_SAYS
        elif task.node == "w2":
            answers, first = {SLURM_REQUESTS: ""}, observed("client")
        else:
            answers, first = {SLURM_REQUESTS: "", **worker}, observed("client")
            assert set(worker) <= set(task.request["asks"]) or not task.request.get("inspect")
        known = {name: text for name, text in answers.items() if name in task.request.get("asks", {})}
        numbers = {"users": {"slurm": of_slurm}, "groups": {}, "owner_users": {}, "owner_groups": {}}
        accounts = numbers if "folders" in task.request else None
        more = {"obstacles": [], "armed": [], "at_work": None, "reverted": [], "accounts": accounts}
        return [{**first, "answers": known, **more}, DONE]

    return odd


def found(odd: Callable[[Task], list[Any] | None]) -> tuple[DownWorker, ...]:
    engine = Nodes(odd)
    seen = observe(engine, CLUSTER, DESIRED, waits=Waits(print, None))
    known = down_workers.configured(seen)
    return down_workers.explained(engine, CLUSTER, DESIRED, down_workers.find(CLUSTER, seen, known, known))


def test_a_worker_that_slurm_lost_is_asked_for_the_cause() -> None:
    assert found(saying(DOWN, number=1001)) == (WORKER,)
    assert found(saying(IDLE, number=64030)) == ()


def test_a_slurmd_that_refuses_slurmctld_is_named_while_slurm_has_it_as_idle() -> None:
    (worker,) = found(saying(IDLE, number=1001))
    assert worker.sentence == f"w1 is refusing slurmctld's requests: {CAUSE}"


def test_a_port_that_the_head_cannot_connect_to_is_named_before_slurm_notices() -> None:
    (worker,) = found(saying(IDLE, f"{PORT} no answer within 2 s\n"))
    silent = f"head cannot connect to its slurmd at {PORT}: no answer within 2 s"
    assert worker.summary == f"w1 is not reachable for slurmctld ({silent})"
    assert worker.causes == (silent,)
    assert worker.sentence == worker.summary


BLOCKED = "table inet site {\n chain output {\n  type filter hook output priority 0;\n  tcp dport 6817 drop\n }\n}\n"
TO_HEAD = f"{CLUSTER.by_name['head'].address}:6817 no answer within 2 s\n"
LONG = "2026-11-28T10:03:30\n{}|2026-11-28T10:0{}:00\n"
UNITS = "MainPID=7\nActiveState=active\n\nMainPID=8\nActiveState={}\n"  # of munge
WELL = UNITS.format("active")
RULE = "w1's firewall has rules of its own: table inet site, chain output, tcp dport 6817 drop"
SUSPECTS = [  # Slurm's state, answers of the head, answers of the worker; the sentence
    ("IDLE", {"slurmd_requests": ""}, {SLURM_REQUESTS: "slurmctld\n", "rules": BLOCKED, "ports": TO_HEAD},
     f"w1 is not reaching slurmctld (w1 gets no answer from slurmctld; head gets one from its slurmd): {RULE}"),
    ("IDLE", {"slurmd_requests": "w1\n"}, {SLURM_REQUESTS: "slurmd\n", "units": WELL, "processes": "7 (slurmd) T 1\n"},
     "w1 is not answering Slurm's requests (w1 gets no answer from slurmd; head gets none from its slurmd): "
     "slurmd on w1 is stopped by a signal (state T): kill -CONT 7"),
    ("IDLE", {"slurmd_requests": "w1\n"}, {SLURM_REQUESTS: "slurmd\n", "units": WELL},
     "w1 is not answering Slurm's requests (w1 gets no answer from slurmd; head gets none from its slurmd): "
     "slurmd on w1 accepts connections and answers no request: systemctl restart slurmd"),
    ("IDLE", {"slurmd_requests": "w1\n"}, {SLURM_REQUESTS: "slurmd\nslurmctld\n", "units": UNITS.format("inactive")},
     "w1 is not answering Slurm's requests (w1 gets no answer from slurmctld or slurmd; head gets none from its "
     "slurmd): munge is not running on w1 (inactive)"),
    ("IDLE+COMPLETING", {"slurmd_requests": "", COMPLETING: LONG.format("w1", 2)}, {"units": UNITS.format("inactive")},
     "w1 is completing: munge is not running on w1 (inactive)"),
    ("IDLE+NOT_RESPONDING", {"slurmd_requests": ""}, {"units": UNITS.format("inactive")},
     "w1 is not responding: munge is not running on w1 (inactive)"),
    ("IDLE+NOT_RESPONDING", {}, {}, "w1 is not responding: no cause found: slurmd, munge and its key, slurm's number, "
     "host name, clock, disks and ports of w1; head reaches its slurmd, and slurmctld asks it again within a minute"),
]  # fmt: skip


@pytest.mark.parametrize(("state", "head", "worker", "sentence"), SUSPECTS)
def test_a_suspect_is_named_with_a_cause_and_what_both_sides_get(
    state: str, head: Mapping[str, str], worker: dict[str, str], sentence: str
) -> None:
    (named,) = found(saying(f"NodeName=w1 State={state}\n{W2}", head=head, **worker))
    assert named.sentence == sentence


HEALTHY = [  # Slurm's state, answers of the head, of the worker
    ("IDLE+COMPLETING", {}, {"units": UNITS.format("inactive")}),  # for a moment
    ("IDLE+COMPLETING", {COMPLETING: LONG.format("w1", 4)}, {"units": UNITS.format("inactive")}),
    ("IDLE+COMPLETING", {COMPLETING: LONG.format("w1", 2)}, {}),  # an epilog that takes long
    ("IDLE", {COMPLETING: LONG.format("w1", 2)}, {"units": UNITS.format("inactive")}),  # it has ended meanwhile
    ("IDLE+NOT_RESPONDING", {"slurmd_requests": ""}, {}),  # it answers, and slurmctld asks it again
    ("IDLE", {}, {SLURM_REQUESTS: "slurmctld\n"}),  # a busy slurmctld
    ("IDLE", {"slurmd_requests": ""}, {SLURM_REQUESTS: "slurmd\n", "units": WELL}),  # a busy worker
    ("IDLE+DRAIN", {}, {SLURM_REQUESTS: "slurmd\n", "units": UNITS.format("inactive")}),  # an operator is at work
]


@pytest.mark.parametrize(("state", "head", "worker"), HEALTHY)
def test_a_suspect_without_a_cause_is_not_named(state: str, head: Mapping[str, str], worker: dict[str, str]) -> None:
    assert found(saying(f"NodeName=w1 State={state}\n{W2}", head=head, **worker)) == ()


def test_a_suspect_that_answers_when_it_is_asked_again_is_not_named() -> None:
    def odd(task: Task) -> list[Line] | None:
        again = isinstance(task, NodeProgram) and task.request.get("inspect")
        return saying(IDLE, **{SLURM_REQUESTS: "" if again else "slurmd\n"}, rules=BLOCKED)(task)

    assert found(odd) == ()


def test_of_many_suspects_some_are_asked_and_all_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(down_workers, "_MOST_ASKED", 1)
    suspects = tuple(DownWorker(name, "not reaching slurmctld") for name in ("w1", "w2"))
    answers = {SLURM_REQUESTS: "slurmctld\n", "rules": BLOCKED, "ports": TO_HEAD}
    named = down_workers.explained(Nodes(saying(IDLE, **answers)), CLUSTER, DESIRED, suspects)
    assert [(worker.node, worker.causes) for worker in named] == [("w1", (RULE,)), ("w2", ())]
    assert down_workers.explained(Nodes(saying(IDLE)), CLUSTER, DESIRED, suspects) == ()


def test_a_worker_speaks_for_itself_alone() -> None:
    """It claims that the head's port does not answer, and that the other worker's does not."""
    other = slurmd(CLUSTER, "w2")
    (worker,) = found(saying(DOWN, number=64030, ports=f"{other} refused\n10.9.9.9:1 refused\n"))
    assert worker.causes == ()
    assert worker.explanation.startswith("no cause found: slurmd, munge and its key")


def test_a_drained_worker_is_not_asked() -> None:
    slurm = "NodeName=w1 State=IDLE+DRAIN Reason=Kill task failed [root@2026-11-28T10:02:41]\n" + W2
    (worker,) = found(saying(slurm, number=1001))
    assert worker.sentence == "w1 is drained since 2026-11-28 10:02 (Kill task failed)"


def test_a_worker_that_does_not_answer_is_named_all_the_same() -> None:
    def odd(task: Task) -> list[Line] | None:
        asked = isinstance(task, NodeProgram) and task.node == "w1" and task.request.get("inspect")
        return [{"event": "no_root", "user": "ops", "error": "no"}] if asked else saying(DOWN)(task)

    (worker,) = found(odd)
    assert "w1 did not answer hpcforge" in worker.sentence


def test_look_asks_the_controller_alone() -> None:
    assert [worker.node for worker in down_workers.look(Nodes(saying(DOWN)), CLUSTER, ["w1", "w2"], {})] == ["w1"]
    (gone,) = down_workers.look(Nodes(saying(W2)), CLUSTER, ["w1", "w2"], {})
    assert gone.sentence == "w1 is not in Slurm's list of nodes"
    (silent,) = down_workers.look(Nodes(saying(IDLE, slurm_requests="slurmd\n")), CLUSTER, ["w1", "w2"], {})
    assert (silent.node, silent.suspect) == ("w1", True)


def test_status_names_it_and_ends_with_7() -> None:
    shown = status(Nodes(saying(DOWN, number=1001)), CLUSTER, 10, print, desired=DESIRED)
    assert of_status(shown) == Exit.BELOW
    assert f"down since 2026-11-28 10:02: {CAUSE}" in status_text(shown, 1.8e9)
    nodes = status_json(shown, None)["nodes"]
    assert (nodes["w1"]["down"]["causes"], nodes["w2"]["down"]) == ((CAUSE,), None)
    well = status(Nodes(saying(IDLE)), CLUSTER, 10, print, desired=DESIRED)
    assert of_status(well) == Exit.DONE


def test_an_unreachable_node_that_is_down_too_is_unreachable() -> None:
    def odd(task: Task) -> list[Line] | None:
        return [{"event": "no_root", "user": "ops", "error": "no"}] if task.node == "w1" else saying(DOWN)(task)

    shown = status(Nodes(odd), CLUSTER, 10, print, desired=DESIRED)
    assert of_status(shown) == Exit.UNREACHABLE
    assert [node.down for node in shown.nodes] == [None, None, None]


def test_a_plan_is_not_as_planned() -> None:
    made = plan({}, nodes=("w1",), down=(WORKER,))
    assert of_plan(made) == Exit.PENDING
    text = plan_text(made)
    assert f"not as planned: {SENTENCE}\n" in text
    assert text.splitlines()[-1].endswith("not as planned: w1.")
    assert "**Not as planned:** w1 is down since 2026-11-28 10:02" in plan_markdown(made, "hpcforge plan x")
    assert of_plan(plan({})) == Exit.DONE


def test_an_apply_fails_and_no_test_counts_on_it() -> None:
    done = ApplyResult(RunResult({}), down=(WORKER,))
    assert of_apply(done) == Exit.FAILED
    assert left_out(RunResult({}), Admission((), (), {}, None), (WORKER,)) == {"w1": SENTENCE}
    assert of_apply(ApplyResult(RunResult({}))) == Exit.DONE
    assert of_apply(ApplyResult(RunResult({}, lost={"w1": "no route"}))) == Exit.UNREACHABLE
    table = nodes_table(plan({}, nodes=("w1",)), RunResult({}), None, (WORKER,))
    assert "takes no job" in table
    assert SENTENCE in table


def test_a_verification_that_passed_without_it_ends_with_7() -> None:
    run = SmokeRun(("copy",), ("w1", "w2"), ("w1", "w2"), "asked for")
    tests = Verified((Reached(run, Verdict("copy", "passed", ("w2",))),))
    done = Verification(tests, Run(1, "cafe", "ada@desk", "small", "0.2.0"), 0, 0)
    assert of_verify(done, {"w1": SENTENCE}, (WORKER,)) == Exit.BELOW
    assert of_verify(done, {}) == Exit.DONE


@pytest.mark.parametrize("requests", ["", "slurmctld\n"])
def test_an_apply_asks_what_it_changed_again(requests: str) -> None:
    asked = set()

    def odd(task: Task) -> list[Any] | None:
        asked.add(task.node)
        return saying(IDLE, slurm_requests=requests, rules=BLOCKED, ports=TO_HEAD)(task)

    made = plan({}, nodes=("w1", "w2"), down=(DownWorker("w1", "down"),))
    before = observe(Nodes(saying(IDLE)), CLUSTER, DESIRED, waits=Waits(print, None))
    workers = _Workers(Nodes(odd), CLUSTER, DESIRED, made, ["w1", "w2"], before)
    assert [(worker.node, worker.causes) for worker in workers.down()] == [("w1", (RULE,))] * bool(requests)
    assert asked == {"head", "w1"}
    assert workers.lost(["w1", "w2"]) == ({"w1"} if requests else set())
