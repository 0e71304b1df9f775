"""The output of a step, read line by line: events of the ranks, torchrun's reports, Slurm's complaints.

Everything here comes from the nodes, so types, lengths and characters are checked.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeGuard

from hpcforge.blueprint.hostlist import HostlistError, expand
from hpcforge.verify.head import Completed
from hpcforge.verify.step_events import TaskLayout, events_of, labelled, lines_of, step_events
from hpcforge.verify.verdicts import Assertion

_SLURM = re.compile(r"^(?:srun|slurmstepd|slurmd)(?:-\S+)?: (?:error|fatal): (.*)$")
# A node with a revoked job credential is not at fault: the job had already ended for another reason.
_NODE_FAILED = re.compile(
    r"Node failure on ([\w.-]+)|task launch for \S+ failed on node ([\w.-]+)(?![\w.-]|: Job credential revoked)",
    re.IGNORECASE,
)
_TASK_END = re.compile(r"^(\S+): tasks? [\d,-]+: (\S.*)$")  # "w[1-2]: tasks 0-1: Exited with exit code 1"
_CANCELLED = re.compile(r"^\*\*\* (?:STEP|JOB) \S+ ON \S+ CANCELLED ")
_STEPD = re.compile(r"^slurmstepd(?:-(\S+))?: error: (.*)$")
_OVER_MEMORY = ("exceeded memory limit", "oom-kill event", "oom_kill event")
_EXIT_CODE = re.compile(r"^Exited with exit code ([0-9]{1,9})$")
_REPORTED = re.compile(r"^\s+(rank|exitcode)\s*: (-?[0-9]{1,9})\b")
_ENDS = ("ended", "overdue")
_MAX_NUMBER = 10**9  # of collectives
_LARGEST = 1e300
_ASSERTIONS = 1000  # kept of one test
_TRANSPORTS = 64  # of one rank


@dataclass(frozen=True)
class RankEnd:
    """A rank's report on its own end."""

    rank: int
    host: str
    text: str
    own: bool = True  # False: it failed in a collective, perhaps because of another rank
    number: int | None = None  # of that collective, counted by the rank
    place: str = ""  # of a rank that was ended at its limit, in its program


class RankExit(NamedTuple):
    """The end of a rank by its torchrun: an exit code, negative for a signal."""

    code: int
    host: str


@dataclass(frozen=True)
class RankTransport:
    """The transport of a rank: for gloo its own addresses, for NCCL the names in its log."""

    rank: int
    host: str
    backend: str
    used: tuple[str, ...]
    interfaces: tuple[str, ...] = ()  # of gloo, of each address

    def interface_of(self, address: str) -> str:
        """Return the interface of a gloo address."""
        place = self.used.index(address)
        return self.interfaces[place] if place < len(self.interfaces) else "an unknown interface"


@dataclass(frozen=True)
class Transcript:
    """A step's output for one test, sorted by subject.

    Tasks are torchruns, one a node, or the test's own processes; by Slurm's number.
    """

    started: Mapping[int, str] = field(default_factory=dict)  # rank -> host
    failed: tuple[RankEnd, ...] = ()
    overdue: Mapping[int, float] = field(default_factory=dict)  # ranks that ended themselves at a limit -> that, s
    places: Mapping[int, str] = field(default_factory=dict)  # of ranks that were ended, each in its program
    wrong: tuple[RankEnd, ...] = ()
    measurements: tuple[Mapping[str, float | int | str], ...] = ()
    assertions: tuple[Assertion, ...] = ()
    transports: tuple[RankTransport, ...] = ()
    result: Mapping[str, Any] | None = None
    hosts: Mapping[int, str] = field(default_factory=dict)  # task -> host
    exits: Mapping[int, RankExit] = field(default_factory=dict)  # by rank
    stderr: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # task -> lines
    slurm_errors: tuple[str, ...] = ()
    task_exits: Mapping[str, int] = field(default_factory=dict)  # host -> exit code of its task, first to end first
    task_ends: Mapping[str, str] = field(default_factory=dict)  # the same in words, and those that a signal ended
    ended_before: frozenset[str] = frozenset()  # hosts whose task ended before Slurm cancelled the step, if it did
    done: frozenset[int] = frozenset()  # tasks that gave a result
    failed_nodes: tuple[str, ...] = ()
    over_memory: Mapping[str, str] = field(default_factory=dict)  # host -> Slurm's words
    silent: tuple[str, ...] = ()  # why pairs of nodes gave no answer
    changed: Mapping[str, str] = field(default_factory=dict)  # host -> its file that is not this launch's
    held: Mapping[str, str] = field(default_factory=dict)  # host -> owner of the port for the ranks' meeting

    @property
    def spoke(self) -> bool:
        """Whether any rank reported on the test."""
        return bool(self.started or self.failed or self.wrong or self.overdue or self.measurements or self.result)


def clean(text: object, limit: int = 300) -> str:
    """Return text on one line, without control characters, of bounded length."""
    flat = "".join(char if char.isprintable() else " " for char in str(text)[: 4 * limit])
    flat = " ".join(flat.split())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."


def finite(value: object) -> TypeGuard[float]:
    """Whether a value is a number that fits a float: JSON allows integers of thousands of digits."""
    return isinstance(value, (int, float)) and abs(value) < _LARGEST


def read(ran: Completed, test: str, layout: TaskLayout) -> Transcript:
    """Sort a step's output, without the events of its other tests."""
    step = step_events(ran.stdout, layout)
    events = [(task, event) for task, event in step.events if event.get("test", test) == test]
    stderr, slurm = _split_stderr(ran.stderr)
    task_ends = _task_ends(slurm.errors, layout.nodes)
    return Transcript(
        started={e["rank"]: e["host"] for _, e in events if e["event"] == "started" and _names_rank(e)},
        failed=tuple(_failure(e) for _, e in events if e["event"] == "failed" and _names_rank(e)),
        overdue={e["rank"]: _limit_s(e) for _, e in events if e["event"] == "overdue" and _names_rank(e)},
        places={e["rank"]: clean(e.get("place", ""), 100) for _, e in events if e["event"] in _ENDS and _names_rank(e)},
        wrong=tuple(_mistake(e) for _, e in events if e["event"] == "wrong" and _names_rank(e)),
        measurements=tuple(_measurement(e) for _, e in events if e["event"] == "measurement"),
        # failed ones first, so that they are kept if there are too many
        assertions=tuple(
            sorted((_assertion(e) for _, e in events if e["event"] == "assertion"), key=lambda check: check.holds)
        )[:_ASSERTIONS],
        transports=tuple(_transport(e, e["rank"]) for _, e in events if e["event"] == "transport" and _names_rank(e)),
        result=next((e for _, e in reversed(events) if e["event"] == "result"), None),
        hosts={task: step.places[task] for task in sorted(step.began)},
        exits=_exits(stderr, step.places, layout),
        stderr={task: tuple(lines) for task, lines in stderr.items()},
        slurm_errors=tuple(slurm.errors),
        task_exits={host: int(code[1]) for host, end in task_ends.items() if (code := _EXIT_CODE.match(end))},
        task_ends=task_ends,
        ended_before=frozenset(_task_ends(slurm.errors[: slurm.cancelled_at], layout.nodes)),
        done=frozenset(task for task, e in events if e["event"] == "result"),
        failed_nodes=tuple(
            node for line in slurm.errors for hit in _NODE_FAILED.findall(line) for node in hit if node in layout.nodes
        ),
        over_memory={host: end for host, end in task_ends.items() if end.startswith("Out Of Memory")}
        | _over_memory(ran.stderr, step.places),
        silent=tuple(clean(e.get("error", "")) for _, e in events if e["event"] == "silent"),
        changed={e["host"]: clean(e.get("file", ""), 64) for _, e in events if e["event"] == "changed" and "host" in e},
        held={e["host"]: clean(e.get("text", "")) for _, e in events if e["event"] == "held" and "host" in e},
    )


def port_of(stdout: str) -> int | None:
    """Return the port that a node reported, None without one."""
    ports = (event.get("port") for _, event in events_of(stdout) if event["event"] == "port")
    return next((port for port in ports if isinstance(port, int) and 0 < port < 1 << 16), None)


def scratch_of(stdout: str) -> int | None:
    """Return the number of the parent in which a node made the scratch folder, None without one."""
    numbers = (event.get("number") for _, event in events_of(stdout) if event["event"] == "scratch")
    return next((number for number in numbers if isinstance(number, int) and number >= 0), None)


def _names_rank(event: Mapping[str, Any]) -> bool:
    return isinstance(event.get("rank"), int) and isinstance(event.get("host"), str)


def _limit_s(event: Mapping[str, Any]) -> float:
    limit_s = event.get("limit_s")
    return float(limit_s) if finite(limit_s) else 0.0


def _failure(event: Mapping[str, Any]) -> RankEnd:
    number, place = event.get("number"), clean(event.get("place", ""), 100)
    text = clean(event.get("error", "")) + (f", at {place}" if place else "")
    return RankEnd(
        event["rank"],
        clean(event["host"], 64),
        text,
        event.get("during") != "collective",
        number if type(number) is int and 0 < number < _MAX_NUMBER else None,  # True is an int, too
        place,
    )


def _mistake(event: Mapping[str, Any]) -> RankEnd:
    location, expected, got = (clean(event.get(key, "?"), 100) for key in ("where", "expected", "got"))
    return RankEnd(event["rank"], clean(event["host"], 64), f"{location}: expected {expected}, got {got}")


def _assertion(event: Mapping[str, Any]) -> Assertion:
    """Return the comparison; it does not hold where a number is missing or not finite."""
    expected, got, error, tolerance, at_least = (
        event.get(key, 0.0 if key == "at_least" else None)
        for key in ("expected", "got", "error", "tolerance", "at_least")
    )
    if not (finite(expected) and finite(got) and finite(error) and finite(tolerance) and finite(at_least)):
        expected, got, error, tolerance, at_least = 0.0, 0.0, _LARGEST, 0.0, 0.0
    place = (event["rank"], clean(event["host"], 64)) if _names_rank(event) else (None, "")
    label = clean(event.get("what", "?"), 100)
    return Assertion(label, float(expected), float(got), float(error), float(tolerance), float(at_least), *place)


def _transport(event: Mapping[str, object], rank: int) -> RankTransport:
    used, interfaces = (_words(event.get(key)) for key in ("used", "interfaces"))
    return RankTransport(rank, clean(event["host"], 64), clean(event.get("backend", ""), 20), used, interfaces)


def _words(value: object) -> tuple[str, ...]:
    """Return a list of texts, each on one line and short."""
    return tuple(clean(word, 60) for word in value[:_TRANSPORTS]) if isinstance(value, list) else ()


def _measurement(event: Mapping[str, Any]) -> dict[str, float | int | str]:
    """Return the finite numbers and short texts: other values cannot be compared."""
    values: dict[str, float | int | str] = {}
    part = event.get("of")  # the measured part
    about = [(f"of_{key}", value) for key, value in list(part.items())[:10]] if isinstance(part, dict) else []
    for key, value in [*list(event.items())[:50], *about]:
        if key == "event" or isinstance(value, bool):
            continue
        if isinstance(value, str):
            values[clean(key, 40)] = clean(value, 100)
        elif finite(value):
            values[clean(key, 40)] = value
    return values


@dataclass(frozen=True)
class _SlurmLines:
    """Slurm's complaints: lines without a label, which no task can write."""

    errors: list[str]
    cancelled_at: int | None = None  # the number of earlier lines, when Slurm cancelled the step; None: it did not


def _split_stderr(text: str) -> tuple[dict[int, list[str]], _SlurmLines]:
    """Return the lines of each task, and Slurm's. A cancellation has the label of the first node's task."""
    tasks: dict[int, list[str]] = defaultdict(list)
    errors: list[str] = []
    cancelled_at: int | None = None
    for line in lines_of(text):
        of_task = labelled(line)
        complaint = None if of_task else _SLURM.match(line)
        if complaint:
            errors.append(clean(complaint[1]))
        of_step = _STEPD.match(of_task[1]) if of_task else None
        cancelled = bool(of_task and of_task[0] == 0 and of_step and _CANCELLED.match(of_step[2]))
        if cancelled or (complaint and _CANCELLED.match(complaint[1])):
            cancelled_at = len(errors) if cancelled_at is None else cancelled_at
        elif of_task and not of_step:
            tasks[of_task[0]].append(of_task[1])
    return tasks, _SlurmLines(errors, cancelled_at)


def _over_memory(text: str, places: Mapping[int, str]) -> dict[str, str]:
    """Return hosts above their memory: slurmstepd reports these with a task's label, or names its node."""
    by_host: dict[str, str] = {}
    for line in lines_of(text):
        of_task = labelled(line)
        complaint = _STEPD.match(of_task[1] if of_task else line)
        if not complaint or not any(words in complaint[2] for words in _OVER_MEMORY):
            continue
        host = places.get(of_task[0]) if of_task else complaint[1]
        if host in places.values():
            by_host.setdefault(str(host), clean(complaint[2]))
    return by_host


def _task_ends(slurm_errors: Iterable[str], nodes: Collection[str]) -> dict[str, str]:
    ends: dict[str, str] = {}
    for match in filter(None, map(_TASK_END.match, slurm_errors)):
        try:
            hosts = expand(match[1])
        except HostlistError:
            continue
        for host in hosts:
            if host in nodes:
                ends.setdefault(host, match[2])
    return ends


def _exits(stderr: Mapping[int, Iterable[str]], places: Mapping[int, str], layout: TaskLayout) -> dict[int, RankExit]:
    """Return exit codes by rank from torchrun: `  rank      : 2 (local_rank: 0)`, `  exitcode  : -9 (pid: 606)`."""
    exits: dict[int, RankExit] = {}
    for task, node in places.items():
        rank: int | None = None
        for match in filter(None, map(_REPORTED.match, stderr.get(task, ()))):
            if match[1] == "rank":
                rank = int(match[2]) if layout.has_rank(node, int(match[2])) else None
            elif rank is not None:
                exits[rank], rank = RankExit(int(match[2]), node), None
    return exits
