"""The head as smoke tests need it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from hpcforge.engines.tasks import Command, Engine
from hpcforge.verify.head import Completed


@dataclass(frozen=True)
class EngineHead:
    """The head as `verify` needs it, over hpcforge's own connection."""

    engine: Engine
    node: str

    def run(self, argv: Sequence[str], *, stdin: str = "", user: str | None = None, timeout_s: float) -> Completed:
        """One command on the head, as root where no user is named."""
        task = Command(f"verify:{time.monotonic_ns()}", self.node, tuple(argv), stdin, user or "root", timeout_s)
        data = self.engine.run(task).data
        return Completed(data["rc"], data["stdout"], data["stderr"] or data["error"] or "")
