"""Types of requests to the node program. Both sides use them, and the node checks each request before any change.

They do not travel: a node holds a request to what `bundle` makes of them (`hpcforge.node.verbs`). What types cannot say
is in the docstring of `hpcforge.node`. What is answered is in `hpcforge.node.answer_types`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, TypedDict, Union, cast

from hpcforge.kinds import KINDS, sent
from hpcforge.wire_types import Action, Count, LazyType, NotRequired, Path, PrintableLine, RunNumber, SpanS, TimeS, Word

Command = list[str]
Disruption = Literal["none", "restart", "drain", "reboot", "destroys-data"]
OnRemove = Literal["keep", "stop", "purge"]


class RunRequest(TypedDict):
    """The run that asks: a node refuses one that is older than the last it saw, and one of another cluster."""

    number: RunNumber
    id: Word
    who: Word  # user@host
    cluster: NotRequired[Optional[Word]]
    hpcforge: NotRequired[Optional[Annotated[str, PrintableLine(64)]]]  # version
    commit: NotRequired[Optional[Word]]  # of the blueprint's folder


class AnyRequest(TypedDict, total=False):
    """Common fields of all requests. Without a run nothing is checked."""

    run: RunRequest
    task: Word  # under which its work outlives the connection, and can be come back to; never used twice
    limit_s: SpanS  # after so long the program ends itself and what it has running
    unit: Optional[Word]  # where it is at work, as it finds out itself


class ProcessRequest(TypedDict):
    """A process of an operator host."""

    where: NotRequired[Word]
    pid: NotRequired[Count]
    started: NotRequired[Optional[Count]]


class CheckRequest(TypedDict):
    """A command with an expected outcome."""

    name: Word
    command: Command
    stdout: Optional[str]  # a regular expression that matches somewhere in its output
    wait_s: SpanS


class ListenRequest(TypedDict):
    """A port that a daemon of the role listens on; `address` is empty for all of the node's."""

    port: Count
    protocol: Literal["tcp", "udp"]
    address: str


class TreeRequest(TypedDict):
    """What a role's own code makes."""

    path: Path


class KeptPathRequest(TypedDict):
    """What stays when a role goes."""

    path: Path
    why: str


class OldStateRequest(TypedDict):
    """What another cluster than this one may have left."""

    path: Path
    cluster: Word  # this one
    why: str
    name_in: str
    beside: list[Path]
    unit: str


class NamedUnitRequest(TypedDict):
    """A unit that is to be enabled and to run."""

    name: Word


class UnitRequest(NamedUnitRequest):
    """What is done to a unit, in order, before it is seen to run."""

    actions: list[Action]
    refresh: NotRequired[list[Command]]  # each within 60 s; a unit that does not run is started instead


class OpaqueRequest(TypedDict):
    """A role's own code, by what it is known."""

    digest: Word


class GuardRequest(TypedDict):
    """Under which a change takes itself back, unless it is confirmed in time."""

    id: Word
    revert_s: SpanS


class KeptRequest(TypedDict):
    """What stays on the node of what goes, and why."""

    kind: Word
    names: list[Path]
    why: str


class RoleRequest(TypedDict):
    """A role on this node; its resources are under the name of their kind, see `of_kind`."""

    role: Word


class _DesiredRoleRequest(RoleRequest):
    packages: NotRequired[list[Word]]
    replaces: NotRequired[list[Word]]  # packages that go for these, where they are there
    programs: NotRequired[list[Word]]  # of its packages, which nothing else may stand before
    listens: NotRequired[list[ListenRequest]]
    units: NotRequired[list[NamedUnitRequest]]
    checks: NotRequired[list[CheckRequest]]
    opaque: NotRequired[Optional[OpaqueRequest]]
    trees: NotRequired[list[TreeRequest]]
    leaves: NotRequired[list[KeptPathRequest]]
    old_state: NotRequired[list[OldStateRequest]]


class _OwnedRequest(TypedDict):
    packages: NotRequired[list[Word]]
    units: NotRequired[list[Word]]
    trees: NotRequired[list[Path]]
    on_remove: NotRequired[OnRemove]
    leaves: NotRequired[list[KeptPathRequest]]
    disrupts: NotRequired[Disruption]


class TodoRequest(RoleRequest):
    """What is to be done for a role."""

    needs: NotRequired[list[Word]]  # roles on this node: where one fails, this one is not begun
    guard: NotRequired[GuardRequest]


class _WorkRequest(TodoRequest):
    packages: NotRequired[list[Word]]
    programs: NotRequired[list[Word]]  # these and the next are searched for obstacles
    listens: NotRequired[list[ListenRequest]]
    removes: NotRequired[list[Word]]  # packages that may go for these; where others would be removed, nothing is done
    units: NotRequired[list[UnitRequest]]
    checks: NotRequired[list[CheckRequest]]
    trees: NotRequired[list[TreeRequest]]
    old_state: NotRequired[list[OldStateRequest]]
    reboot: NotRequired[bool]  # what is done here only shows after a restart of the node


class _LessRequest(TodoRequest, _OwnedRequest):
    stays: NotRequired[list[KeptRequest]]
    wanted: NotRequired[bool]  # the role itself is still to be on this node


if TYPE_CHECKING:
    DesiredRoleRequest = _DesiredRoleRequest
    OwnedRequest = _OwnedRequest

    class WorkRequest(_WorkRequest):
        """As below."""

        owns: NotRequired[OwnedRequest]

    LessRequest = _LessRequest
else:
    _Names = TypedDict("_Names", dict.fromkeys(KINDS, list[Path]), total=False)

    def _items(name: str) -> Any:
        """Return the field of a list of resources of each kind, whose types take time to make."""
        return TypedDict(
            name, {kind: Annotated[list, LazyType(partial(_list_of, kind))] for kind in KINDS}, total=False
        )

    def _list_of(kind: str) -> Any:
        return list[sent(kind)]

    class DesiredRoleRequest(_DesiredRoleRequest, _items("_Items")):
        """A role as it is to be."""

    class OwnedRequest(_OwnedRequest, _Names):
        """All that a role is to have on the node, changed or not; what is changed is owned anyway."""

    class WorkRequest(_WorkRequest, _items("_Items")):
        """What is to be changed for a role."""

        owns: NotRequired[OwnedRequest]

    class LessRequest(_LessRequest, _Names):
        """What is to be taken away of a role; one that goes with `on_remove` *keep* is only forgotten."""


class ObserveRequest(AnyRequest):
    """Differences from the desired state, and the content of files and output of commands."""

    verb: Literal["observe"]
    wanted: list[DesiredRoleRequest]
    reads: NotRequired[list[Path]]
    asks: NotRequired[dict[Word, Command]]
    folders: NotRequired[list[Path]]  # shared ones: tell who owns what is in them
    surplus: NotRequired[bool]  # tell what is left over, though nothing is wanted
    inspect: NotRequired[bool]  # search for obstacles of all roles, whether they differ or not


class PrepareRequest(AnyRequest):
    """All that precedes units, of all roles at once."""

    verb: Literal["converge"]
    phase: Literal["prepare"]
    work: list[WorkRequest]
    restarts: NotRequired[list[Word]]  # units that are due for one until they have had it
    inspect: NotRequired[bool]  # the node had no Python to search for obstacles before: with any, nothing is done
    take_over: NotRequired[bool]  # what another cluster left is renamed first


class FinishRequest(AnyRequest):
    """Units and checks, role by role."""

    verb: Literal["converge"]
    phase: Literal["finish"]
    work: list[WorkRequest]


class RemoveRequest(AnyRequest):
    """What is no longer wanted."""

    verb: Literal["converge"]
    phase: Literal["remove"]
    work: list[LessRequest]
    leave: NotRequired[bool]  # everything that the receipt has, and then the receipt


class RecordRequest(AnyRequest):
    """A role's own code has run; with an empty `digest` it is about to run once more."""

    verb: Literal["record"]
    role: Word
    digest: Word
    reboot: NotRequired[bool]


class ConfirmRequest(AnyRequest):
    """What is guarded may stay."""

    verb: Literal["confirm"]
    guard: Word


class RevertRequest(AnyRequest):
    """Revert a guarded change if it is due. Only the node itself requests this."""

    verb: Literal["revert"]
    guard: Word


class RebootRequest(AnyRequest):
    """The node restarts, if it is in this boot."""

    verb: Literal["reboot"]
    boot_id: Word


class AttachRequest(AnyRequest):
    """The events of `task`, but the first `after`, until its `done`."""

    verb: Literal["attach"]
    after: NotRequired[Count]


class WaitRequest(AnyRequest):
    """Until nothing is at work on the node."""

    verb: Literal["wait"]
    timeout_s: NotRequired[SpanS]


class StopRequest(AnyRequest):
    """What is at work (if it is `task`) ends after the resource it is at, and is waited for."""

    verb: Literal["stop"]
    timeout_s: NotRequired[SpanS]


class HoldLeaseRequest(AnyRequest):
    """Take it, which is a heartbeat of who has it, or give it back."""

    verb: Literal["lease"]
    do: Literal["take", "drop"]
    run_id: Word
    who: Word  # user@host
    number: NotRequired[Optional[RunNumber]]
    process: NotRequired[Optional[ProcessRequest]]
    nodes: NotRequired[list[Word]]  # that the run restarts, installs or removes
    stale_s: SpanS  # of silence, after which it is anybody's
    over: NotRequired[Optional[Word]]  # run of a holder that is known to be dead
    cut_off: NotRequired[bool]  # its run ends before its time


class ReadLeaseRequest(AnyRequest):
    """Who holds it."""

    verb: Literal["lease"]
    do: Literal["look"]
    stale_s: SpanS


class _LastRunRequest(RunRequest):
    ended_s: TimeS


class RosterRequest(TypedDict):
    """The nodes of a cluster, as the run that wrote this knew them; here it is only kept."""

    schema: Count
    cluster: Optional[Word]
    run: _LastRunRequest
    nodes: dict[Word, Any]
    checksum: Word


class WriteLogRequest(AnyRequest):
    """A line of history and, unless the one there is of a higher run, the roster. Both are kept as they are."""

    verb: Literal["log"]
    do: Literal["write"]
    line: dict[str, Any]
    roster: NotRequired[Optional[RosterRequest]]
    last: NotRequired[Count]


class ReadLogRequest(AnyRequest):
    """The last lines of history, and the roster."""

    verb: Literal["log"]
    do: Literal["read"]
    last: NotRequired[Count]


class KeepVerdictsRequest(AnyRequest):
    """The content of verdicts.json."""

    verb: Literal["log"]
    do: Literal["verdicts"]
    text: str
    last: NotRequired[Count]


class KeepVerificationsRequest(AnyRequest):
    """The content of verifications.json."""

    verb: Literal["log"]
    do: Literal["verifications"]
    text: str
    last: NotRequired[Count]


class LogsRequest(AnyRequest):
    """Lines that a log server keeps of nodes, not older than `since_s`, with this text in them: the last so many."""

    verb: Literal["logs"]
    folder: Path
    nodes: list[Word]
    since_s: TimeS
    text: str
    last: Count


ConvergeRequest = Union[PrepareRequest, FinishRequest, RemoveRequest]
LeaseRequest = Union[HoldLeaseRequest, ReadLeaseRequest]
LogRequest = Union[WriteLogRequest, ReadLogRequest, KeepVerdictsRequest, KeepVerificationsRequest]
Request = Union[
    ObserveRequest,
    ConvergeRequest,
    RecordRequest,
    ConfirmRequest,
    RevertRequest,
    RebootRequest,
    AttachRequest,
    WaitRequest,
    StopRequest,
    LeaseRequest,
    LogRequest,
    LogsRequest,
]


# By verb, and by `phase` or `do` where it has one: the keys of `hpcforge.node.verbs.VERBS`.
TYPES: Mapping[tuple[str, str], Any] = {
    ("observe", ""): ObserveRequest,
    ("converge", "prepare"): PrepareRequest,
    ("converge", "finish"): FinishRequest,
    ("converge", "remove"): RemoveRequest,
    ("record", ""): RecordRequest,
    ("confirm", ""): ConfirmRequest,
    ("revert", ""): RevertRequest,
    ("reboot", ""): RebootRequest,
    ("attach", ""): AttachRequest,
    ("wait", ""): WaitRequest,
    ("stop", ""): StopRequest,
    ("lease", "take"): HoldLeaseRequest,
    ("lease", "drop"): HoldLeaseRequest,
    ("lease", "look"): ReadLeaseRequest,
    ("log", "write"): WriteLogRequest,
    ("log", "read"): ReadLogRequest,
    ("log", "verdicts"): KeepVerdictsRequest,
    ("log", "verifications"): KeepVerificationsRequest,
    ("logs", ""): LogsRequest,
}


def of_run(request: Request, run: RunRequest, task: Optional[str]) -> Request:
    """Return the request as one of a run, by which a node refuses older ones; `task`: a name to come back to."""
    return cast(Request, {**request, "run": run, **({"task": task} if task else {})})


def within(request: Request, limit_s: float) -> Request:
    """Return the request with a time limit: then the program ends itself."""
    return cast(Request, {**request, "limit_s": limit_s})


def only(request: Request, selected: Callable[[str], bool]) -> Request:
    """Return the request with less work: that for these roles."""
    if request["verb"] != "converge":
        return request
    return cast(
        Request, {**request, "work": [role_work for role_work in request["work"] if selected(role_work["role"])]}
    )
