"""The walk from submission to verdict, with a head that answers from a script and remembers what it was asked."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcforge.cluster.model import Cluster, SmokeTest
from hpcforge.design.fabric.topology_conf import SlurmSwitch, Topology
from hpcforge.verify import jobs, launches
from hpcforge.verify.head import Completed
from hpcforge.verify.heartbeat import Owner, stamped
from hpcforge.verify.launches import watched
from hpcforge.verify.submit import PORTS
from hpcforge.verify.verify import LaunchOptions, verify

Build = Callable[..., Cluster]
Answer = Completed | Callable[[], Completed]
STAMPED = stamped()
WATCHED = watched("", [])[:-1]
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
        events: list[dict[str, Any]] = [
            {"event": "started", "rank": rank, "host": f"w{rank // 2 + 1}"} for rank in range(ranks)
        ]
        events += [
            MEASURED[test],
            {"event": "result", "world_size": ranks, "backend": "gloo", "device": "cpu", "seconds": 0.1},
        ]
        lines += [f"{event.get('rank', 0) // 2}: {json.dumps({**event, 'test': test})}\n" for event in events]
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
        argv = argv[len(WATCHED) + 1 :] if argv[: len(WATCHED)] == WATCHED else argv
        assert bool(stdin) == (argv[0] == "sbatch")
        assert aside == (argv[0] == "scancel" or launches.REMOVE in argv)  # they must not wait for srun
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


def test_a_verdict_has_its_job_and_the_time_of_its_launch(build: Build) -> None:
    before = round(time.time(), 1)
    refused = [Completed(1, "", "sbatch: error: no such partition")]
    verdicts = (*verify(build(), ScriptedHead(), {}, quiet), *verify(build(), ScriptedHead(sbatch=refused), {}, quiet))
    assert [verdict.jobs for verdict in verdicts] == [("12",), ("12",), (), ()]
    assert all(before <= verdict.began_s <= time.time() + 0.1 for verdict in verdicts)


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


def test_each_wait_prints_what_for_and_how_long_at_most(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "EACH_S", 0.0)
    head = ScriptedHead(
        squeue=[ok(f"12|{state}\n") for state in ("PENDING|Priority", *["RUNNING|Prolog"] * 2, "RUNNING|None")]
    )
    told: list[str] = []
    verify(build(), head, {}, lambda _, text: told.append(text))
    waits = [text for text in told if text.startswith("waiting for ")]
    named = ["the prolog of job 12", "4 ranks on w[1-2]"]
    assert [*dict.fromkeys(waits)] == [f"waiting for {what}: 0 s of at most 240 s" for what in named]
    assert "waiting: Priority; at most 60 s" in told


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
    head = ScriptedHead(srun=[Completed(1, f"1: {json.dumps(wrong)}\n", ""), passed(4, "train_ddp")])
    told: list[tuple[str, str]] = []
    verdicts = verify(build(), head, {}, lambda test, text: told.append((test, text)))
    assert [text.partition(" ")[0] for test, text in told if test == "allreduce"] == ["wrong:"]
    assert [text.partition(" after ")[0] for test, text in told if test == "train_ddp"][-1] == "ended"
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
    assert first.seconds >= 0.4


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
    verdict = verify(build(), head, {}, quiet, options=LaunchOptions(pending_s=0.3))[0]
    assert (verdict.status, verdict.node) == ("pending", "w2")
    assert "ReqNodeNotAvail" in verdict.detail
    assert "w2 drained: bad memory" in verdict.detail
    assert head.programs()[-1] == "scancel"
    assert "srun" not in head.programs()


def test_pending_names_a_node_that_a_reservation_holds(build: Build) -> None:
    head = ScriptedHead(squeue=[ok("12|PENDING|Resources\n")], sinfo=[ok("w1|idle|none\nw2|reserved|none\n")])
    verdict = verify(build(), head, {}, quiet, options=LaunchOptions(pending_s=0.1))[0]
    assert (verdict.status, verdict.node) == ("pending", "w2")
    assert "w2 reserved" in verdict.detail
    verdict = verify(build(), head, {}, quiet, options=LaunchOptions(pending_s=0.1, reservation="tests"))[0]
    assert verdict.node is None


def test_nobody_is_told_to_cancel_what_may_be_anothers_work(build: Build) -> None:
    theirs = ok("9|tests|hpcforge-allreduce|w[1-2]\n")
    head = ScriptedHead(squeue=[ok("12|PENDING|Resources\n")], occupants=[theirs])
    verdict = verify(build(), head, {}, quiet, options=LaunchOptions(pending_s=0.1))[0]
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
    verdicts = verify(build(), head, {}, quiet, options=LaunchOptions(pending_s=0.1))
    assert [(one.status, one.waits_for) for one in verdicts] == [("pending", waits_for)] * 2


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


RECORDS = Path(__file__).parents[1] / "slurm" / "ended"
FULL = "w1|idle|none\nw2|drained|hpcforge-health: /tmp has 1 MiB free, needed 512 MiB\n"
PROLOG = "12|RUNNING|Prolog\n"
LATE = "job 12 ran into its time limit of 00:01:00 (Slurm: TIMEOUT, TimeLimit)"
CANCELLED = "12|CANCELLED|None\n"


def record(name: str) -> Completed:
    """What `scontrol show job` gave of a real job that ended so."""
    return ok((RECORDS / f"{name}.txt").read_text())


def test_a_node_whose_prolog_fails_is_named_and_the_tests_are_run_again_without_it(build: Build) -> None:
    told: list[str] = []
    head = ScriptedHead(
        squeue=[ok(PROLOG), ok(PROLOG), ok(CANCELLED), ok("13|RUNNING|None\n")],
        sbatch=[ok("12\n"), ok("13\n")],
        scontrol=[record("prolog")],
        sinfo=[ok(FULL)],
        srun=[passed(2)],
    )
    verdicts = verify(build(), head, {}, lambda _test, text: told.append(text))
    why = "drained: hpcforge-health: /tmp has 1 MiB free, needed 512 MiB"
    assert [(one.status, one.nodes, one.left_out) for one in verdicts] == [("passed", ("w1",), {"w2": why})] * 2
    assert f"w2: {why}; the prolog of job 12 failed; run again without w2" in told
    assert head.programs().count("srun") == 1  # none while the prolog ran: it would find the step refused, and wait
    assert ["--nodelist=w1" in argv for argv in head.asked if argv[0] == "sbatch"] == [False, True]


def test_a_silent_squeue_during_the_prolog_is_not_taken_for_its_end(build: Build) -> None:
    silent = Completed(1, "", "slurm_load_jobs error: Unable to contact slurm controller\n")
    head = ScriptedHead(squeue=[ok(PROLOG), silent, ok("12|RUNNING|None\n")])
    assert [one.status for one in verify(build(), head, {}, quiet)] == ["passed", "passed"]
    assert head.programs() == ["sbatch", "squeue", "squeue", "squeue", "srun", "scancel"]


def test_a_prolog_that_takes_longer_than_a_job_may_wait_is_waited_for(build: Build) -> None:
    head = ScriptedHead(squeue=[*[ok(PROLOG)] * 4, ok("12|RUNNING|None\n")])
    assert verify(build(), head, {}, quiet, options=LaunchOptions(pending_s=0.1))[0].status == "passed"


def test_a_test_that_needs_the_node_fails_because_of_it_and_others_are_run_without_it(build: Build) -> None:
    cluster = build()
    assert cluster.acceptance
    first, second = cluster.acceptance.tests
    first = replace(first, program=replace(first.program, min_nodes=2))
    cluster = replace(cluster, acceptance=replace(cluster.acceptance, tests=(first, second)))
    head = ScriptedHead(
        squeue=[ok(PROLOG), ok(CANCELLED), ok("12|RUNNING|None\n")],
        scontrol=[record("prolog")],
        sinfo=[ok(FULL)],
        srun=[passed(2, "train_ddp")],
    )
    lacking, other = verify(cluster, head, {}, quiet)
    assert (lacking.status, lacking.node, lacking.next_command) == ("failed", "w2", "scontrol show node w2")
    assert lacking.detail.startswith("drained: hpcforge-health: /tmp has 1 MiB free, needed 512 MiB; ")
    assert (other.status, other.nodes) == ("passed", ("w1",))


def test_a_node_that_fails_or_refuses_tasks_before_a_rank_spoke_is_left_out(build: Build) -> None:
    refused = "srun: error: Task launch for StepId=12.0 failed on node w2: Unspecified error\n"
    head = ScriptedHead(srun=[Completed(1, "", refused), passed(2)])
    verdict = verify(build(), head, {}, quiet)[0]
    assert (verdict.status, list(verdict.left_out)) == ("passed", ["w2"])
    head = ScriptedHead(
        srun=[Completed(137, "", ""), passed(2)], scontrol=[record("node")], sinfo=[ok("w2|down*|Not responding\n")]
    )
    verdict = verify(build(), head, {}, quiet)[0]
    assert (verdict.status, verdict.left_out) == ("passed", {"w2": "not responding: Not responding"})


def test_a_node_that_only_lost_its_jobs_credential_is_not_blamed(build: Build) -> None:
    """Seen when another node went down as the step began: a healthy node refuses the task of a job that has ended."""
    revoked = "srun: error: Task launch for StepId=12.0 failed on node w1: Job credential revoked\n"
    head = ScriptedHead(srun=[Completed(1, "", revoked)], scontrol=[record("node")], sinfo=[ok("w2|idle|none\n")])
    verdict = verify(build(), head, {}, quiet)[0]
    assert (verdict.status, verdict.node, dict(verdict.left_out)) == ("failed", None, {})
    assert "job 12 ended because a node failed" in verdict.detail


def test_a_node_that_fails_while_ranks_are_at_work_is_the_verdict(build: Build) -> None:
    started = "".join(
        f'{rank // 2}: {{"event": "started", "test": "allreduce", "rank": {rank}, "host": "w{rank // 2 + 1}"}}\n'
        for rank in range(4)
    )
    lost = Completed(143, started, "srun: error: Node failure on w2\n")
    head = ScriptedHead(srun=[lost, passed(4, "train_ddp")], scontrol=[record("node")])
    verdict = verify(build(), head, {}, quiet)[0]
    assert (verdict.status, verdict.node, verdict.nodes) == ("failed", "w2", ("w1", "w2"))
    assert verdict.detail == "Node failure on w2; job 12 ended because a node failed (Slurm: NODE_FAIL, NodeDown)"


@pytest.mark.parametrize(
    ("name", "status", "cause"),
    [
        ("cancelled", "failed", "job 12 was cancelled (Slurm: CANCELLED)"),
        ("launch", "failed", "job 12 was cancelled before it began (Slurm: CANCELLED)"),
        ("node", "failed", "job 12 ended because a node failed (Slurm: NODE_FAIL, NodeDown)"),
        ("time_limit", "timed_out", LATE),
        (
            "time_limit_completing",
            "timed_out",
            "job 12 ran into its time limit of 00:01:00 (Slurm: TIMEOUT, TimeLimit)",
        ),
    ],
)
@pytest.mark.parametrize("while_it_runs", [False, True])
def test_an_end_that_is_no_nodes_fault_blames_none(
    build: Build, name: str, status: str, cause: str, while_it_runs: bool
) -> None:
    cut = {"srun": [Completed(137, '0: {"event": "node", "host": "w1"}\n', "")]}
    over = {"squeue": [ok("12|COMPLETING|None\n")]}
    head = ScriptedHead(scontrol=[record(name)], **(cut if while_it_runs else over))
    verdict = verify(build(), head, {}, quiet)[0]
    assert (verdict.status, verdict.node) == (status, None)
    assert verdict.detail == cause
    assert verdict.next_command == "scontrol show job 12"


def test_who_cancelled_it_is_told_and_no_node_is_blamed_that_is_drained_meanwhile(build: Build) -> None:
    head = ScriptedHead(
        squeue=[ok(CANCELLED)],
        scontrol=[record("cancelled")],
        sacct=[ok("CANCELLED by 2001\n")],
        id=[ok("ada\n")],
        sinfo=[ok(FULL)],
    )
    verdict = verify(build(), head, {}, quiet)[0]
    assert (verdict.status, verdict.node) == ("failed", None)
    assert verdict.detail == "job 12 was cancelled (Slurm: CANCELLED), by ada"


@pytest.mark.parametrize(
    ("sacct", "said"),
    [
        ("CANCELLED by 2001\n", "cancelled (Slurm: CANCELLED), by ada"),
        ("", "cancelled or preempted (Slurm: COMPLETING)"),
    ],
)
def test_a_job_whose_tasks_do_not_end_is_not_waited_for(build: Build, sacct: str, said: str) -> None:
    head = ScriptedHead(
        srun=[Completed(137, AT_WORK, "")], scontrol=[record("completing")], sacct=[ok(sacct)], id=[ok("ada\n")]
    )
    assert verify(build(), head, {}, quiet)[0].detail == f"job 12 was {said}"


def test_an_owner_that_was_not_heard_of_is_the_cause_where_the_job_ended_itself(build: Build) -> None:
    itself = ok(record("node").stdout.replace("NODE_FAIL Reason=NodeDown", "COMPLETED Reason=None"))
    head = ScriptedHead(srun=[Completed(143, "", "")], scontrol=[itself])
    assert verify(build(), head, {}, quiet)[0].detail == "job 12 ended itself: no sign of hpcforge for 40 s"


# Slurm 22.05 of a step whose task on w2 took more than the job has; the second as cgroups do it, by its own text.
OVER_MEMORY = """\
srun: Job step aborted: Waiting up to 32 seconds for job step to finish.
1: slurmstepd-w2: error: StepId=26.0 exceeded memory limit (3437367296 > 3221225472), being killed
0: slurmstepd-w1: error: *** STEP 26.0 ON w1 CANCELLED AT 2026-11-25T00:30:24 ***
srun: error: w1: task 0: Killed
1: slurmstepd-w2: error: StepId=26.0 exceeded memory limit (3437367296 > 3221225472), being killed
srun: error: w2: task 1: Killed
"""
OOM_KILLED = """\
1: slurmstepd: error: Detected 1 oom_kill event in StepId=26.0. Some of the step tasks have been OOM Killed.
srun: error: w2: task 1: Out Of Memory
"""
AT_WORK = '1: {"event": "node", "host": "w2", "node_rank": 1}\n0: {"event": "node", "host": "w1", "node_rank": 0}\n'


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        (OVER_MEMORY, "StepId=26.0 exceeded memory limit (3437367296 > 3221225472), being killed"),
        (OOM_KILLED, "Detected 1 oom_kill event in StepId=26.0. Some of the step tasks have been OOM Killed."),
        (OOM_KILLED.splitlines()[1], "Out Of Memory"),
    ],
)
def test_a_task_that_uses_too_much_memory_is_told_with_its_node_and_not_run_again(
    build: Build, stderr: str, words: str
) -> None:
    head = ScriptedHead(srun=[Completed(137, AT_WORK, stderr)], scontrol=[record("in_prolog")])
    verdict = verify(build(), head, {}, quiet)[0]
    said = f"used more memory than the job has there (Slurm: {words})"
    assert (verdict.status, verdict.node, verdict.detail) == ("failed", "w2", said)
    assert verdict.nodes == ("w1", "w2")


def test_a_step_that_somebody_cancelled_blames_no_node(build: Build) -> None:
    gone = "0: slurmstepd-w1: error: *** STEP 26.0 ON w1 CANCELLED AT 2026-11-25T00:30:24 ***\n"
    head = ScriptedHead(srun=[Completed(137, AT_WORK, gone)], scontrol=[record("in_prolog")])
    verdict = verify(build(), head, {}, quiet)[0]
    assert (verdict.status, verdict.node) == ("failed", None)
    assert verdict.detail.startswith("no rank started on w[1-2]: srun ended with exit code 137: 0: slurmstepd-w1: ")


def test_a_job_that_a_limit_keeps_from_ever_starting_is_not_waited_for(build: Build) -> None:
    began = time.monotonic()
    head = ScriptedHead(squeue=[ok("12|PENDING|None\n"), ok("12|PENDING|QOSMaxNodePerJobLimit\n")])
    verdict = verify(build(), head, {}, quiet)[0]
    assert time.monotonic() - began < 10
    assert (verdict.status, verdict.detail) == (
        "not_run",
        "Slurm says QOSMaxNodePerJobLimit, so the job would never start",
    )
    assert verdict.next_command == "sacctmgr show association user=tests; sacctmgr show qos"


@pytest.mark.parametrize(
    "head",
    [
        ScriptedHead(squeue=[ok("12|PENDING|BadConstraints\n")] * 3),
        ScriptedHead(
            sbatch=[
                Completed(1, "", "sbatch: error: Batch job submission failed: Requested topology configuration is not "
                "available\n")
            ] * 2
        ),
    ],
)  # fmt: skip
def test_a_job_that_cannot_be_placed_is_not_run_and_not_waited_for(build: Build, head: ScriptedHead) -> None:
    verdict = verify(build(), head, {}, quiet)[0]
    assert verdict.status == "not_run"
    assert "BadConstraints, so the job would never start" in verdict.detail or "Slurm refused" in verdict.detail
    assert verdict.next_command == "scontrol show topology; scontrol show node w[1-2]"


def test_a_test_of_nodes_that_the_topology_keeps_apart_is_not_submitted(build: Build) -> None:
    cluster = build()
    apart = Topology("tree", "fast", False, (SlurmSwitch("a", ("w1",)), SlurmSwitch("b", ("w2",))), (), ())
    head = ScriptedHead()
    verdicts = verify(replace(cluster, slurm=replace(cluster.slurm, topologies=(apart,))), head, {}, quiet)
    reason = "w1 and w2 are apart in the topology of Slurm: no job has nodes of two"
    assert [(each.status, each.detail) for each in verdicts] == [("not_run", reason)] * 2
    assert head.asked == []


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
    verify(build(), head, {}, quiet, options=LaunchOptions(extra_args={"train_ddp": ["--inject", "die:1"]}))
    (step,) = [argv for argv in head.asked if argv[0] == "timeout"]
    assert step.count("--inject") == 1
    assert step[-2:] == ["--inject", "die:1"]
    verify(build(), head, {}, quiet, options=LaunchOptions(extra_args={"allreduce": ["--inject", "die:1"]}))
    step = next(argv for argv in reversed(head.asked) if argv[0] == "timeout")
    assert step.index("allreduce") < step.index("--inject") < step.index("--next")
