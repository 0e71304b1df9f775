"""The table of verbs of the node program, and the validation of requests before any change.

The types are in `hpcforge.node.requests`, which does not travel: a received request is checked against their forms in
`hpcforge.node.schemas`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from hpcforge.node.events import NodeError
from hpcforge.schemas import MisfitError, check

if TYPE_CHECKING:
    from hpcforge.node.requests import Request

R = TypeVar("R")


class Verb(NamedTuple):
    """The event that answers a request, and the module and function that answer it."""

    answer: str
    module: str
    function: str
    lasting: bool = False  # it changes the node: it ends its present resource after a stop, and outlives its connection


# By verb, and by `phase` or `do` if it has one. Modules are imported on request: each takes time.
VERBS: Mapping[tuple[str, str], Verb] = {
    ("observe", ""): Verb("observed", "observe", "observe"),
    ("converge", "prepare"): Verb("done", "converge", "prepare", lasting=True),
    ("converge", "finish"): Verb("done", "converge", "finish", lasting=True),
    ("converge", "remove"): Verb("remains", "remove", "remove", lasting=True),
    ("record", ""): Verb("done", "converge", "record", lasting=True),
    ("confirm", ""): Verb("done", "guard", "confirm"),
    ("revert", ""): Verb("done", "guard", "revert"),
    ("reboot", ""): Verb("done", "reboot", "reboot"),
    ("attach", ""): Verb("done", "detached", "attach"),  # it writes to standard output itself
    ("wait", ""): Verb("done", "running_tasks", "wait"),
    ("stop", ""): Verb("done", "running_tasks", "stop"),
    ("lease", "take"): Verb("lease", "lease", "lease"),
    ("lease", "drop"): Verb("lease", "lease", "lease"),
    ("lease", "look"): Verb("lease", "lease", "lease"),
    ("log", "write"): Verb("log", "head_records", "log"),
    ("log", "read"): Verb("log", "head_records", "log"),
    ("log", "verdicts"): Verb("log", "head_records", "log"),
    ("log", "verifications"): Verb("log", "head_records", "log"),
    ("logs", ""): Verb("logs", "logs", "logs"),
}


LASTING = frozenset(verb for (verb, _), row in VERBS.items() if row.lasting)


def verb_of(request: Mapping[str, Any]) -> Verb:
    """Return the row of a request. Raise NodeError for an unknown one."""
    verb, step = request.get("verb"), request.get("phase", request.get("do", ""))
    row = VERBS.get((str(verb), str(step)))
    if row is None:
        raise NodeError(f"unknown request: verb {verb!r}" + (f", {step!r}" if step else ""))
    return row


def checked(data: Any) -> Request:
    """Return a received request after validation. Raises NodeError with the place of the error."""
    if not isinstance(data, dict):
        raise NodeError("unknown request: not an object")
    verb_of(data)
    step = data.get("phase", data.get("do", ""))
    from hpcforge.node.schemas import FORMS  # noqa: PLC0415 - an operator host does not need them

    try:
        check(FORMS[f"{data['verb']} {step}".strip()])(data)
    except MisfitError as error:
        raise NodeError(f"nothing was done: invalid request: {error}") from None
    return cast("Request", data)


def of_kind(role: Mapping[str, Any], kind: str) -> Sequence[Any]:
    """Return a role's resources of a kind in a request, or their names."""
    return cast(Sequence[Any], role.get(kind, ()))


def with_kinds(role: R, items: Mapping[str, Any]) -> R:
    """Return a role's work with these items added, under the names of their kinds."""
    return cast(R, {**cast(Mapping[str, Any], role), **items})
