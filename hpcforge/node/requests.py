"""Types of requests to the node program. Both sides use them, and the node checks each request before any change.

They do not travel: a node checks a request against the forms that `bundle` makes of them (`hpcforge.node.verbs`). The
docstring of `hpcforge.node` has what types cannot express. The types of answers are in `hpcforge.node.answer_types`.
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
    """The requesting run: a node refuses one that is older than its last one, and one of another cluster."""

    number: RunNumber
    id: Word
    who: Word  # user@host
    cluster: NotRequired[Optional[Word]]
    hpcforge: NotRequired[Optional[Annotated[str, PrintableLine(64)]]]  # version
    commit: NotRequired[Optional[Word]]  # commit of the blueprint's folder


class AnyRequest(TypedDict, total=False):
    """Common fields of all requests. Without a run the node compares no run numbers."""

    run: RunRequest
    task: Word  # its work outlives the connection, and can be attached to by this name; never used twice
    limit_s: SpanS  # the program ends itself and its children after this time
    unit: Optional[Word]  # its systemd unit, which it finds itself


class ProcessRequest(TypedDict):
    """A process of an operator host."""

    where: NotRequired[Word]
    pid: NotRequired[Count]
    started: NotRequired[Optional[Count]]


class CheckRequest(TypedDict):
    """A command with an expected outcome."""

    name: Word
    command: Command
    stdout: Optional[str]  # a regular expression for a part of its output
    wait_s: SpanS


class ListenRequest(TypedDict):
    """A port that a daemon of the role listens on; `address` is empty for all addresses of the node."""

    port: Count
    protocol: Literal["tcp", "udp"]
    address: str


class TreeRequest(TypedDict):
    """A tree that a role's own code makes."""

    path: Path


class KeptPathRequest(TypedDict):
    """A path that stays when a role is removed."""

    path: Path
    why: str


class OldStateRequest(TypedDict):
    """State that another cluster may have left."""

    path: Path
    cluster: Word  # this one
    why: str
    name_in: str
    beside: list[Path]
    unit: str


class NamedUnitRequest(TypedDict):
    """A unit to be enabled and running."""

    name: Word


class UnitRequest(NamedUnitRequest):
    """The actions on a unit, in order, before it is checked to run."""

    actions: list[Action]
    refresh: NotRequired[list[Command]]  # each within 60 s; a unit that does not run is started instead


class OpaqueRequest(TypedDict):
    """A role's own code, identified by its digest."""

    digest: Word


class GuardRequest(TypedDict):
    """The guard of a change, which reverts it unless it is confirmed in time."""

    id: Word
    revert_s: SpanS


class KeptRequest(TypedDict):
    """Items of a removed role that stay on the node, with the reason."""

    kind: Word
    names: list[Path]
    why: str


class RoleRequest(TypedDict):
    """A role on this node; its resources are under the name of their kind, see `of_kind`."""

    role: Word


class _DesiredRoleRequest(RoleRequest):
    packages: NotRequired[list[Word]]
    replaces: NotRequired[list[Word]]  # packages to be removed for these, if they are installed
    programs: NotRequired[list[Word]]  # programs of its packages; others must not shadow them
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
    """The work for a role."""

    needs: NotRequired[list[Word]]  # roles on this node: if one fails, this one does not start
    guard: NotRequired[GuardRequest]


class _WorkRequest(TodoRequest):
    packages: NotRequired[list[Word]]
    programs: NotRequired[list[Word]]  # these and the next are searched for obstacles
    listens: NotRequired[list[ListenRequest]]
    removes: NotRequired[list[Word]]  # packages that may be removed for these; if others would be, nothing is done
    units: NotRequired[list[UnitRequest]]
    checks: NotRequired[list[CheckRequest]]
    trees: NotRequired[list[TreeRequest]]
    old_state: NotRequired[list[OldStateRequest]]
    reboot: NotRequired[bool]  # its change needs a restart of the node


class _LessRequest(TodoRequest, _OwnedRequest):
    stays: NotRequired[list[KeptRequest]]
    wanted: NotRequired[bool]  # the role itself stays on this node


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
        """Return a TypedDict with a list of resources for each kind; their types are slow to make."""
        return TypedDict(
            name, {kind: Annotated[list, LazyType(partial(_list_of, kind))] for kind in KINDS}, total=False
        )

    def _list_of(kind: str) -> Any:
        return list[sent(kind)]

    class DesiredRoleRequest(_DesiredRoleRequest, _items("_Items")):
        """A desired role."""

    class OwnedRequest(_OwnedRequest, _Names):
        """All resources that a role owns on the node, changed or not; changed ones are owned anyway."""

    class WorkRequest(_WorkRequest, _items("_Items")):
        """The changes for a role."""

        owns: NotRequired[OwnedRequest]

    class LessRequest(_LessRequest, _Names):
        """The removal of a role's resources; a removed role with `on_remove` *keep* is only forgotten."""


class ObserveRequest(AnyRequest):
    """Differences from the desired state, and the content of files and output of commands."""

    verb: Literal["observe"]
    wanted: list[DesiredRoleRequest]
    reads: NotRequired[list[Path]]
    asks: NotRequired[dict[Word, Command]]
    folders: NotRequired[list[Path]]  # shared ones: report the owners of their entries
    surplus: NotRequired[bool]  # report the surplus, also without desired roles
    inspect: NotRequired[bool]  # search for obstacles of all roles, also of those without differences


class PrepareRequest(AnyRequest):
    """The work before units, of all roles at once."""

    verb: Literal["converge"]
    phase: Literal["prepare"]
    work: list[WorkRequest]
    restarts: NotRequired[list[Word]]  # units with a restart due until it has happened
    inspect: NotRequired[bool]  # search for obstacles first, and do nothing with any: the node had no Python before
    take_over: NotRequired[bool]  # first rename the state of another cluster


class FinishRequest(AnyRequest):
    """Units and checks, role by role."""

    verb: Literal["converge"]
    phase: Literal["finish"]
    work: list[WorkRequest]


class RemoveRequest(AnyRequest):
    """The removal of resources that are no longer desired."""

    verb: Literal["converge"]
    phase: Literal["remove"]
    work: list[LessRequest]
    leave: NotRequired[bool]  # all resources of the receipt, and then the receipt


class RecordRequest(AnyRequest):
    """A role's own code has run; with an empty `digest` it will run again."""

    verb: Literal["record"]
    role: Word
    digest: Word
    reboot: NotRequired[bool]


class ConfirmRequest(AnyRequest):
    """A guarded change may stay."""

    verb: Literal["confirm"]
    guard: Word


class RevertRequest(AnyRequest):
    """Revert a guarded change if it is due. Only the node itself requests this."""

    verb: Literal["revert"]
    guard: Word


class RebootRequest(AnyRequest):
    """Restart the node, if it is still in this boot."""

    verb: Literal["reboot"]
    boot_id: Word


class AttachRequest(AnyRequest):
    """The events of `task` after the first `after`, until its `done`."""

    verb: Literal["attach"]
    after: NotRequired[Count]


class WaitRequest(AnyRequest):
    """Wait until no task is active on the node."""

    verb: Literal["wait"]
    timeout_s: NotRequired[SpanS]


class StopRequest(AnyRequest):
    """Stop the active task (if it is `task`) after its present resource, and wait for its end."""

    verb: Literal["stop"]
    timeout_s: NotRequired[SpanS]


class HoldLeaseRequest(AnyRequest):
    """Take the lease, which is a heartbeat from its holder, or drop it."""

    verb: Literal["lease"]
    do: Literal["take", "drop"]
    run_id: Word
    who: Word  # user@host
    number: NotRequired[Optional[RunNumber]]
    process: NotRequired[Optional[ProcessRequest]]
    nodes: NotRequired[list[Word]]  # nodes that the run restarts, installs or removes
    stale_s: SpanS  # limit of silence, after which any run may take it
    over: NotRequired[Optional[Word]]  # run of a holder that is dead
    cut_off: NotRequired[bool]  # its run was interrupted


class ReadLeaseRequest(AnyRequest):
    """Read the holder of the lease."""

    verb: Literal["lease"]
    do: Literal["look"]
    stale_s: SpanS


class _LastRunRequest(RunRequest):
    ended_s: TimeS


class RosterRequest(TypedDict):
    """The nodes of a cluster, as recorded by a run; the node only stores them."""

    schema: Count
    cluster: Optional[Word]
    run: _LastRunRequest
    nodes: dict[Word, Any]
    checksum: Word


class WriteLogRequest(AnyRequest):
    """A line of history and, unless the present one is of a higher run, the roster. Both are stored unchanged."""

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
    """The last lines of nodes' logs on a log server, not older than `since_s`, that contain this text."""

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


# By verb, and by `phase` or `do` if it has one: the keys of `hpcforge.node.verbs.VERBS`.
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
    """Return the request with its run, so that nodes refuse older ones; `task`: a name to attach to."""
    return cast(Request, {**request, "run": run, **({"task": task} if task else {})})


def within(request: Request, limit_s: float) -> Request:
    """Return the request with a time limit: then the program ends itself."""
    return cast(Request, {**request, "limit_s": limit_s})


def only(request: Request, selected: Callable[[str], bool]) -> Request:
    """Return the request with the work for these roles only."""
    if request["verb"] != "converge":
        return request
    return cast(
        Request, {**request, "work": [role_work for role_work in request["work"] if selected(role_work["role"])]}
    )
