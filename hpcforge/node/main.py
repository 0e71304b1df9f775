"""One request, from its JSON to `done`."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from hpcforge.node import commands
from hpcforge.node.events import BusyError, Json, NodeError, Report, standard_output

if TYPE_CHECKING:
    from hpcforge.node import wire

# By verb and phase: module and function, imported when asked for, since each is compiled on the node every time.
VERBS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("observe", ""): ("observe", "observe"),
    ("converge", "prepare"): ("converge", "prepare"),
    ("converge", "finish"): ("converge", "finish"),
    ("converge", "remove"): ("remove", "remove"),
    ("record", ""): ("converge", "record"),
    ("confirm", ""): ("guard", "confirm"),
    ("reboot", ""): ("reboot", "reboot"),
    ("revert", ""): ("guard", "revert"),
    ("attach", ""): ("apart", "attach"),  # which writes to standard output by itself
    ("wait", ""): ("others", "wait"),
    ("stop", ""): ("others", "stop"),
    ("lease", ""): ("lease", "lease"),
    ("log", ""): ("records", "log"),
}
# What changes the node: it finishes what runs when it is told to stop, and outlives its connection.
LASTING = ("converge", "record")


def main(request: Json) -> None:
    """Answer a request on standard output."""
    os.umask(0o022)
    user = os.environ.get("SUDO_USER", "")
    os.environ.clear()
    os.environ.update(commands.ENVIRONMENT, SUDO_USER=user)
    apart = request.get("verb") in LASTING and request.get("task") and os.geteuid() == 0
    if not apart and request.get("verb") != "attach":
        if request.get("limit_s"):
            commands.bound(float(request["limit_s"]))
        answer(request, standard_output())
        return
    try:
        _through_spool(request)
    except Exception as error:
        answer(request, standard_output(), partial(_refuse, error))


def answer(
    request: Json, emit: Callable[[Json], None], work: Callable[[Json, Report], Json | None] | None = None
) -> None:
    """Answer a request; `done` comes whatever happens. `work` stands for what its verb says."""
    report = Report(emit)
    whole_failed, found = False, None
    try:
        found = (work or _dispatch)(request, report)
    except Exception as error:
        whole_failed = True
        kind = "busy" if isinstance(error, BusyError) else "node"
        report.failed(None, kind, str(request.get("verb")), error)
    report.done(_roles(request), whole_failed, found or _facts(report))


def _dispatch(request: Json, report: Report) -> Json | None:
    if os.geteuid() != 0:
        raise NodeError("the node program has to run as root")
    verb, phase = str(request.get("verb")), str(request.get("phase", ""))
    if (verb, phase) not in VERBS:
        raise NodeError(f"unknown request: verb {verb!r}, phase {phase!r}")
    module, function = VERBS[verb, phase]
    work = getattr(importlib.import_module(f"hpcforge.node.{module}"), function)
    if verb in LASTING:
        report.finish_what_runs()
    found: Json | None = work(request, report)
    return found


def _through_spool(request: Json) -> None:
    from hpcforge.node import apart  # noqa: PLC0415 - only what a request needs is compiled

    if request["verb"] == "attach":
        apart.attach(str(request["task"]), int(request.get("after", 0)))
    else:
        apart.run(request, answer, _roles(request))


def _refuse(error: Exception, _request: Json, _report: Report) -> None:
    raise error


def _roles(request: Json) -> list[str]:
    if request.get("verb") == "record":
        return [str(request.get("role"))]
    return [str(role["role"]) for role in request.get("work") or request.get("wanted") or ()]


def _facts(report: Report) -> wire.Facts | wire.NoFacts:
    from hpcforge.node import facts  # noqa: PLC0415

    try:
        return facts.collect()
    except Exception as error:
        report.failed(None, "node", "facts", error)
        return {}
