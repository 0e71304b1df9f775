"""Verdicts are kept on the head, where every operator finds them."""

from __future__ import annotations

from hpcforge.engines.tasks import Engine, NodeProgram
from hpcforge.node.requests import KeepVerdictsRequest
from hpcforge.verify.verdict_records import Recorded, dump

_TIMEOUT_S = 60.0


def store_verdicts(engine: Engine, controller: str, recorded: Recorded) -> str | None:
    """Write them. Returns why not, if that failed."""
    request: KeepVerdictsRequest = {"verb": "log", "do": "verdicts", "text": dump(recorded)}
    data = engine.run(NodeProgram(f"verdicts:{controller}", controller, request, _TIMEOUT_S)).data
    return None if data["ok"] else str(data["error"])
