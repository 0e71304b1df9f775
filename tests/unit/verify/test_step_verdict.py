"""Steps as Slurm 22.05 and torchrun left them on two real nodes (steps/), and what is made of them (verdicts/)."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcforge.cluster.model import Cluster, Gpus
from hpcforge.verify import submit
from hpcforge.verify.head import Completed
from hpcforge.verify.step_events import TaskLayout
from hpcforge.verify.step_output import read
from hpcforge.verify.step_verdict import judge
from hpcforge.verify.verdicts import Assertion, Verdict, summary_line
from tests.support.long_hostlists import LONG

HERE = Path(__file__).parent
STEPS = sorted((HERE / "steps").glob("*.txt"))
Golden = Callable[[Path, str], None]
Build = Callable[..., Cluster]


@pytest.fixture
def job(build: Build) -> submit.Launch:
    cluster = build()
    assert cluster.acceptance
    return submit.launch(cluster, cluster.acceptance.tests[:1], ("w1", "w2"))


@pytest.fixture
def both(build: Build) -> submit.Launch:
    cluster = build()
    assert cluster.acceptance
    return submit.launch(cluster, cluster.acceptance.tests, ("w1", "w2"))


def only(job: submit.Launch, ran: Completed) -> Verdict:
    (verdict,) = judge(job, ran)
    return verdict


def step(text: str) -> Completed:
    rc, stdout, stderr = re.split(r"^--- std(?:out|err)\n", text, flags=re.MULTILINE)
    return Completed(int(rc.split()[1]), stdout, stderr)


def result(**changed: object) -> str:
    events: list[dict[str, Any]]
    events = [{"event": "started", "rank": rank, "host": f"w{rank // 2 + 1}"} for rank in range(4)]
    measured = {"size_bytes": 4096, "busbw_gb_per_s": 1.5, "samples_per_s": 9.0, "loss_first": 0.4, "loss_last": 0.1}
    events.append({"event": "measurement", **measured})  # of either test
    events.append({"event": "result", "world_size": 4, "backend": "gloo", "device": "cpu", **changed})
    return by_rank(events)


def by_rank(events: list[dict[str, Any]]) -> str:
    """Events as srun labels them: each node has two ranks, and one task."""
    return "".join(f"{event.get('rank', 0) // 2}: {json.dumps(event)}\n" for event in events)


@pytest.mark.parametrize("path", STEPS, ids=[path.stem for path in STEPS])
def test_real_steps(path: Path, both: submit.Launch, golden: Golden) -> None:
    """Those named in_turn are of launches of both tests, the others of one test."""
    trained = path.stem.startswith(("passed_train_ddp", "passed_distribution", "never_returns"))
    one = both.turns[1:] if trained else both.turns[:1]
    job = both if path.stem.startswith("in_turn") else dataclasses.replace(both, turns=one)
    verdicts = judge(job, step(path.read_text()))
    told = (f"{summary_line(verdict)}\n{json.dumps(dataclasses.asdict(verdict), indent=1)}\n" for verdict in verdicts)
    golden(HERE / "verdicts" / f"{path.stem}.txt", "".join(told))


def test_passed(job: submit.Launch) -> None:
    assert only(job, Completed(0, result(), "")).passed


@pytest.mark.parametrize(
    ("stdout", "detail"),
    [
        ("", "ended without an error but reported no result: nothing was measured"),
        (
            result().replace("measurement", "nothing"),
            "ended without an error but reported no result: nothing was measured",
        ),
        (result(world_size=3), "reported results of 3 ranks instead of 4"),
        (result().replace('"started", "rank": 2', '"?"'), "rank 2 never reported"),
    ],
)
def test_an_incomplete_measurement_is_no_verdict(job: submit.Launch, stdout: str, detail: str) -> None:
    verdict = only(job, Completed(0, stdout, ""))
    assert (verdict.status, verdict.detail) == ("unknown", detail)


def test_a_wrong_sum_on_every_rank_blames_no_rank(job: submit.Launch) -> None:
    line = '{"event": "wrong", "rank": %d, "host": "w%d", "where": "element 3", "expected": "10.0", "got": "11.0"}'
    said = "".join(f"{rank // 2}: {line % (rank, rank // 2 + 1)}\n" for rank in range(4))
    verdict = only(job, Completed(1, said, ""))
    assert (verdict.status, verdict.rank, verdict.node) == ("wrong", None, None)
    assert verdict.detail.startswith("4 of 4 ranks have a wrong result")


def test_a_node_whose_ranks_all_stopped_answering_is_blamed_as_a_whole(job: submit.Launch) -> None:
    started = "".join(result().splitlines(keepends=True)[:4])
    line = '0: {"event": "failed", "rank": %d, "host": "w1", "during": "collective", "error": "Timed out waiting"}\n'
    waited = "".join(line % rank for rank in (0, 1))
    verdict = only(job, Completed(1, started + waited, ""))
    assert (verdict.status, verdict.rank, verdict.node) == ("timed_out", None, "w2")


def test_past_its_limit_and_nothing_heard(job: submit.Launch) -> None:
    verdict = only(job, Completed(124, '0: {"event": "node", "host": "w1", "node_rank": 0}\n', ""))
    assert verdict.status == "failed"
    assert verdict.detail.startswith("no rank started")
    everyone = "".join(result().splitlines(keepends=True)[:4])
    verdict = only(job, Completed(124, everyone, ""))
    assert (verdict.status, verdict.detail) == ("timed_out", "not done after 120 s")


def test_tests_of_one_launch_are_told_apart(both: submit.Launch) -> None:
    def of(test: str, text: str) -> str:
        return text.replace('"event"', f'"test": "{test}", "event"')

    first, second = of("allreduce", result()), of("train_ddp", result())
    assert [(one.test, one.passed) for one in judge(both, Completed(0, first + second, ""))] == [
        ("allreduce", True),
        ("train_ddp", True),
    ]
    failed = '1: {"event": "failed", "test": "train_ddp", "rank": 2, "host": "w2", "during": "own", "error": "x"}\n'
    told = judge(both, Completed(1, first + failed, ""))
    assert [(one.test, one.status, one.rank) for one in told] == [
        ("allreduce", "passed", None),
        ("train_ddp", "failed", 2),
    ]
    (told_first,) = judge(both, Completed(1, failed.replace("train_ddp", "allreduce"), ""))
    assert (told_first.test, told_first.rank) == ("allreduce", 2)


def test_a_rank_that_died_between_two_tests_is_blamed_at_the_second(both: submit.Launch) -> None:
    first = result().replace('"event"', '"test": "allreduce", "event"')
    report = "1:   rank      : 3 (local_rank: 1)\n1:   exitcode  : -9 (pid: 606)\n"
    told = judge(both, Completed(1, first, report))
    assert [(one.status, one.rank, one.node) for one in told] == [("passed", None, None), ("failed", 3, "w2")]


def test_a_result_without_all_ranks_is_not_excused_by_a_later_test(both: submit.Launch) -> None:
    first = result(world_size=3).replace('"event"', '"test": "allreduce", "event"')
    second = result().replace('"event"', '"test": "train_ddp", "event"')
    assert [one.status for one in judge(both, Completed(0, first + second, ""))] == ["unknown"]


def test_all_ranks_past_their_limit_blame_none(job: submit.Launch) -> None:
    started = "".join(result().splitlines(keepends=True)[:4])
    line = '%d: {"event": "overdue", "rank": %d, "host": "w1", "limit_s": 120.0}\n'
    closed = '1: {"event": "failed", "rank": 3, "host": "w2", "during": "collective", "error": "Connection closed"}\n'
    verdict = only(job, Completed(1, started + "".join(line % (rank // 2, rank) for rank in range(3)) + closed, ""))
    assert (verdict.status, verdict.rank, verdict.node) == ("timed_out", None, None)
    assert verdict.detail == "not done after 120 s"
    waited = closed.replace("Connection closed", "Timed out waiting 60000ms")
    verdict = only(
        job, Completed(1, started + line % (0, 0) + waited + waited.replace("3", "1").replace("1:", "0:", 1), "")
    )
    assert (verdict.status, verdict.detail[:9]) == ("timed_out", "2 ranks o")


def test_silent_ranks_of_several_nodes_are_named_with_these(job: submit.Launch) -> None:
    """What to do next is the test of pairs, where the blueprint has it."""
    started = "".join(result().splitlines(keepends=True)[:4])
    waits = '{"event": "failed", "rank": %d, "host": "%s", "during": "collective", "error": "Timed out waiting"}\n'
    ran = Completed(1, started + "0: " + waits % (0, "w1") + "1: " + waits % (3, "w2"), "")
    verdict = only(job, ran)
    assert verdict.detail == "2 ranks on w[1-2] did not answer while other ranks waited: [1-2]"
    assert (verdict.node, verdict.next_command) == (None, "sinfo --Node --long --nodes=w[1-2]")
    assert only(replace(job, pairs_test="pairs"), ran).next_command == "hpcforge verify BLUEPRINT --test pairs"
    alone = only(
        replace(job, pairs_test="pairs"),
        Completed(1, started + "0: " + waits % (0, "w1") + "0: " + waits % (1, "w1"), ""),
    )
    assert (alone.node, alone.next_command) == ("w2", "scontrol show node w2")


WAITED = [
    {"event": "started", "rank": rank, "host": f"w{rank // 2 + 1}"} for rank in range(4)
] + [
    {
        "event": "failed",
        "rank": rank,
        "host": f"w{rank // 2 + 1}",
        "during": "collective",
        "number": 7,
        "error": "timed out after 14 s in step 1",
        "place": f"train_ddp.py:{107 + rank % 2} forward_backward",
    }
    for rank in range(4)
]  # fmt: skip


def waited(**of_last: object) -> Completed:
    events = [*WAITED[:-1], {**WAITED[-1], **of_last}]
    return Completed(1, "".join(f"{int(str(event['rank'])) // 2}: {json.dumps(event)}\n" for event in events), "")


@pytest.mark.parametrize(
    ("last", "rank", "node", "detail"),
    [
        ({}, None, None, "all 4 ranks waited, so no rank differs from the others: timed out after 14 s"),
        ({"number": 6}, None, None, "all 4 ranks waited"),  # it may have left a broadcast before the others
        ({"place": "ranks.py:92 strike"}, 3, "w2", "at ranks.py:92 strike, where 3 others were at train_ddp.py:107 f"),
    ],
)
def test_where_all_ranks_waited_only_one_elsewhere_is_blamed(
    job: submit.Launch, last: dict[str, object], rank: int | None, node: str | None, detail: str
) -> None:
    verdict = only(job, waited(**last))
    assert (verdict.status, verdict.rank, verdict.node) == ("timed_out", rank, node)
    assert detail in verdict.detail


def test_a_rank_that_a_signal_stopped_is_blamed(job: submit.Launch) -> None:
    verdict = only(job, waited(during="own", error="stopped by a signal", place=""))
    assert (verdict.status, verdict.rank, verdict.node) == ("failed", 3, "w2")
    assert verdict.detail == "stopped by a signal"


@pytest.mark.parametrize("number", [True, -1, "7", 10**400, None, [7]])
def test_a_number_of_a_collective_that_is_none_is_left_out(job: submit.Launch, number: object) -> None:
    seen = read(waited(number=number), job.turns[0].test, job.layout)
    assert [end.number for end in seen.failed] == [7, 7, 7, None]


def test_the_head_is_lost(job: submit.Launch) -> None:
    verdict = only(job, Completed(None, "", "ssh: connection closed"))
    assert (verdict.status, verdict.detail) == ("unknown", "lost contact with the head: ssh: connection closed")


def test_lines_that_srun_broke_are_mended() -> None:
    whole = json.dumps({"event": "result", "hosts": [f"w{number}" for number in range(400)]})
    pieces = [whole[at : at + 1024] for at in range(0, len(whole), 1024)]
    other = '1: {"event": "started", "rank": 1, "host": "w2"}'
    seen = read(
        Completed(0, "\n".join([f"0: {pieces[0]}", other, *(f"0: {piece}" for piece in pieces[1:])]), ""),
        "allreduce",
        TaskLayout(("w1", "w2"), ranks=1),
    )
    assert seen.result
    assert len(seen.result["hosts"]) == 400
    assert seen.started == {1: "w2"}


@pytest.mark.parametrize(
    "line",
    [
        "0: {",
        "0: []",
        "0: null",
        '0: {"event": 3}',
        '0: {"event": "failed"}',
        '0: {"event": "overdue", "rank": 0, "host": "w1", "limit_s": "soon"}',
        '0: {"event": "result", "world_size": 4, "seconds": -1e999, "test": []}',
        '0: {"event": "failed", "rank": "0", "host": null}',
        '0: {"event": "wrong", "rank": 0, "host": "w1"}',
        '0: {"event": "measurement", "busbw_gb_per_s": NaN, "x": [1], "y": {}}',
        '0: {"event": "result", "world_size": {"a": 1}}',
        "99999999999: x",
        '0: {"event": ' + "[" * 9999,
        '0: {"event": "node", "host": 7}',
        f'0: {{"event": "overdue", "rank": 0, "host": "w1", "limit_s": 1{"0" * 400}}}',
        f'0: {{"event": "measurement", "busbw_gb_per_s": 1{"0" * 400}}}',
        f'0: {{"event": "result", "world_size": 4, "seconds": 1{"0" * 400}}}',
        f'0: {{"event": "failed", "rank": 1{"0" * 4000}, "host": "w1"}}',
        '0: {"event": "failed", "rank": -99999, "host": "w1"}',
        f'0: {{"event": "failed", "rank": {"9" * 5000}, "host": "w1"}}',
        "0:   rank      : -99999 (local_rank: 0)\n0:   exitcode  : -9 (pid: 6)",
        f"0:   rank      : {'9' * 5000}\n0:   exitcode  : {'9' * 5000}",
        f"srun: error: w1: task 0: Exited with exit code {'9' * 5000}",
        f"{'9' * 5000}: x",
    ],
)
def test_nonsense_from_nodes_is_survived(job: submit.Launch, line: str) -> None:
    for rc in (0, 1, None):
        assert isinstance(only(job, Completed(rc, line + "\n", line + "\n")), Verdict)


@pytest.mark.parametrize("hosts", LONG, ids=lambda text: f"{text[:12]} of {len(text)}")
def test_a_long_host_list_on_stderr_takes_no_time(job: submit.Launch, hosts: str) -> None:
    start = time.process_time()
    assert isinstance(only(job, Completed(1, "", f"{hosts}: tasks 0-1: Exited with exit code 1\n")), Verdict)
    assert time.process_time() - start < 1


def test_what_nodes_say_is_harmless_on_a_terminal(job: submit.Launch) -> None:
    error = json.dumps({"event": "failed", "rank": 0, "host": "w\x1b[2J1", "error": "\x1b]0;owned\x07" + "x" * 9999})
    verdict = only(job, Completed(1, f"0: {error}\n", ""))
    assert verdict.detail.isprintable()
    assert len(verdict.detail) <= 300
    assert verdict.node
    assert verdict.node.isprintable()


def test_a_node_whose_launcher_was_killed_alone_is_blamed(job: submit.Launch) -> None:
    """For want of memory, say: Slurm terminates the others then."""
    stderr = "srun: error: w2: task 1: Killed\nsrun: error: w1: task 0: Terminated\n"
    verdict = only(job, Completed(137, "", stderr))
    assert (verdict.status, verdict.node) == ("failed", "w2")
    assert verdict.detail == "no rank started: Killed"
    both = only(job, Completed(137, "", stderr.replace("Terminated", "Killed")))
    assert (both.status, both.node) == ("failed", None)


@pytest.mark.parametrize(("cancelled_at", "blamed"), [(1, "w2"), (0, None), (2, None)])
def test_of_launchers_that_were_killed_the_one_before_slurm_ended_the_step_is_blamed(
    job: submit.Launch, cancelled_at: int, blamed: str | None
) -> None:
    """As srun wrote it where memory was short on a node: the others waited in vain, and Slurm killed them."""
    lines = ["srun: error: w2: task 1: Killed", "srun: error: w1: task 0: Killed"]
    lines.insert(cancelled_at, "0: slurmstepd-w1: error: *** STEP 1.1 ON w1 CANCELLED AT 2026-11-26T13:01:15 ***")
    verdict = only(job, Completed(137, "", "\n".join(lines) + "\n"))
    assert (verdict.status, verdict.node) == ("failed", blamed)


def test_who_holds_the_port_of_the_ranks_is_named(job: submit.Launch) -> None:
    """torch says EADDRINUSE in a sentence of its own, and not whose it is."""
    said = [
        {"event": "node", "host": "w1", "node_rank": 0},
        {"event": "held", "host": "w1", "text": "port 20417 is held by ada"},
    ]
    stdout = "".join(f"0: {json.dumps(event)}\n" for event in said) + '1: {"event": "node", "host": "w2"}\n'
    stderr = (
        "0: torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
        "port: 20417, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use\n"
        "srun: error: w1: task 0: Exited with exit code 1\nsrun: error: w2: task 1: Terminated\n"
    )
    verdict = only(job, Completed(1, stdout, stderr))
    assert (verdict.status, verdict.node) == ("failed", "w1")
    assert verdict.detail == "no rank started: port 20417 is held by ada; exit code 1"


def asserted(**changed: object) -> str:
    said = {"what": "ddp: loss", "expected": 4.0, "got": 4.0, "error": 1e-7, "tolerance": 1e-5, "at_least": 1e-9}
    return f"0: {json.dumps({'event': 'assertion', **said, **changed})}\n"


def test_what_was_compared_is_kept(job: submit.Launch) -> None:
    verdict = only(job, Completed(0, asserted(rank=1, host="w1") + result(), ""))
    assert verdict.passed
    assert verdict.assertions == (Assertion("ddp: loss", 4.0, 4.0, 1e-7, 1e-5, 1e-9, 1, "w1"),)


@pytest.mark.parametrize(
    ("error", "bound"),
    [(0.25, "must be at most 1e-05"), (1e-12, "must be at least 1e-09"), (0, "must be at least 1e-09")],
)
@pytest.mark.parametrize("rc", [0, 1])
def test_what_does_not_hold_is_wrong_whatever_the_program_says(
    job: submit.Launch, error: float, bound: str, rc: int
) -> None:
    verdict = only(job, Completed(rc, asserted(error=error, got=3.0) + result(), ""))
    assert (verdict.status, verdict.rank, verdict.node) == ("wrong", None, None)
    assert verdict.detail == f"ddp: loss: expected 4, got 3; relative error {error:.3g}, {bound}"


def test_a_rank_that_was_wrong_is_wrong_though_all_ended_well(job: submit.Launch) -> None:
    line = '0: {"event": "wrong", "rank": 1, "host": "w1", "where": "x", "expected": "1", "got": "2"}\n'
    assert only(job, Completed(0, line + result(), "")).status == "wrong"


@pytest.mark.parametrize(
    "changed",
    [{"error": None}, {"error": "0"}, {"error": float("nan")}, {"tolerance": 10**400}, {"got": []}, {"at_least": {}}],
    ids=str,
)
def test_a_comparison_without_numbers_does_not_hold(job: submit.Launch, changed: dict[str, object]) -> None:
    verdict = only(job, Completed(0, asserted(**changed) + result(), ""))
    assert verdict.status == "wrong"
    assert [assertion.holds for assertion in verdict.assertions] == [False]


def test_a_comparison_that_does_not_hold_is_kept_of_too_many(job: submit.Launch) -> None:
    printed = asserted(error=1e-9) * 1200 + asserted(error=9.0) + result()
    verdict = only(job, Completed(0, printed, ""))
    assert (verdict.status, len(verdict.assertions)) == ("wrong", 1000)


def test_comparisons_are_short_plain_and_not_endless(job: submit.Launch) -> None:
    hostile = asserted(what="\x1b[31m\n" + "x" * 1000, host=7) * 1200
    assertions = only(job, Completed(0, hostile + result(), "")).assertions
    assert len(assertions) == 1000
    assert (len(assertions[0].what), assertions[0].rank, assertions[0].host) == (100, None, "")
    assert assertions[0].what.isprintable()


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_bandwidth_between_one_rank_is_not_measured_and_not_missed(
    job: submit.Launch, build: Build, ranks: int
) -> None:
    cluster = build()
    assert cluster.acceptance
    alone = dataclasses.replace(
        submit.launch(cluster, cluster.acceptance.tests[:1], ("w1",)),
        ranks_per_node=ranks,
    )
    events: list[dict[str, object]] = [{"event": "started", "rank": rank, "host": "w1"} for rank in range(ranks)]
    events += [{"event": "measurement", "size_bytes": 4096, "seconds": 2e-5}, {"event": "result", "world_size": ranks}]
    verdict = only(alone, Completed(0, "".join(f"0: {json.dumps(event)}\n" for event in events), ""))
    if ranks == 1:
        assert (verdict.status, verdict.detail) == ("passed", "")
        assert verdict.headline == "busbw - GB/s at 4 KiB (-: not measured, one rank moves nothing)"
    else:
        assert (verdict.status, verdict.detail[:26]) == ("unknown", "reported no busbw_gb_per_s")


def test_a_build_of_pytorch_for_cpus_proves_nothing_of_real_gpus(job: submit.Launch) -> None:
    nodes = tuple(dataclasses.replace(node, gpus=Gpus("h200-sxm", 2)) for node in job.nodes)
    on_gpus = dataclasses.replace(job, nodes=nodes, gpus_per_node=2)
    verdict = only(on_gpus, Completed(0, result(), ""))
    assert (verdict.status, verdict.detail) == (
        "unknown",
        "ran on CPUs: no GPU was used, though each node has 2; check that its PyTorch is a build for GPUs",
    )
    assert only(job, Completed(0, result(), "")).passed
    assert only(on_gpus, Completed(0, result(device="NVIDIA H200"), "")).passed
