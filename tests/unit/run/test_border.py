"""One node of three answers oddly, in every way that one change to each part of each answer can be odd.

What it says goes the way that a node's lines go, through the border and then through looking, planning, the walk,
admission, the records and everything that is printed. The others answer well. Whatever comes: no exception, the others
are finished, the odd one is named, and nothing reaches a terminal that could steer it or pass for another line.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcforge.cli.logs import _summary
from hpcforge.cluster.model import (
    FabricOf,
)
from hpcforge.engines.node_output import AnswerReader
from hpcforge.engines.tasks import Event, NodeProgram, Task, result
from hpcforge.node import answer_types
from hpcforge.plan.roster import PATH as ROSTER_PATH
from hpcforge.plan.roster import Enrolled, roster_document
from hpcforge.run.logs import read_logs
from hpcforge.run.neighbours import ask
from hpcforge.run.records import lease as leases
from hpcforge.run.records.history import Copy
from hpcforge.run.result import RunResult
from hpcforge.run.site import Goal
from hpcforge.run.survey import survey_nodes
from hpcforge.verify.verdict_records import load
from tests.support.three_nodes import (
    AT_WORK,
    CLUSTER,
    DESIRED,
    DONE,
    FAILED,
    HEAD_SAYS,
    LEASE,
    LOG,
    NAMES,
    NO_PYTHON,
    NO_ROOT,
    ODD,
    RECEIPT,
    ROSTER,
    VERDICT,
    Line,
    Nodes,
    Printed,
    kept,
    observed,
)

STEERS = "x\x1b[2J\nFORGED\r\nFORGED\u2028FORGED\x9b31m\u202e\ud800"
VALUES: tuple[Any, ...] = (
    None, True, -1, 10**9 + 1, 2**70, 1e300, 1e400, float("nan"), float("-inf"), "", "abc", "1e400", STEERS, "y" * 5000,
    [], [[]], {}, {"a": STEERS}, {STEERS: 1}, [STEERS], [{}], [1],
)  # fmt: skip


def changes(line: Line) -> Iterator[tuple[str, Line]]:
    """The answer with each of its parts dropped, put aside for each odd value, or with something added."""
    for path in paths(line):
        for value in VALUES:
            yield (
                f"{path} = {value!r:.30}",
                changed(line, path, lambda parent, key, value=value: put(parent, key, value)),
            )
        yield f"{path} dropped", changed(line, path, lambda parent, key: parent.pop(key))
    yield "more", {**line, "time_s": "FORGED", "schema_version": 9, "node": "w2"}


def worth_a_run(line: Line) -> Iterator[tuple[str, Line]]:
    """All changes that pass the border, and of those that do not, which all fare alike, the dropped parts and a few."""
    for what, odd in (*changes(line), ("nothing in it", {"event": line["event"]})):
        if what.endswith(("dropped", "more", "nothing in it")) or not refused(odd):
            yield what, odd


def paths(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        if (*before, key) != ("event",):
            yield (*before, key)
        yield from paths(one, (*before, key))


def put(parent: Any, key: Any, value: Any) -> None:
    parent[key] = value


def changed(line: Line, path: tuple[Any, ...], change: Callable[[Any, Any], Any]) -> Line:
    new = copy.deepcopy(line)
    parent = new
    for key in path[:-1]:
        parent = parent[key]
    change(parent, path[-1])
    return new


def refused(line: Any) -> bool:
    hearing = AnswerReader(answered=True)
    hearing.take(line if isinstance(line, str) else json.dumps(line))
    return hearing.against is not None


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("hpcforge.atomic.os.fsync", lambda fd: None)


def others_are_done(ended: RunResult) -> None:
    done = {name: {role: one.status for role, one in roles.items()} for name, roles in ended.outcomes.items()}
    assert done["head"]["server"] == "done"
    assert done["w2"]["client"] == "done"


def test_all_well() -> None:
    printed = Printed(lambda task: None)
    _, ended = printed.apply()
    printed.status()
    printed.check()
    others_are_done(ended)
    assert ended.lost == {}
    assert ended.failed() == {}
    assert "counting" not in "".join(printed.text)


def test_every_kind_of_answer_is_tried() -> None:
    tried = {one["event"] for one in (HEAD_SAYS, LEASE, LOG, LOGS, *AT_WORK, FAILED, DONE, NO_PYTHON, NO_ROOT)}
    assert tried == set(answer_types.EVENTS)


LOGS = {"event": "logs", "lines": [{"time_s": 1.7e9, "node": "w1", "line": "Xid"}], "left_out": 0, "kept": ["w1"]}


def test_an_odd_answer_about_logs_is_an_error_or_lines() -> None:
    for what, odd in worth_a_run(LOGS):
        engine = Nodes(lambda task, odd=odd: [odd, {**DONE, "facts": {}}])  # type: ignore[misc]
        answer = read_logs(engine, ("head", "/var/log/nodes"), ["w1"], 0.0, "", 10)
        assert isinstance(answer, str) == refused(odd), what
        if not isinstance(answer, str):
            assert "line" in _summary(answer, ["w1"], "1h"), what


LOOKS = {
    "observed": observed("client"),
    "done": DONE,
    "no_python": NO_PYTHON,
    "no_root": NO_ROOT,
    "warning": AT_WORK[2],
}


@pytest.mark.parametrize("kind", LOOKS)
def test_an_odd_answer_to_a_look_loses_that_node_alone(kind: str) -> None:
    """`{"event": "observed"}`, facts without memory, `run: "abc"` or 1e400, surplus of another type, no boot_id."""
    count = 0
    for what, line in worth_a_run(LOOKS[kind]):
        lines = [line, DONE] if kind in ("no_python", "warning") else [line]
        odd = lines if kind in ("observed", "no_python", "no_root") else [observed("client"), *lines]

        def answer(task: Task, odd: list[Any] = odd) -> list[Any] | None:
            return (
                odd
                if task.node == ODD and isinstance(task, NodeProgram) and task.request["verb"] == "observe"
                else None
            )

        printed = Printed(answer)
        plan, ended = printed.apply()
        printed.status()
        printed.check()
        others_are_done(ended)
        if refused(line):
            count += 1
            assert ODD in plan.state.unreachable, what
            assert ODD in ended.lost, what
            assert f"{ODD} is unreachable and left out" in printed.text[0], what
            assert f"{ODD} " in printed.text[1], what
    assert count >= len(LOOKS[kind])


def test_an_odd_answer_is_named_with_its_place() -> None:
    odd = changed(observed("client"), ("receipt", "run"), lambda parent, key: put(parent, key, "abc"))
    printed = Printed(lambda task: [odd, DONE] if task.node == ODD else None)
    printed.apply()
    for text in printed.text[:2]:
        (line,) = [word for word in text.split("\n") if word.startswith(f"{ODD} ")]
        assert "receipt.run: not a whole number" in line


@pytest.mark.parametrize("line", [*AT_WORK, FAILED, DONE], ids=lambda line: line["event"])
def test_an_odd_answer_while_at_work_fails_that_node_alone(line: Line) -> None:
    for what, odd in worth_a_run(line):
        after = [] if line is DONE else [DONE]

        def answer(task: Task, lines: list[Any] = [odd, *after]) -> list[Any] | None:  # noqa: B006
            works = isinstance(task, NodeProgram) and task.request["verb"] == "converge"
            return lines if task.node == ODD and works else None

        printed = Printed(answer)
        _, ended = printed.apply()
        printed.check()
        others_are_done(ended)
        if refused(odd):
            assert ODD in ended.failed(), what
            assert "sent an invalid response" in printed.text[1], what


@pytest.mark.parametrize("line", [LEASE, LOG], ids=lambda line: line["event"])
def test_an_odd_head_ends_nothing(line: Line) -> None:
    verb = line["event"]
    for _, odd in worth_a_run(line):

        def answer(task: Task, odd: Line = odd) -> list[Any] | None:
            asked = isinstance(task, NodeProgram) and task.request["verb"] == verb
            return [odd, {**DONE, "facts": {}}] if asked else None

        printed = Printed(answer)
        if verb == "lease":
            try:
                leases.take(printed.engine, "head", "cafe", "ada@desk", 0.0, printed.say).release()
            except leases.LeaseHeldError as error:
                printed.say(f"{error} {error.hint}")
        _, ended = printed.apply()
        printed.status()
        printed.check()
        others_are_done(ended)


RECORDS = {
    "started_s": '{"id": "x", "who": "y", "number": 3, "started_s": 1e300}',
    "cut off": '{"id": "x", "who": "y", "number": 1e400, "since_s": NaN, "cut_off": true}',
    "huge": '{"id": "x", "who": "y", "number": ' + "9" * 5000 + ', "started_s": 1}',
    "forged": json.dumps(
        {"id": STEERS, "who": STEERS, "number": None, "started_s": 1, "commit": STEERS, "verdicts": {"a": STEERS}}
    ),
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("record", RECORDS)
def test_odd_records_of_the_head_are_counted_not_believed(record: str) -> None:
    log = {**LOG, "lines": [RECORDS[record]], "roster": "[" * 100_000}

    def answer(task: Task) -> list[Any] | None:
        return [log, DONE] if isinstance(task, NodeProgram) and task.request["verb"] == "log" else None

    printed = Printed(answer)
    _, ended = printed.apply()
    printed.status()
    printed.check()
    others_are_done(ended)
    unreadable = "unreadable lines of the history: 1\n" in printed.text[4]
    assert unreadable == (record != "forged")  # which has the parts of a run, and text that steers a terminal
    assert "the node list cannot be used: damaged" in printed.text[4]


@pytest.mark.parametrize(
    "measured",
    [
        {"busbw_gb_per_s": float("nan")},
        {"size_bytes": -float("inf")},
        {"busbw_gb_per_s": 1, "size_bytes": float("inf")},
    ],
)
@pytest.mark.parametrize("time_s", [1.7e9, 1e300, float("nan"), -1.0])
def test_odd_verdicts_are_said_to_be_damaged(measured: dict[str, Any], time_s: float) -> None:
    odd = kept(replace(VERDICT, measurements=(measured,)), time_s)
    assert (load(odd).problem or "").startswith("damaged")
    two = json.loads(kept(VERDICT, 1.7e9))
    two["kept"][0]["verdict"]["nodes"] = ["w1", "w[2"]
    assert (load(json.dumps(two)).problem or "").startswith("damaged")


@pytest.mark.parametrize(
    "line",
    ['{"event": "observed"' + "[" * 100_000, '{"event": "observed", "facts": ' + "[" * 100_000 + "]" * 100_000 + "}",
     '{"event": "observed", "facts": {"run": ' + "9" * 10_000 + "}}", "{", "\x00\xff", '{"event": ["observed"]}',
     '{"event": "result", "ok": true}', "y" * 8 * 2**20 + " [rest of the line cut]"],
    ids=["cut off", "deep", "digits", "brace", "bytes", "list", "result", "long"],
)  # fmt: skip
def test_what_is_no_answer_at_all_loses_that_node_alone(line: str) -> None:
    printed = Printed(lambda task: [line] if task.node == ODD else None)
    plan, ended = printed.apply()
    printed.check()
    others_are_done(ended)
    assert ODD in plan.state.unreachable
    assert ODD in ended.lost


STRANGER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA"
FINGERPRINT = "SHA256:" + base64.b64encode(
    hashlib.sha256(base64.b64decode(STRANGER.split()[1])).digest()
).decode().rstrip("=")  # fmt: skip


def test_a_machine_that_only_the_head_knows_is_not_entered() -> None:
    """A head in wrong hands adds to its roster a machine of somebody's as a node that leaves."""
    enrolled = Enrolled("10.6.6.6", (STRANGER,), "w9", ("worker",), 1)
    evil = replace(ROSTER, nodes={**ROSTER.nodes, "w9": enrolled})
    reads = {**HEAD_SAYS["reads"], ROSTER_PATH: json.dumps(roster_document(evil))}

    def answer(task: Task) -> list[Any] | None:
        assert task.node != "w9"
        looked = task.node == "head" and isinstance(task, NodeProgram) and task.request["verb"] == "observe"
        return [{**HEAD_SAYS, "reads": reads, "armed": [], "at_work": None}, DONE] if looked else None

    printed = Printed(answer)
    _, ended = printed.apply()
    why = ended.failed()["w9"][0][1]
    assert why.startswith(
        f"only the node list on head says which machine it is: at 10.6.6.6, with host key {FINGERPRINT}; "
    )
    assert why.endswith("hpcforge trust BLUEPRINT w9")
    assert f"leaving  w9\n  ! {why}\n" in printed.text[0]
    assert f" failed    leaving: {why}\n" in printed.text[1]
    assert ended.outcomes["w2"]["client"].status == "skipped"  # the head has to wait for it, and w2 for the head
    again = printed.look()[0]
    assert again.strangers == {"w9"}  # by what was written down here it is no better known
    Copy.of("small").trust("small", "w9", enrolled)
    entered = list[str]()
    nodes = Nodes(lambda task: None if task.node == "w9" else answer(task))
    survey_nodes(nodes, CLUSTER, Goal({}, DESIRED, nodes=NAMES), entered.extend, printed.say, {})
    assert entered == ["w9"]


@pytest.mark.parametrize("receipt", [{"run": 900_000_000}, {"hpcforge": "9999"}], ids=["run number", "version"])
def test_what_one_receipt_says_is_for_that_node_alone(receipt: Mapping[str, Any]) -> None:
    odd = {**observed("client"), "receipt": {**RECEIPT, **receipt}, "armed": [], "at_work": None}

    def answer(task: Task) -> list[Any] | None:
        return (
            [odd, DONE]
            if task.node == ODD and isinstance(task, NodeProgram) and task.request["verb"] == "observe"
            else None
        )

    printed = Printed(answer)
    plan, ended = printed.apply()  # of run 8: the others' number and one
    others_are_done(ended)
    assert "its record " in plan.state.unreachable[ODD]
    assert ODD in ended.lost


def test_verdicts_that_count_on_a_node_that_is_away_say_so() -> None:
    printed = Printed(lambda task: ["nothing"] if task.node == ODD else None)
    printed.apply()
    printed.status()
    assert printed.text[2].startswith("verdicts of 9.0 s ago (w1 was there then, and is away now):\n")
    assert "  (of before: not of the cluster as it is)\n" in printed.text[2]
    assert "allreduce passed counting on w1, away now (" in printed.text[4]


LLDP = {"lldp": {"interface": {"eth0": {"via": "LLDP", "chassis": {"leaf1": {"id": {"type": "mac", "value": "m"}}},
        "port": {"id": {"type": "ifname", "value": "swp1"}, "descr": "d"}}}}}  # fmt: skip


def test_an_odd_neighbour_silences_its_node_alone() -> None:
    wired = replace(
        CLUSTER,
        nodes=tuple(replace(node, fabrics=("inband",)) for node in CLUSTER.nodes),
        fabrics=(FabricOf("inband", "ethernet", 25.0, 1, False),),
    )
    odd = [*(json.dumps(line) for _, line in changes(LLDP)), "[" * 100_000, "no", "", '{"lldp": []}']
    silent = 0
    for text in odd:

        class Said(Nodes):
            def start(self, task: Task, text: str = text) -> None:
                good = json.dumps(LLDP)
                said = text if task.node == ODD else good
                self.events.append(Event(task.node, task.id, "result", result(ok=True, rc=0, stdout=said)))

        found = ask(Said(lambda _: None), wired)
        assert {"head", "w2"} <= {one.device[0] for pair in found.heard.neighbours for one in pair}
        assert set(found.silent) <= {ODD}
        silent += len(found.silent)
        for pair in found.heard.neighbours:
            hash(pair)
    assert silent > 20
