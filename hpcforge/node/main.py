"""One request, from its JSON to `done`."""

from __future__ import annotations

import os
from collections.abc import Callable

from hpcforge.node import commands, facts
from hpcforge.node.events import Json, NodeError, Report, standard_output


def main(request: Json) -> None:
    """Answer a request on standard output."""
    os.umask(0o022)
    user = os.environ.get("SUDO_USER", "")
    os.environ.clear()
    os.environ.update(commands.ENVIRONMENT, SUDO_USER=user)
    answer(request, standard_output())


def answer(request: Json, emit: Callable[[Json], None]) -> None:
    """Answer a request; `done` comes whatever happens."""
    report = Report(emit)
    whole_failed, found = False, None
    try:
        found = _dispatch(request, report)
    except Exception as error:
        whole_failed = True
        report.failed(None, "node", str(request.get("verb")), error)
    report.done(_roles(request), whole_failed, found or _facts(report))


def _dispatch(request: Json, report: Report) -> Json | None:
    if os.geteuid() != 0:
        raise NodeError("the node program has to run as root")
    verb, phase = str(request.get("verb")), str(request.get("phase", ""))
    if verb == "observe":
        from hpcforge.node.observe import observe  # noqa: PLC0415 - only what a request needs is compiled

        return observe(request, report)
    if verb == "lease":
        from hpcforge.node.lease import lease  # noqa: PLC0415

        return lease(request, report)
    if verb == "log":
        from hpcforge.node.records import log  # noqa: PLC0415

        return log(request, report)
    from hpcforge.node import converge  # noqa: PLC0415

    verbs = {("converge", "prepare"): converge.prepare, ("converge", "finish"): converge.finish}
    verbs["record", ""] = converge.record
    if (verb, phase) not in verbs:
        raise NodeError(f"unknown request: verb {verb!r}, phase {phase!r}")
    report.finish_what_runs()
    verbs[verb, phase](request, report)
    return None


def _roles(request: Json) -> list[str]:
    if request.get("verb") == "record":
        return [str(request.get("role"))]
    return [str(role["role"]) for role in request.get("work") or request.get("wanted") or ()]


def _facts(report: Report) -> Json:
    try:
        return facts.collect()
    except Exception as error:
        report.failed(None, "node", "facts", error)
        return {}
