"""The JSON lines of an apply, and what its end says."""

from __future__ import annotations

import io
import json

import pytest

from hpcforge.cli.apply import exit_code
from hpcforge.cli.exit_codes import Exit
from hpcforge.engines.tasks import Event
from hpcforge.plan.plan import Leaving, Plan
from hpcforge.plan.test_selection import SmokeRun
from hpcforge.report.apply_text import nodes_table
from hpcforge.report.event_stream import Stream, beside_document
from hpcforge.report.progress import Progress
from hpcforge.run.result import ApplyResult, Reached, RoleOutcome, RunResult, Verified
from hpcforge.verify.verdict_records import KeptVerdicts, Recorded
from hpcforge.verify.verdicts import Verdict
from tests.support.plans import plan_with

RUN = SmokeRun(("allreduce",), ("w1",), ("w1",), "changed", ("w1",))
WAITS = Verdict("allreduce", "pending", ("w1",), waits_for=("job 7, ada's train on w1",))
WRONG = Verdict("allreduce", "wrong", ("w1",))
STANDS = Recorded((KeptVerdicts(Verdict("allreduce", "passed", ("w1",)), 1.0, ("w1",)),))


def plan(nodes: tuple[str, ...] = (), leaving: tuple[Leaving, ...] = ()) -> Plan:
    return plan_with("c", nodes, leaving=leaving)


def ended(**outcomes: RoleOutcome) -> RunResult:
    return RunResult({node: {"base": outcome} for node, outcome in outcomes.items()})


def applied(result: RunResult, **more: object) -> ApplyResult:
    return ApplyResult(result, **more)  # type: ignore[arg-type]


def test_a_line_an_event_each_with_its_version() -> None:
    out = io.StringIO()
    with Progress(io.StringIO()) as human, Stream(human, out.write) as stream:
        stream.plan(plan(), {"w2": "it changed after the plan was made"})
        with stream.phase("configure"):
            stream.event(Event("w1", "t", "changed", {"role": "base", "kind": "file", "name": "/etc/x", "detail": "d"}))
            stream.event(Event("w1", "t", "observed", {"facts": {"much": "of it"}}))
            stream.event(Event("w1", "", "settled", {"role": "base", "status": "done", "detail": ""}))
        stream.result(applied(ended(w1=RoleOutcome("done"))), Exit.DONE)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["plan", "said", "phase", "changed", "settled", "phase", "result"]
    assert {line["schema_version"] for line in lines} == {3}
    assert lines[3]["node"] == "w1"
    assert lines[-1]["exit"] == 0
    assert lines[-1]["result"]["outcomes"] == {"w1": {"base": {"status": "done", "detail": ""}}}


def test_without_json_nothing_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(io.StringIO()) as human, Stream(human, None) as stream:
        stream.say("hello")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("done", "code"),
    [
        (applied(ended(w1=RoleOutcome("done"))), Exit.DONE),
        (applied(ended(w1=RoleOutcome("deferred", "jobs"))), Exit.PENDING),
        (applied(ended(), moved={"w1": "not as it was"}), Exit.PENDING),
        (applied(RunResult({}, abandoned={"w1": "no route"})), Exit.UNREACHABLE),
        (applied(RunResult({"w1": {"base": RoleOutcome("failed", "x")}}, busy={"w1": "run 7"})), Exit.BUSY),
        (applied(ended(w1=RoleOutcome("failed"), w2=RoleOutcome("deferred"))), Exit.FAILED),
        (applied(ended(), tests=Verified((Reached(RUN, Verdict("allreduce", "pending", ("w1",))),))), Exit.BELOW),
        (applied(ended(), tests=Verified((Reached(RUN, WAITS),), recorded=STANDS)), Exit.DONE),
        (applied(ended(), tests=Verified(recorded=STANDS)), Exit.DONE),
        (applied(ended(), tests=Verified(recorded=STANDS, fell_out={"w2": "drained: bad fan"})), Exit.BELOW),
        (applied(ended(), tests=Verified(recorded=Recorded((KeptVerdicts(WRONG, 1.0, ()),)))), Exit.BELOW),
        (
            applied(ended(), tests=Verified(recorded=Recorded((KeptVerdicts(WRONG, 1.0, ()),)), note="not verified")),
            Exit.DONE,
        ),
    ],
)
def test_exit_status(done: ApplyResult, code: Exit) -> None:
    assert exit_code(done) == code


def test_the_table_tells_the_stories_of_nodes_that_did_not_go_through() -> None:
    result = ended(w1=RoleOutcome("deferred", "jobs still run there: 12"), w2=RoleOutcome("done"))
    result.outcomes |= {"w8": {"munge (removed)": RoleOutcome("done")}, "w9": {}}
    result.abandoned["w9"] = "no route"
    gone = (Leaving("w8", "10.0.0.8", True, None), Leaving("w9", "10.0.0.9", True, "no route"))
    text = nodes_table(plan(nodes=("w1", "w2"), leaving=gone), result, None)
    assert "w1     deferred     jobs still run there: 12; apply again later\n" in text
    assert "w8     left         nothing of hpcforge's is recorded there: an earlier run may have cleaned it\n" in text
    assert "w9     left behind  the cluster has forgotten it (no route), but it keeps its keys: " in text


def test_counted_work_is_progress_of_a_phase() -> None:
    out = io.StringIO()
    with Progress(io.StringIO()) as human, Stream(human, out.write) as stream:
        with stream.tally("starting nodes", ["w1", "w2"]) as tally, tally.part("w1"):
            pass
        stream.ended(Exit.DONE)
    *counts, result = [json.loads(line) for line in out.getvalue().splitlines()]
    keys = {"schema_version", "event", "time_s", "phase", "done", "total", "longest", "longest_s", "left_s"}
    assert [(line["event"], line["done"], line["total"], line["longest"]) for line in counts] == [
        ("progress", 0, 2, None),
        ("progress", 0, 2, "w1"),
        ("progress", 1, 2, None),
        ("progress", 1, 2, None),
    ]
    assert all(line.keys() == keys and line["schema_version"] == 3 for line in counts)
    assert (result["event"], result["exit"]) == ("result", 0)


@pytest.mark.parametrize("as_json", [True, False])
def test_beside_a_document_events_are_lines_of_stderr_in_place_of_those_for_people(
    as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with beside_document(as_json=as_json) as stream:
        stream.say("reading")
    out, err = capsys.readouterr()
    assert out == ""
    if as_json:
        assert [json.loads(line)["text"] for line in err.splitlines()] == ["reading"]
    else:
        assert err.endswith(" s] reading\n")
