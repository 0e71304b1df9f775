"""The walk from submission to verdict, with a head that answers from a script and remembers what it was asked."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from hpcforge.cluster.model import Cluster, SmokeTest
from hpcforge.verify import jobs
from hpcforge.verify.busy import busy
from hpcforge.verify.head import Completed
from hpcforge.verify.owner import Owner, stamped
from hpcforge.verify.submit import PORTS
from hpcforge.verify.verify import verify

Build = Callable[..., Cluster]
Answer = Completed | Callable[[], Completed]
STAMPED = stamped()
MEASURED = {
    "allreduce": {"event": "measurement", "size_bytes": 4096, "busbw_gb_per_s": 1.5},
    "train_ddp": {"event": "measurement", "samples_per_s": 9411.4, "loss_first": 0.4174, "loss_last": 0.0605},
}


def ok(stdout: str = "") -> Completed:
    return Completed(0, stdout, "")


def passed(ranks: int, *tests: str) -> Completed:
    """What a step of these tests prints when all of them pass."""
    lines = []
    for test in tests or ("allreduce", "train_ddp"):
        events = [{"event": "started", "rank": rank, "host": f"w{rank // 2 + 1}"} for rank in range(ranks)]
        events += [
            MEASURED[test],
            {"event": "result", "world_size": ranks, "backend": "gloo", "device": "cpu", "seconds": 0.1},
        ]
        lines += [f"0: {json.dumps({**event, 'test': test})}\n" for event in events]
    return ok("".join(lines))


class ScriptedHead:
    """Answers by program; the last answer of a program is repeated."""

    owner = Owner("cafe", "ada@desk", {"where": "0" * 16, "pid": 1, "started": 2})

    def __init__(self, **answers: list[Answer]) -> None:
        self.stopped = False
        self.told: list[list[str]] = []
        self.answers = {"sbatch": [ok("12\n")], "squeue": [ok("12|RUNNING|None\n")], "srun": [passed(4)]} | answers
        self.asked: list[list[str]] = []
        self.asked_port: list[list[str]] = []
        self.port = ok('0: {"event": "port", "port": 20417}\n')
        self.users: list[str | None] = []

    def stop(self) -> bool:
        return self.stopped

    def tell(self, argv: Sequence[str], *, timeout_s: float) -> None:
        self.told.append(list(argv)[len(STAMPED) :])

    def pause(self, seconds: float, meanwhile: Callable[[], None]) -> None:
        time.sleep(seconds)
        meanwhile()

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        user: str | None = None,
        timeout_s: float,
        aside: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> Completed:
        argv = list(argv)[len(STAMPED) :] if list(argv)[: len(STAMPED)] == STAMPED else list(argv)
        assert bool(stdin) == (argv[0] == "sbatch")
        assert aside == (argv[0] == "scancel")  # it must not wait for srun
        if argv[-1] == PORTS:
            self.asked_port.append(argv)
            return self.port
        self.asked.append(argv)
        self.users.append(user)
        assert timeout_s > 0
        program = "srun" if argv[0] == "timeout" else argv[0]
        if "--states=RUNNING,COMPLETING" in argv:
            program = "occupants"
        answers = self.answers.get(program, [ok()])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        answered = answer if isinstance(answer, Completed) else answer()
        if meanwhile is not None:
            meanwhile()
        return answered

    def programs(self) -> list[str]:
        return ["srun" if argv[0] == "timeout" else argv[0] for argv in self.asked]


def quiet(_test: str, _text: str) -> None:
    pass


def test_tests_of_the_same_nodes_are_submitted_run_and_cancelled_together(build: Build) -> None:
    head = ScriptedHead()
    told: list[tuple[str, str]] = []
    verdicts = verify(build(), head, {}, lambda test, text: told.append((test, text)))
    assert [(one.test, one.status) for one in verdicts] == [("allreduce", "passed"), ("train_ddp", "passed")]
    assert head.programs() == ["sbatch", "squeue", "srun", "scancel"]
    assert head.users == ["tests", None, "tests", "tests"]
    assert ("allreduce, train_ddp", "4 ranks on w[1-2]") in told


def test_ranks_meet_at_a_port_that_the_first_node_has_named(build: Build) -> None:
    head = ScriptedHead()
    assert [one.status for one in verify(build(), head, {}, quiet)] == ["passed", "passed"]
    (asked,) = head.asked_port
    assert {"--jobid=12", "--nodelist=w1", "--nodes=1"} <= set(asked)
    (step,) = (argv for argv in head.asked if "srun" in argv)
    assert "--master_port=20417" in step


@pytest.mark.parametrize(
    "stdout", ["", '0: {"event": "port", "port": "22; reboot"}\n', '0: {"event": "port", "port": 0}\n']
)
def test_without_a_port_no_rank_is_started(stdout: str, build: Build) -> None:
    head = ScriptedHead()
    where = '0: {"event": "node", "host": "w1"}\n'
    text = "no port is free; sockets by user: ada 28231, root 12"
    held = json.dumps({"event": "held", "host": "w1", "text": text})
    head.port = Completed(1, f"{where}{stdout}0: {held}\n", "srun: error: w1: task 0: Exited with exit code 1\n")
    first, *_ = verify(build(), head, {}, quiet)
    assert (first.status, first.node) == ("failed", "w1")
    assert first.detail == f"no rank started: {text}; exit code 1"
    assert not any("srun" in argv for argv in head.asked)


def test_tests_of_other_nodes_have_a_launch_of_their_own(build: Build) -> None:
    cluster = build()
    assert cluster.acceptance
    first, second = cluster.acceptance.tests
    apart = replace(cluster.acceptance, tests=(first, replace(second, nodes=("w1",))))
    head = ScriptedHead(srun=[passed(4, "allreduce"), passed(2, "train_ddp")])
    verdicts = verify(replace(cluster, acceptance=apart), head, {}, quiet)
    assert [(one.test, one.status, one.nodes) for one in verdicts] == [
        ("allreduce", "passed", ("w1", "w2")),
        ("train_ddp", "passed", ("w1",)),
    ]
    assert head.programs().count("sbatch") == 2


@pytest.mark.parametrize(("max_time", "jobs"), [("00:05:00", 1), ("00:04:59", 2), ("0-01:00:00", 1), ("INFINITE", 1)])
def test_tests_share_a_launch_while_the_partition_gives_it_time(build: Build, max_time: str, jobs: int) -> None:
    cluster = build(time_limit_s=120)  # 120 s each, and one minute more for each job
    partition = replace(cluster.slurm.partitions[0], max_time=max_time)
    cluster = replace(cluster, slurm=replace(cluster.slurm, partitions=(partition,)))
    head = ScriptedHead(
        srun=[passed(4, "allreduce", "train_ddp")] if jobs == 1 else [passed(4, "allreduce"), passed(4, "train_ddp")]
    )
    assert [one.status for one in verify(cluster, head, {}, quiet)] == ["passed", "passed"]
    asked = [word for argv in head.asked for word in argv if argv[0] == "sbatch" and word.startswith("--time=")]
    assert asked == (["--time=5"] if jobs == 1 else ["--time=3", "--time=3"])


def test_a_test_that_no_partition_has_time_for_is_not_submitted(build: Build) -> None:
    cluster = build(time_limit_s=120)
    short = replace(cluster.slurm.partitions[0], max_time="00:02:59")
    head = ScriptedHead()
    verdicts = verify(replace(cluster, slurm=replace(cluster.slurm, partitions=(short,))), head, {}, quiet)
    said = "no partition that holds w[1-2] gives a job the 3 minutes that the test asks for: main has max_time 00:02:59"
    assert [(one.status, one.detail) for one in verdicts] == [("not_run", said)] * 2
    assert head.asked == []
    long = replace(short, name="long", default=False, max_time="00:03:00")
    head = ScriptedHead(srun=[passed(4, "allreduce"), passed(4, "train_ddp")])
    cluster = replace(cluster, slurm=replace(cluster.slurm, partitions=(short, long)))
    assert [one.status for one in verify(cluster, head, {}, quiet)] == ["passed", "passed"]
    assert "--partition=long" in head.asked[0]


def test_a_test_after_one_that_fails_is_launched_anew(build: Build) -> None:
    wrong = {"event": "wrong", "test": "allreduce", "rank": 3, "host": "w2", "where": "?", "expected": 1, "got": 2}
    head = ScriptedHead(srun=[Completed(1, f"0: {json.dumps(wrong)}\n", ""), passed(4, "train_ddp")])
    verdicts = verify(build(), head, {}, quiet)
    assert [(one.test, one.status, one.rank) for one in verdicts] == [
        ("allreduce", "wrong", 3),
        ("train_ddp", "passed", None),
    ]
    steps = [argv for argv in head.asked if argv[0] == "timeout"]
    assert [("allreduce" in argv, "train_ddp" in argv) for argv in steps] == [(True, True), (False, True)]


def test_the_seconds_of_a_launch_are_shared_out(build: Build) -> None:
    def slow() -> Completed:
        time.sleep(0.5)
        return passed(4)

    first, second = verify(build(), ScriptedHead(srun=[slow]), {}, quiet)
    assert second.seconds == 0.1
    assert 0.4 <= first.seconds < 5


def test_nodes_left_out_are_not_asked_for_and_named(build: Build) -> None:
    head = ScriptedHead(srun=[passed(2)])
    verdict = verify(build(3), head, {"w3": "unreachable", "w2": "drained", "x": "?"}, quiet)[0]
    assert verdict.passed
    assert (verdict.nodes, verdict.left_out) == (("w1",), {"w2": "drained", "w3": "unreachable"})
    assert "--nodelist=w1" in head.asked[0]


def test_no_usable_node_is_a_verdict(build: Build) -> None:
    head = ScriptedHead()
    verdict = verify(build(), head, {"w1": "unreachable", "w2": "unreachable"}, quiet)[0]
    assert (verdict.status, verdict.detail, head.asked) == ("not_run", "none of its nodes is usable", [])


def test_a_refused_job_is_told_in_slurms_words(build: Build) -> None:
    refusal = Completed(1, "", "sbatch: error: Batch job submission failed: Invalid account\n")
    head = ScriptedHead(sbatch=[refusal])
    verdict = verify(build(), head, {}, quiet)[0]
    assert verdict.status == "not_run"
    assert "Invalid account" in verdict.detail


def test_pending_names_the_reason_and_the_node(build: Build) -> None:
    head = ScriptedHead(
        squeue=[ok("12|PENDING|ReqNodeNotAvail, UnavailableNodes:w2\n")] * 3 + [ok()],
        sinfo=[ok("w1|idle|none\nw2|drained|bad memory\n")],
    )
    verdict = verify(build(), head, {}, quiet, pending_s=0.3)[0]
    assert (verdict.status, verdict.node) == ("pending", "w2")
    assert "ReqNodeNotAvail" in verdict.detail
    assert "w2 drained: bad memory" in verdict.detail
    assert head.programs()[-1] == "scancel"
    assert "srun" not in head.programs()


def test_nobody_is_told_to_cancel_what_may_be_anothers_work(build: Build) -> None:
    theirs = ok("9|tests|hpcforge-allreduce|w[1-2]\n")
    head = ScriptedHead(squeue=[ok("12|PENDING|Resources\n")], occupants=[theirs])
    verdict = verify(build(), head, {}, quiet, pending_s=0.1)[0]
    assert "job 9, tests's hpcforge-allreduce on w[1-2]" in verdict.detail
    assert verdict.next_command == "squeue --nodelist=w[1-2]"


@pytest.mark.parametrize(
    ("reason", "occupants", "sinfo", "waits_for"),
    [
        ("Resources", "20|ada|train|w2\n", "", ("job 20, ada's train on w2",)),
        ("Priority", "", "", ("jobs that come first",)),
        ("Resources", "20|ada|train|w2\n", "w1|drained|bad memory\n", ()),  # it would wait without her, too
        ("Resources", "9|tests|hpcforge-allreduce|w2\n", "", ()),
        ("Nodes required for job are DOWN", "", "", ()),
    ],
)
def test_pending_for_users_jobs_alone_is_told_apart(
    build: Build, reason: str, occupants: str, sinfo: str, waits_for: tuple[str, ...]
) -> None:
    head = ScriptedHead(squeue=[ok(f"12|PENDING|{reason}\n")], occupants=[ok(occupants)], sinfo=[ok(sinfo)])
    verdicts = verify(build(), head, {}, quiet, pending_s=0.1)
    assert [(one.status, one.waits_for) for one in verdicts] == [("pending", waits_for)] * 2


def test_whom_jobs_hold() -> None:
    said = "20|ada|train|w[1-2]\n21|bob|a|b|w2\n22|tests|hpcforge-allreduce|w3\nodd\n23|x|y|\n24|x|y|w[2-\n"
    head = ScriptedHead(squeue=[ok(said)])
    assert busy(head, ["w2", "w3"], "tests") == {"w2": "job 20, ada's train"}
    assert busy(head, ["w1", "w2"], "tests")["w1"] == "job 20, ada's train"
    assert busy(ScriptedHead(squeue=[ok("25|eve|hpcforge-allreduce|w3\n")]), ["w3"], "tests") == {
        "w3": "job 25, eve's hpcforge-allreduce"
    }


def test_the_sets_of_a_test_have_a_launch_and_a_verdict_each(build: Build) -> None:
    cluster = build(4)
    sets = [
        SmokeTest(name, nodes, 120) for name in ("allreduce", "train_ddp") for nodes in (("w1", "w2"), ("w3", "w4"))
    ]
    head = ScriptedHead(srun=[passed(4), passed(2, "allreduce", "train_ddp")])
    verdicts = verify(cluster, head, {"w4": "drained"}, quiet, tests=[*sets, sets[0]])
    assert [(one.test, one.nodes, one.status) for one in verdicts] == [
        ("allreduce", ("w1", "w2"), "passed"),
        ("allreduce", ("w3",), "passed"),
        ("train_ddp", ("w1", "w2"), "passed"),
        ("train_ddp", ("w3",), "passed"),
        ("allreduce", ("w1", "w2"), "passed"),
    ]
    assert head.programs().count("sbatch") == 2


def test_a_job_that_ends_before_the_test_begins(build: Build) -> None:
    head = ScriptedHead(squeue=[ok("12|NODE_FAIL|None\n")])
    assert verify(build(), head, {}, quiet)[0].detail == "job 12 ended before the test began: NODE_FAIL, None"


@pytest.mark.parametrize("where", ["sbatch", "squeue", "srun"])
def test_stopped_it_cancels_its_job_and_says_so(build: Build, where: str) -> None:
    told: list[str] = []

    def press() -> Completed:
        head.stopped = True
        return {"sbatch": ok("12\n"), "squeue": ok("12|PENDING|Resources\n"), "srun": passed(4)}[where]

    head = ScriptedHead(**{where: [press]})
    with pytest.raises(jobs.StoppedError):
        verify(build(), head, {}, lambda _test, text: told.append(text))
    assert head.asked[-1] == ["scancel", "12"]
    assert told[-1] == "stopped: cancelling job 12"


def test_stopped_at_once_it_says_what_remains(build: Build) -> None:
    told: list[str] = []

    def press_again() -> Completed:
        raise KeyboardInterrupt

    head = ScriptedHead(scancel=[press_again])
    with pytest.raises(KeyboardInterrupt):
        verify(build(), head, {}, lambda _test, text: told.append(text))
    assert told[-1] == "job 12 may still be there: it ends within 50 s, or on the head: scancel 12"


def test_a_job_is_heard_of_while_it_waits_and_while_it_runs(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "BEAT_S", 0.0)
    head = ScriptedHead(squeue=[ok("12|PENDING|Resources\n"), ok("12|RUNNING|None\n")])
    verify(build(), head, {}, quiet)
    assert head.told == [["scontrol", "update", "JobId=12", f"Comment={head.owner.comment()}"]] * 2


def test_extra_arguments_reach_one_test_program(build: Build) -> None:
    head = ScriptedHead()
    verify(build(), head, {}, quiet, extra_args={"train_ddp": ["--inject", "die:1"]})
    (step,) = [argv for argv in head.asked if argv[0] == "timeout"]
    assert step.count("--inject") == 1
    assert step[-2:] == ["--inject", "die:1"]
    verify(build(), head, {}, quiet, extra_args={"allreduce": ["--inject", "die:1"]})
    step = next(argv for argv in reversed(head.asked) if argv[0] == "timeout")
    assert step.index("allreduce") < step.index("--inject") < step.index("--next")


def test_several_jobs_are_asked_for_in_one_query() -> None:
    head = ScriptedHead(squeue=[ok("1|RUNNING|None\n2|PENDING|Priority\n")])
    seen = jobs.states(head, ["1", "2", "3"])
    assert len(head.asked) == 1
    assert [state.state for state in seen.values()] == ["RUNNING", "PENDING", "GONE"]


def test_a_silent_squeue_is_not_taken_for_the_end_of_jobs() -> None:
    head = ScriptedHead(squeue=[Completed(1, "", "slurm_load_jobs error: Unable to contact slurm controller\n")])
    assert jobs.states(head, ["1"])["1"].waiting


def test_unusable_nodes_are_told_with_slurms_reason() -> None:
    rows = "w1|idle|none\nw2|drained|bad memory\nw3|idle*|none\nw4|mixed|none\nw5|down*|Not responding\nother|down|x\n"
    assert jobs.unusable(ScriptedHead(sinfo=[ok(rows)]), [f"w{number}" for number in range(1, 6)]) == {
        "w2": "drained: bad memory",
        "w3": "not responding",
        "w5": "not responding: Not responding",
    }
