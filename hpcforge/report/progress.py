"""What a run is doing, while it does it: a line an event that matters, and on a terminal a status line."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.status import Status

from hpcforge.engines.tasks import Event
from hpcforge.report.text import clean

_EVERY_S = 10.0  # without a terminal, at most one line of detail in so many seconds


class Progress:
    """Prints to stderr. `say` is a line of its own; `detail` is what is being done just now."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._console = Console(file=stream or sys.stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._start = time.monotonic()
        self._last_detail = 0.0
        self.phases: dict[str, float] = {}
        self._status: Status | None = self._console.status("") if self._console.is_terminal else None

    def __enter__(self) -> Progress:
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status:
            self._status.stop()

    def say(self, text: str) -> None:
        """One line, with the time since the start."""
        self._last_detail = time.monotonic()
        self._console.print(f"[{time.monotonic() - self._start:6.1f} s] {clean(text)}")

    def detail(self, text: str) -> None:
        """What is going on: replaced by the next on a terminal, thinned out elsewhere."""
        if self._status:
            self._status.update(clean(text)[: max(20, self._console.width - 4)])
        elif time.monotonic() - self._last_detail > _EVERY_S:
            self.say(text)

    def block(self, text: str) -> None:
        """Several lines as they are."""
        self._console.print(text)

    def event(self, event: Event) -> None:
        """An engine's event."""
        data, node = event.data, event.node
        role, name = data.get("role") or "", data.get("name") or ""
        if event.kind == "changed":
            self.detail(f"{node}: {role}: {data.get('kind')} {name}")
        elif event.kind == "progress":
            self.detail(f"{node}: {data.get('detail')}")
        elif event.kind == "warning":
            self.say(f"{node}: {data.get('detail') or data}")
        elif event.kind == "draining":
            jobs = f": its jobs ({data['detail']}) are waited for" if data["detail"] else ""
            self.say(f"{node}: drained{jobs}")
        elif event.kind == "restarting":
            self.say(f"{node}: {data['detail']}")
        elif event.kind == "settled" and data["status"] != "interrupted":
            detail = f": {data['detail']}" if data["detail"] else ""
            self.say(f"{node}: {role} {data['status'] if data['status'] == 'done' else data['status'].upper()}{detail}")

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what happens inside; `phases` has the seconds by name."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.monotonic() - start

    @contextmanager
    def paused(self) -> Iterator[None]:
        """No status line meanwhile, so that a question can be asked."""
        if self._status:
            self._status.stop()
        try:
            yield
        finally:
            if self._status:
                self._status.start()
