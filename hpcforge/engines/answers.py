"""What a node program may answer, as types, and the border where a node's lines come in.

The protocol is in the docstring of `hpcforge.node`. An answer that is not of its type is none: that node has failed,
and says so, and nothing of the answer goes any further.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypedDict, get_type_hints

from hpcforge.engines.fits import MisfitError, fits
from hpcforge.engines.lines import CUT, LAST_EVENTS, MAX_LINE_BYTES, complaint, parse_event
from hpcforge.kinds import KINDS
from hpcforge.wire import Count, Line, Path, Within, Word

Json = dict[str, Any]

MAX_RUN = 10**9  # a run a second would need thirty years to get there

RunNumber = Annotated[int, Within(0, MAX_RUN)]
TimeS = Annotated[float, Within(0, 1e11)]  # since 1970: up to the year 5138
SpanS = Annotated[float, Within(0, 1e9)]


class Facts(TypedDict):
    """What a node is."""

    hostname: Word
    machine_id: Word
    boot_id: Word
    os_id: Word
    os_release: Word
    kernel: Word
    arch: Word
    virtualisation: Word
    python: Word
    memory_kib: Count
    cpus: Count
    gpus: dict[Word, Count]
    time_s: TimeS


class NoFacts(TypedDict):
    """What ends an answer that has no facts to tell: of first contact, the lease and the log."""

    time_s: NotRequired[TimeS]


_Disruption = Literal["none", "restart", "drain", "reboot", "destroys-data"]


class Unit(TypedDict):
    """A unit that is not as wanted."""

    name: Word
    enabled: bool
    active: Word
    restart_pending: bool


class FailedCheck(TypedDict):
    """A check that does not pass."""

    name: Word
    detail: str


class OldOpaque(TypedDict):
    """Opaque work of another digest than what is wanted, or none."""

    digest: Word | None


class Goes(TypedDict):
    """A package that would be removed for others."""

    name: Word
    by: list[Word]


class Obstacle(TypedDict):
    """Something that is in the way of what is wanted."""

    kind: Word
    name: Path
    why: str


class _Difference(TypedDict):
    role: Word
    packages: list[Word]
    removes: list[Goes]
    unforeseen: list[Word]
    units: list[Unit]
    checks: list[FailedCheck]
    opaque: OldOpaque | None
    reboot: bool
    obstacles: list[Obstacle]


class Stays(TypedDict):
    """What stays on the node of what goes, and why."""

    kind: Word
    names: list[Path]
    why: str


class _Surplus(TypedDict):
    units: NotRequired[list[Word]]
    packages: NotRequired[list[Word]]
    trees: NotRequired[list[Path]]
    stays: NotRequired[list[Stays]]
    disrupts: NotRequired[_Disruption]
    on_remove: Literal["keep", "stop", "purge"]


if TYPE_CHECKING:
    Difference = _Difference
    Surplus = _Surplus
else:  # with every kind of resource
    _FOUND = {name: list[import_module(f"hpcforge.kinds.{name}").FOUND] for name in KINDS}
    # A role of which something is not as wanted.
    Difference = TypedDict("Difference", {**get_type_hints(_Difference, include_extras=True), **_FOUND})
    # What the receipt owns of a role and nobody wants any more.
    Surplus = TypedDict(
        "Surplus", {**get_type_hints(_Surplus, include_extras=True), **dict.fromkeys(KINDS, NotRequired[list[Path]])}
    )


class Receipt(TypedDict):
    """What the node remembers of earlier runs."""

    run: RunNumber
    who: Word
    since_s: TimeS
    cluster: Word | None
    hpcforge: Annotated[str, Line(64)] | None
    trouble: str | None
    surplus: dict[Word, Surplus]
    unowned: list[Word]


class Reverted(TypedDict):
    """A guarded change that was taken back."""

    guard: Word
    role: Word
    since_s: TimeS
    why: str
    errors: list[str]


class Armed(TypedDict):
    """A guarded change that is about to be taken back."""

    guard: Word
    roles: list[Word]
    left_s: SpanS


class AtWork(TypedDict, total=False):
    """Another run that goes on there; all it has said of itself."""

    purpose: Word
    who: Word
    number: RunNumber | None
    task: Word | None
    unit: Word | None
    since_s: TimeS
    pid: Count


class Clock(TypedDict):
    """When the node was asked and answered, by its own clock."""

    asked_s: TimeS
    said_s: TimeS


class Process(TypedDict):
    """A process of an operator host."""

    where: NotRequired[Word]
    pid: NotRequired[Count]
    started: NotRequired[Count | None]


class Holder(TypedDict):
    """Who holds the lease."""

    run_id: Word
    who: Word
    number: RunNumber | None
    process: Process | None
    since_s: TimeS
    age_s: SpanS
    silent_s: SpanS


class _Observed(TypedDict):
    facts: Facts
    differs: list[Difference]
    reads: dict[Path, str | None]
    answers: dict[Word, str]
    receipt: Receipt
    reverted: list[Reverted]
    armed: list[Armed]
    at_work: AtWork | None
    clock: Clock


class _Lease(TypedDict):
    held: Holder | None
    took_over: Holder | None


class _Log(TypedDict):
    lines: list[str]
    before: Count
    roster: str | None


class _Changed(TypedDict):
    role: Word | None
    kind: Word
    name: Path
    detail: str


class _Progress(TypedDict):
    role: Word | None
    detail: str


class _Warning(TypedDict):
    detail: str


class _Remains(TypedDict):
    stays: list[Stays]


class _Failed(TypedDict):
    role: Word | None
    kind: Word
    name: Path | None
    error: str


class _Skipped(TypedDict):
    role: Word
    because: Word


class _RoleDone(TypedDict):
    role: Word


class _Done(TypedDict):
    changed: Count
    failed: list[Word]
    skipped: list[Word]
    facts: Facts | NoFacts


class _NoPython(TypedDict):
    os_id: Word
    os_release: Word
    arch: Word
    kernel: Word
    hostname: Word
    memory_kib: Count
    cpus: Count


class _NoRoot(TypedDict):
    user: str
    error: str


EVENTS: dict[str, Any] = {
    "observed": _Observed,
    "lease": _Lease,
    "log": _Log,
    "changed": _Changed,
    "progress": _Progress,
    "warning": _Warning,
    "remains": _Remains,
    "failed": _Failed,
    "skipped": _Skipped,
    "role_done": _RoleDone,
    "done": _Done,
    "no_python": _NoPython,
    "no_root": _NoRoot,
}


@dataclass
class Hearing:
    """A node program's lines, taken one by one. `against` says why, for all its exit status, it is no success."""

    changed: bool = False
    answered: bool = False
    against: str | None = None

    def take(self, line: str) -> tuple[str, Json] | None:
        """The event of a line; None for what is none, or not of its type."""
        if line.endswith(CUT):
            self._say(cut_off(line))
            return None
        event = parse_event(line)
        if event is None:
            return None
        kind, data = event
        try:
            fits(EVENTS[kind])(data)
        except MisfitError as error:
            self._say(f"it gave an answer that is none ({kind}: {error})")
            return None
        self.changed |= kind == "changed"
        self.answered |= kind in LAST_EVENTS
        if said := complaint(kind, data):
            self._say(said)
        return kind, data

    def error(self, node: str) -> str | None:
        """What the lines themselves say against a program that ended well."""
        return self.against or (None if self.answered else f"the node program on {node} ended without an answer")

    def _say(self, why: str) -> None:
        self.against = self.against or why


def cut_off(line: str) -> str:
    """What a line that was cut says against all that it belongs to."""
    return f"a line of more than {MAX_LINE_BYTES >> 20} MiB was cut: {line[:60]!a} ..."
