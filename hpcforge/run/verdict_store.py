"""Verdicts are kept on the head, where every operator finds them."""

from __future__ import annotations

from collections.abc import Sequence

from hpcforge.engines.tasks import Engine, Program
from hpcforge.verify.verdicts import Verdict, dump

_TIMEOUT_S = 60.0


def store_verdicts(engine: Engine, controller: str, verdicts: Sequence[Verdict], time_s: float) -> str | None:
    """Write them with their time (seconds since 1970). Returns why not, if that failed."""
    request = {"verb": "log", "do": "verdicts", "text": dump(verdicts, time_s)}
    data = engine.run(Program(f"verdicts:{controller}", controller, request, _TIMEOUT_S)).data
    return None if data["ok"] else str(data["error"])
