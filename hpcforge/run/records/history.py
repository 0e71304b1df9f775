"""The history of runs and the roster: written to the head when a run has ended, copied to this host, read for `status`.

A line a run, a JSON object::

    {"schema": 1, "number", "id", "who", "verb", "args": [...], "started_s", "wall_s", "hpcforge", "commit", "dirty",
     "exit": code, "nodes": {name: {"changed": n, "roles": [done], "failed": {role: why}, "unreachable": why | null}},
     "left": [nodes that were removed], "verdicts": {test: status}}

Only nodes to which something happened are named. The head itself adds `{"schema": 1, "id", "who", "number", "since_s",
"noticed_s", "cut_off": true}` for a run that died, when another takes over its lease.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Self, cast

from pydantic import Field, ValidationError

from hpcforge.adapters import adapter
from hpcforge.atomic import write_atomically
from hpcforge.blueprint import values as v
from hpcforge.engines.tasks import Engine, NodeProgram
from hpcforge.locks import folder_lock
from hpcforge.node import requests
from hpcforge.node.requests import KeepVerdictsRequest, KeepVerificationsRequest
from hpcforge.plan.roster import Enrolled, KnownMachine, Roster, parse_roster, roster_document, without
from hpcforge.run.fanout import exchange
from hpcforge.run.result import ApplyResult, Run, RunResult
from hpcforge.verify import baselines
from hpcforge.verify.baselines import Verifications
from hpcforge.verify.verdict_records import Recorded, dump

SCHEMA_VERSION = 1
_TIMEOUT_S = 60.0
_CAUGHT_UP = 50  # lines that the head returns for a written one: lines of other hosts since this host's last run
_WHY_LIMIT = 300  # characters
_TO_THE_END = (0, 2, 7)  # exit codes of complete runs
_LAST_ALIKE = 5  # runs for the estimate of the time

_Count = Annotated[int, Field(ge=0, le=10**9)]


@dataclass(frozen=True)
class NodePast:
    """The result of a run on one node."""

    changed: _Count = 0  # resources
    roles: tuple[str, ...] = ()  # that it completed
    failed: Mapping[str, str] = field(default_factory=dict)  # role -> why
    unreachable: str | None = None


@dataclass(frozen=True)
class Past:
    """One run. A `cut_off` one died before it could write its own line: only its first four fields are known."""

    id: str
    who: str
    number: _Count | None
    started_s: Annotated[float, Field(ge=0, le=1e11)]  # seconds since 1970, UTC: up to the year 5138
    wall_s: Annotated[float, Field(ge=0, le=1e11)] | None = None
    verb: str = "apply"
    args: tuple[str, ...] = ()
    hpcforge: str = ""
    commit: str | None = None
    dirty: bool = False
    exit: Annotated[int, Field(ge=0, le=255)] | None = None
    nodes: Mapping[v.NodeName, NodePast] = field(default_factory=dict)
    left: tuple[v.NodeName, ...] = ()
    verdicts: Mapping[str, str] = field(default_factory=dict)
    cut_off: bool = False


@dataclass(frozen=True)
class History:
    """Runs from the oldest to the newest. `older` runs were not read; `unreadable` lines are damaged."""

    runs: tuple[Past, ...] = ()
    older: int = 0
    unreadable: int = 0

    def newest(self, count: int) -> History:
        """Return the last runs, and the number of older ones."""
        left_out = max(0, len(self.runs) - count)
        return History(self.runs[left_out:], self.older + left_out, self.unreadable)


def past(
    run: Run,
    applied: ApplyResult,
    *,
    args: Sequence[str],
    dirty: bool,
    started_s: float,
    exit_code: int,
    left: Sequence[str] = (),
) -> Past:
    """Return a run that ends now, as history records it. `args` are the words of the command line after the verb."""
    result, verdicts = applied.result, [reached.verdict for reached in applied.tests.reached]
    names = [name for name in (*result.outcomes, *result.lost) if _happened(name, result)]
    return Past(
        id=run.id,
        who=run.who,
        number=run.number,
        started_s=started_s,
        wall_s=round(time.time() - started_s, 3),
        args=tuple(args),
        hpcforge=run.hpcforge,
        commit=run.commit,
        dirty=dirty,
        exit=exit_code,
        nodes={name: _node(name, result) for name in dict.fromkeys(names)},
        left=tuple(left),
        verdicts={
            verdict.test: verdict.status for verdict in sorted(verdicts, key=lambda verdict: not verdict.passed)
        },  # the worst counts
    )


def parse_history(lines: Iterable[str], older: int = 0) -> History:
    """Parse lines as the head returns them, and count unreadable ones."""
    runs: dict[str, Past] = {}
    unreadable = 0
    for line in lines:
        past_run = _parsed(line)
        if past_run is None:
            unreadable += 1
        elif not (past_run.cut_off and past_run.id in runs):  # it counted as dead, and then wrote its line
            runs.pop(past_run.id, None)
            runs[past_run.id] = past_run
    return History(tuple(runs.values()), older, unreadable)


def last_changed(history: History) -> dict[str, Past]:
    """Return the last run that changed something, by node."""
    return {name: run for run in history.runs for name, node in run.nodes.items() if node.changed}


def expected_s(history: History, roles: Collection[str], nodes: int) -> float | None:
    """Return the median time, in seconds, of the last runs that did much the same; None if there is none.

    That is: at least half of the roles of both, on at least half and at most twice as many nodes, to the end.
    """
    times = []
    for run in reversed(history.runs):
        did = {role for node in run.nodes.values() for role in node.roles}
        changed = sum(bool(node.changed) for node in run.nodes.values())
        similar = did and 2 * len(did & {*roles}) >= len(did | {*roles}) and nodes <= 2 * changed <= 4 * nodes
        if similar and run.wall_s is not None and run.exit in _TO_THE_END:
            times.append(run.wall_s)
    return median(times[:_LAST_ALIKE]) if times else None


def write_log(
    engine: Engine, head: str, past_run: Past, roster: Roster | None, kept_as: str, strangers: Collection[str] = ()
) -> list[str]:
    """Write a run's line, and the roster, on the head and into this host's copy; what went wrong, for the operator.

    Only the head lists `strangers`: they are not added to the copy, which is used to check the head.
    """
    document = None if roster is None else cast(requests.RosterRequest, roster_document(roster))
    request: requests.WriteLogRequest = {
        "verb": "log",
        "do": "write",
        "line": _document(past_run),
        "roster": document,
        "last": _CAUGHT_UP,
    }
    answer = exchange(engine, NodeProgram(f"log:{past_run.id}", head, request, _TIMEOUT_S))
    problems = list(answer.warnings)
    if answer.data is None:
        problems.append(f"this run is not in the history on {head} ({answer.error}), only in {Copy.of(kept_as).folder}")
    lines = [
        str(line) for line in (answer.data or {}).get("lines") or [json.dumps(_document(past_run), sort_keys=True)]
    ]
    try:
        Copy.of(kept_as).add(lines, None if roster is None else without(roster, strangers))
    except OSError as error:
        problems.append(f"no copy of the history on this host: {error.filename}: {error.strerror}")
    return problems


def read_log(
    engine: Engine, head: str, cluster: str, last: int, kept_as: str | None = None
) -> tuple[History, Roster, str | None]:
    """Read the last runs and the roster from the head; else from this host's copy, with the reason.

    The copy is kept under the cluster's name, or under `kept_as`.
    """
    request: requests.ReadLogRequest = {"verb": "log", "do": "read", "last": last}
    answer = exchange(engine, NodeProgram(f"log:read:{time.monotonic_ns()}", head, request, _TIMEOUT_S))
    if answer.data is None:
        return (*Copy.of(kept_as or cluster).read(cluster, last), answer.error)
    lines = [str(line) for line in answer.data.get("lines") or ()]
    roster = parse_roster(answer.data.get("roster"), cluster)
    return parse_history(lines, int(answer.data.get("before") or 0)), roster, None


@dataclass(frozen=True)
class Copy:
    """History and roster as this host last saw them, for when the head cannot be asked."""

    folder: Path

    @classmethod
    def of(cls, cluster: str) -> Self:
        """Return the copy for a cluster; `Site.kept_as` names it apart from its rehearsal's."""
        base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        return cls(base / "hpcforge" / cluster)

    def add(self, lines: Sequence[str], roster: Roster | None) -> None:
        """Append the lines that are not there yet, and replace the roster. Raises `OSError`."""
        with self._changing():
            existing = self._lines()
            all_lines = (*existing, *_missing(lines, set(existing)))
            write_atomically(self.folder / "history.jsonl", "".join(f"{line}\n" for line in all_lines))
            if roster is not None:
                self._keep(roster)

    def known(self, cluster: str) -> dict[str, KnownMachine]:
        """Return the machines that this host has enrolled itself, or was set to trust."""
        return {
            name: KnownMachine(machine.address, machine.host_keys)
            for name, machine in self.read(cluster, 0)[1].nodes.items()
        }

    def trust(self, cluster: str, name: str, machine: Enrolled) -> None:
        """Record a node on this host as the head has it. Raises `OSError`."""
        with self._changing():
            roster = self.read(cluster, 0)[1]
            self._keep(Roster(cluster, roster.run, {**roster.nodes, name: machine}))

    @contextmanager
    def _changing(self) -> Iterator[None]:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with folder_lock(self.folder):
            yield

    def _keep(self, roster: Roster) -> None:
        write_atomically(self.folder / "roster.json", json.dumps(roster_document(roster)) + "\n")

    def read(self, cluster: str, last: int) -> tuple[History, Roster]:
        """Read the copy; return empty records without one."""
        lines = self._lines()
        try:
            roster = (self.folder / "roster.json").read_text("utf-8", "replace")
        except OSError:
            roster = None
        return parse_history(lines[-last:] if last else (), max(0, len(lines) - last)), parse_roster(roster, cluster)

    def in_place_of(self, roster: Roster, cluster: str) -> tuple[Roster, str]:
        """Return this host's copy in place of a damaged roster, if there is one, and a warning."""
        copy = self.read(cluster, 0)[1]
        if copy.run is None or roster.newer:
            return roster, "nodes that left the blueprint are not noticed"
        return copy, f"this host's copy is used, of run {copy.run.number}: nodes enrolled since then are not in it"

    def _lines(self) -> list[str]:
        try:
            text = (self.folder / "history.jsonl").read_text("utf-8", "replace")
        except OSError:
            return []
        return [line for line in text.split("\n") if line.strip()]


def _missing(lines: Iterable[str], existing: set[str]) -> list[str]:
    return [line for line in lines if line not in existing]


def _happened(name: str, result: RunResult) -> bool:
    return bool(result.outcomes.get(name)) or name in result.lost


def _node(name: str, result: RunResult) -> NodePast:
    outcomes = result.outcomes.get(name, {})
    return NodePast(
        changed=result.changed.get(name, 0),
        roles=tuple(role for role, outcome in outcomes.items() if outcome.status == "done"),
        failed={role: outcome.detail[:_WHY_LIMIT] for role, outcome in outcomes.items() if outcome.status == "failed"},
        unreachable=result.lost[name][:_WHY_LIMIT] if name in result.lost else None,
    )


def _document(past_run: Past) -> dict[str, Any]:
    """Return plain data without empty values: most nodes of most runs have few."""
    fields = {key: value for key, value in asdict(past_run).items() if value is not False and value not in ((), {})}
    nodes = {name: {k: v for k, v in node.items() if v} for name, node in fields.get("nodes", {}).items()}
    document = {"schema": SCHEMA_VERSION, **fields} | ({"nodes": nodes} if nodes else {})
    plain: dict[str, Any] = json.loads(json.dumps(document))
    return plain


def _parsed(line: str) -> Past | None:
    try:
        document = json.loads(line)
        if document.get("cut_off"):
            document["started_s"] = document["since_s"]
        run: Past = adapter(Past).validate_python(document)
    except (ValidationError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return run


# Verdicts and baselines are kept on the head, where every operator finds them.


def store_verdicts(engine: Engine, controller: str, recorded: Recorded) -> str | None:
    """Write the last verdicts. Returns the error, if that failed."""
    request: KeepVerdictsRequest = {"verb": "log", "do": "verdicts", "text": dump(recorded)}
    return _store(engine, controller, request)


def store_verifications(engine: Engine, controller: str, verifications: Verifications) -> str | None:
    """Write baselines and past verifications. Returns the error, if that failed."""
    request: KeepVerificationsRequest = {"verb": "log", "do": "verifications", "text": baselines.dump(verifications)}
    return _store(engine, controller, request)


def _store(engine: Engine, controller: str, request: KeepVerdictsRequest | KeepVerificationsRequest) -> str | None:
    data = engine.run(NodeProgram(f"{request['do']}:{controller}", controller, request, _TIMEOUT_S)).data
    return None if data["ok"] else str(data["error"])
