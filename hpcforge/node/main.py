"""The processing of one request, from its JSON to `done`."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from hpcforge.node import commands, verbs
from hpcforge.node.events import BusyError, EventReporter, Json, NodeError, standard_output

if TYPE_CHECKING:
    from hpcforge.node import answer_types
    from hpcforge.node.requests import Request


def main(data: object, after: Callable[[], None] = lambda: None) -> None:
    """Answer a request on standard output, then call `after`. An invalid one is refused before anything else."""
    os.umask(0o022)
    user = os.environ.get("SUDO_USER", "")
    os.environ.clear()
    os.environ.update(commands.ENVIRONMENT, SUDO_USER=user)
    try:
        request = verbs.checked(data)
    except NodeError as error:
        report = EventReporter(standard_output())
        report.failed(None, "node", "request", error)
        report.done([], True, _facts(report))
        return
    detach = verbs.verb_of(request).lasting and request.get("task") and os.geteuid() == 0
    if not detach and request["verb"] != "attach":
        if "limit_s" in request:
            commands.bound(request["limit_s"])
        answer(request, standard_output())
        after()
        return
    try:
        _through_spool(request, after)
    except Exception as error:
        answer(request, standard_output(), partial(_refuse, error))


def answer(
    request: Request, emit: Callable[[Json], None], work: Callable[[Request, EventReporter], Json | None] | None = None
) -> None:
    """Answer a request; the last event is always `done`. `work` replaces the function of its verb."""
    report = EventReporter(emit)
    whole_failed, facts = False, None
    try:
        facts = (work or _dispatch)(request, report)
    except Exception as error:
        whole_failed = True
        kind = "busy" if isinstance(error, BusyError) else "node"
        report.failed(None, kind, request["verb"], error)
    report.done(_roles(request), whole_failed, facts or _facts(report))


def _dispatch(request: Request, report: EventReporter) -> Json | None:
    if os.geteuid() != 0:
        raise NodeError("the node program must run as root")
    verb = verbs.verb_of(request)
    work = getattr(importlib.import_module(f"hpcforge.node.{verb.module}"), verb.function)
    if verb.lasting:
        report.finish_what_runs()
    facts: Json | None = work(request, report)
    return facts


def _through_spool(request: Request, after: Callable[[], None]) -> None:
    from hpcforge.node import detached  # noqa: PLC0415 - the node compiles only the modules that a request needs

    if request["verb"] == "attach":
        detached.attach(request.get("task", ""), request.get("after", 0))
    else:

        def work(request: Request, emit: Callable[[Json], None]) -> None:
            answer(request, emit)
            after()

        detached.run(request, work, _roles(request))


def _refuse(error: Exception, _request: Request, _report: EventReporter) -> None:
    raise error


def _roles(request: Request) -> list[str]:
    if request["verb"] == "record":
        return [request["role"]]
    if request["verb"] == "converge":
        return [role["role"] for role in request["work"]]
    return [role["role"] for role in request["wanted"]] if request["verb"] == "observe" else []


def _facts(report: EventReporter) -> answer_types.Facts | answer_types.NoFacts:
    from hpcforge.node import facts  # noqa: PLC0415

    try:
        return facts.collect()
    except Exception as error:
        report.failed(None, "node", "facts", error)
        return {}
