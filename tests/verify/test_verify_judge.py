"""Steps as Slurm 22.05 and torchrun left them on two real nodes (steps/), and what is made of them (verdicts/)."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge.cluster.model import Cluster
from hpcforge.verify import submit
from hpcforge.verify.head import Completed
from hpcforge.verify.judge import judge
from hpcforge.verify.transcript import clean, read
from hpcforge.verify.verdicts import Verdict, summary_line

HERE = Path(__file__).parent
STEPS = sorted((HERE / "steps").glob("*.txt"))
Golden = Callable[[Path, str], None]
Build = Callable[..., Cluster]


@pytest.fixture
def job(build: Build) -> submit.Launch:
    cluster = build()
    assert cluster.acceptance
    return submit.launch(cluster, cluster.acceptance.tests[0], ("w1", "w2"))


def step(text: str) -> Completed:
    rc, stdout, stderr = re.split(r"^--- std(?:out|err)\n", text, flags=re.MULTILINE)
    return Completed(int(rc.split()[1]), stdout, stderr)


def result(**changed: object) -> str:
    events = [{"event": "started", "rank": rank, "host": f"w{rank // 2 + 1}"} for rank in range(4)]
    events.append({"event": "measurement", "size_bytes": 4096, "busbw_gb_per_s": 1.5})
    events.append({"event": "result", "world_size": 4, "backend": "gloo", "device": "cpu", **changed})
    return "".join(f"0: {json.dumps(event)}\n" for event in events)


@pytest.mark.parametrize("path", STEPS, ids=[path.stem for path in STEPS])
def test_real_steps(path: Path, job: submit.Launch, golden: Golden) -> None:
    verdict = judge(job, step(path.read_text()))
    fields = json.dumps(dataclasses.asdict(verdict), indent=1)
    golden(HERE / "verdicts" / f"{path.stem}.txt", f"{summary_line(verdict)}\n{fields}\n")


def test_passed(job: submit.Launch) -> None:
    assert judge(job, Completed(0, result(), "")).passed


@pytest.mark.parametrize(
    ("stdout", "detail"),
    [
        ("", "ended without an error but reported no result: nothing was measured"),
        (
            result().replace("measurement", "nothing"),
            "ended without an error but reported no result: nothing was measured",
        ),
        (result(world_size=3), "reported results of 3 ranks, 4 were asked for"),
        (result().replace('"started", "rank": 2', '"?"'), "rank 2 never reported"),
    ],
)
def test_a_missing_measurement_is_a_failure(job: submit.Launch, stdout: str, detail: str) -> None:
    verdict = judge(job, Completed(0, stdout, ""))
    assert (verdict.status, verdict.detail) == ("failed", detail)


def test_a_wrong_sum_on_every_rank_blames_no_rank(job: submit.Launch) -> None:
    line = '{"event": "wrong", "rank": %d, "host": "w%d", "where": "element 3", "expected": "10.0", "got": "11.0"}'
    said = "".join(f"0: {line % (rank, rank // 2 + 1)}\n" for rank in range(4))
    verdict = judge(job, Completed(1, said, ""))
    assert (verdict.status, verdict.rank, verdict.node) == ("wrong", None, None)
    assert verdict.detail.startswith("4 of 4 ranks have a wrong result")


def test_a_node_whose_ranks_all_stopped_answering_is_blamed_as_a_whole(job: submit.Launch) -> None:
    started = "".join(result().splitlines(keepends=True)[:4])
    line = '0: {"event": "failed", "rank": %d, "host": "w1", "during": "collective", "error": "Timed out waiting"}\n'
    waited = "".join(line % rank for rank in (0, 1))
    verdict = judge(job, Completed(1, started + waited, ""))
    assert (verdict.status, verdict.rank, verdict.node) == ("timed_out", None, "w2")


def test_past_its_limit_and_nothing_heard(job: submit.Launch) -> None:
    verdict = judge(job, Completed(124, '0: {"event": "node", "host": "w1", "node_rank": 0}\n', ""))
    assert verdict.status == "failed"
    assert verdict.detail.startswith("no rank started")
    everyone = "".join(result().splitlines(keepends=True)[:4])
    verdict = judge(job, Completed(124, everyone, ""))
    assert (verdict.status, verdict.detail) == ("timed_out", "not done after 120 s")


def test_the_head_is_lost(job: submit.Launch) -> None:
    verdict = judge(job, Completed(None, "", "ssh: connection closed"))
    assert (verdict.status, verdict.detail) == ("failed", "lost contact with the head: ssh: connection closed")


def test_lines_that_srun_broke_are_mended() -> None:
    whole = json.dumps({"event": "result", "hosts": [f"w{number}" for number in range(400)]})
    pieces = [whole[at : at + 1024] for at in range(0, len(whole), 1024)]
    other = '1: {"event": "started", "rank": 1, "host": "w2"}'
    seen = read(Completed(0, "\n".join([f"0: {pieces[0]}", other, *(f"0: {piece}" for piece in pieces[1:])]), ""))
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
        '0: {"event": "failed", "rank": "0", "host": null}',
        '0: {"event": "wrong", "rank": 0, "host": "w1"}',
        '0: {"event": "measurement", "busbw_gb_per_s": NaN, "x": [1], "y": {}}',
        '0: {"event": "result", "world_size": {"a": 1}}',
        "99999999999: x",
        '0: {"event": ' + "[" * 9999,
        '0: {"event": "node", "host": 7}',
    ],
)
def test_nonsense_from_nodes_is_survived(job: submit.Launch, line: str) -> None:
    for rc in (0, 1, None):
        assert isinstance(judge(job, Completed(rc, line + "\n", line + "\n")), Verdict)


def test_what_nodes_say_is_harmless_on_a_terminal(job: submit.Launch) -> None:
    error = json.dumps({"event": "failed", "rank": 0, "host": "w\x1b[2J1", "error": "\x1b]0;owned\x07" + "x" * 9999})
    verdict = judge(job, Completed(1, f"0: {error}\n", ""))
    assert verdict.detail.isprintable()
    assert len(verdict.detail) <= 300
    assert verdict.node
    assert verdict.node.isprintable()


def test_clean() -> None:
    assert clean("a\n b\x1b[31m\tc") == "a b [31m c"
