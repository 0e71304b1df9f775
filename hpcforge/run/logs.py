"""The logs of nodes, from the node that keeps all logs."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import cast

from hpcforge.engines.tasks import Engine, NodeProgram
from hpcforge.errors import ExpectedError, UsageError
from hpcforge.node.answer_types import LogsAnswer
from hpcforge.node.requests import LogsRequest
from hpcforge.run.fanout import exchange
from hpcforge.run.site import Site, site_roles

_TIMEOUT_S = 120.0
_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}


def kept_at(site: Site) -> tuple[str, str]:
    """Return the node that keeps all logs, and the folder. Raises ExpectedError where there is none."""
    for role in site_roles(site):
        for name, offer in role.spec.services.items():
            service = site.cluster.services[name]
            if offer.logs is not None and service.host is not None:
                return service.host, offer.logs
            if offer.logs is not None and service.external:
                raise ExpectedError(f"logs go to {', '.join(service.external)}, which is the site's", "read them there")
    raise ExpectedError("no node keeps the logs of all nodes", "add to the blueprint: services: {syslog: {on: head}}")


def read_logs(
    engine: Engine, keeper: tuple[str, str], nodes: Sequence[str], since_s: float, text: str, last: int
) -> LogsAnswer | str:
    """Return the `last` lines of these nodes since a time, with a text in them; or why there is no answer.

    `keeper` is what `kept_at` returned; `since_s` is in seconds since 1970.
    """
    request: LogsRequest = {
        "verb": "logs",
        "folder": keeper[1],
        "nodes": [*nodes],
        "since_s": since_s,
        "text": text,
        "last": last,
    }
    answer = exchange(engine, NodeProgram(f"logs:{time.monotonic_ns()}", keeper[0], request, _TIMEOUT_S))
    return answer.error if answer.data is None else cast(LogsAnswer, answer.data)  # the engine has checked its form


def seconds(since: str) -> float:
    """Return a span such as 90s, 15min, 2h or 7d in seconds. Raises UsageError for what is none."""
    match = re.fullmatch(r"([1-9][0-9]{0,4})(s|min|h|d)", since)
    if match is None:
        raise UsageError(f"--since {since}: not a time", "write 90s, 15min, 2h or 7d")
    return float(match[1]) * _UNITS[match[2]]
