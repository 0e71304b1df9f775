"""Verdicts and baselines are kept on the head, where every operator finds them."""

from __future__ import annotations

from hpcforge.engines.tasks import Engine, NodeProgram
from hpcforge.node.requests import KeepVerdictsRequest, KeepVerificationsRequest
from hpcforge.verify import baselines
from hpcforge.verify.baselines import Verifications
from hpcforge.verify.verdict_records import Recorded, dump

_TIMEOUT_S = 60.0


def store_verdicts(engine: Engine, controller: str, recorded: Recorded) -> str | None:
    """Write them. Returns why not, if that failed."""
    request: KeepVerdictsRequest = {"verb": "log", "do": "verdicts", "text": dump(recorded)}
    return _kept(engine, controller, request)


def store_verifications(engine: Engine, controller: str, kept: Verifications) -> str | None:
    """Write baselines and past verifications. Returns why not, if that failed."""
    request: KeepVerificationsRequest = {"verb": "log", "do": "verifications", "text": baselines.dump(kept)}
    return _kept(engine, controller, request)


def _kept(engine: Engine, controller: str, request: KeepVerdictsRequest | KeepVerificationsRequest) -> str | None:
    data = engine.run(NodeProgram(f"{request['do']}:{controller}", controller, request, _TIMEOUT_S)).data
    return None if data["ok"] else str(data["error"])
