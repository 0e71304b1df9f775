"""Verdicts are kept on the head, where every operator finds them."""

from __future__ import annotations

from hpcforge.engines.tasks import Engine, Program
from hpcforge.node.requests import KeepVerdicts
from hpcforge.verify.kept import Recorded, dump

_TIMEOUT_S = 60.0


def store_verdicts(engine: Engine, controller: str, recorded: Recorded) -> str | None:
    """Write them. Returns why not, if that failed."""
    request: KeepVerdicts = {"verb": "log", "do": "verdicts", "text": dump(recorded)}
    data = engine.run(Program(f"verdicts:{controller}", controller, request, _TIMEOUT_S)).data
    return None if data["ok"] else str(data["error"])
