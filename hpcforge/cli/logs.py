"""`hpcforge logs`: lines out of what nodes log, from the node that keeps all logs."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from hpcforge.blueprint.hostlist import fold
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.site import open_site
from hpcforge.cluster.select import select
from hpcforge.command_hint import command_line
from hpcforge.engines.tasks import NodeProgram
from hpcforge.errors import ExpectedError, UsageError
from hpcforge.node.answer_types import LogsAnswer
from hpcforge.node.requests import LogsRequest
from hpcforge.report import printing
from hpcforge.report.text import one_line, plural
from hpcforge.run.fanout import exchange
from hpcforge.run.site import Site, open_engines, site_roles

SCHEMA_VERSION = 1
_TIMEOUT_S = 120.0
_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}


def logs(
    *,
    blueprint: Path,
    nodes: Sequence[str],
    since: str,
    grep: str,
    last: int,
    inventory: Path | None,
    lab: str | None,
    as_json: bool,
) -> int:
    """Run `hpcforge logs`. Returns the exit status."""
    back_s = _seconds(since)
    site = open_site(blueprint, inventory, lab, None)
    chosen = select(site.cluster, nodes, ())
    keeper, folder = _kept_at(site)
    request: LogsRequest = {
        "verb": "logs",
        "folder": folder,
        "nodes": [*chosen],
        "since_s": time.time() - back_s,
        "text": grep,
        "last": last,
    }
    with open_engines(site) as engine:
        answer = exchange(engine, NodeProgram(f"logs:{time.monotonic_ns()}", keeper, request, _TIMEOUT_S))
    if answer.data is None:
        printing.note(f"{keeper}: {one_line(answer.error)}\n")
        return Exit.UNREACHABLE
    found = cast(LogsAnswer, answer.data)  # its type was checked where it came in
    if as_json:
        printing.result(json.dumps({"schema_version": SCHEMA_VERSION, "from": keeper, **found}, indent=2) + "\n")
        return Exit.DONE
    printing.result("".join(f"{one_line(line['line'])}\n" for line in found["lines"]))
    printing.note(_summary(found, chosen, since))
    more = command_line("status", blueprint, inventory=inventory, lab=lab)
    printing.note(f"Next: {more}\n")
    return Exit.DONE


def _summary(found: LogsAnswer, chosen: Sequence[str], since: str) -> str:
    """How much was found, and what is not there."""
    without = [name for name in chosen if name not in {*found["kept"]}]
    said = f"{plural(len(found['lines']), 'line')} of {fold(tuple(chosen))} within {since}\n"
    if found["left_out"]:
        said += f"{plural(found['left_out'], 'older line')} not shown: --last N, --grep TEXT or a shorter --since\n"
    return said + (f"nothing is kept of {fold(tuple(without))}: it has not logged yet\n" if without else "")


def _seconds(since: str) -> float:
    found = re.fullmatch(r"([1-9][0-9]{0,4})(s|min|h|d)", since)
    if found is None:
        raise UsageError(f"--since {since}: not a time", "write 90s, 15min, 2h or 7d")
    return float(found[1]) * _UNITS[found[2]]


def _kept_at(site: Site) -> tuple[str, str]:
    """The node that keeps all logs, and the folder. Raises ExpectedError where there is none."""
    for role in site_roles(site):
        for name, offer in role.spec.services.items():
            service = site.cluster.services[name]
            if offer.logs is not None and service.host is not None:
                return service.host, offer.logs
            if offer.logs is not None and service.external:
                raise ExpectedError(
                    f"logs go to {', '.join(service.external)}, which is the site's", "read them there"
                )
    raise ExpectedError("no node keeps the logs of all nodes", "add to the blueprint: services: {syslog: {on: head}}")
