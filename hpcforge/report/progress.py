"""What a run is doing, while it does it: a line an event that matters, and on a terminal what nodes are at just now."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from hpcforge import process
from hpcforge.engines.tasks import Event
from hpcforge.report.live import Board, fit, styled_text
from hpcforge.report.text import clean, duration, one_line
from hpcforge.styles import Style, styled
from hpcforge.tally import Parts, Tally, left_text

_ENDS: dict[str, Style] = {"done": "good", "deferred": "warn", "skipped": "warn"}  # all others are bad
_EVERY_S = 10.0  # without a terminal, at most one line of detail in so many seconds
_WAITS = ("waiting: ", "waiting for another ")  # for minutes perhaps, and reported once: never left out
_PER_SECOND = 4  # how often the lower lines are drawn
_ABOVE = 3  # lines of the screen that are left to what scrolls


class Progress:
    """Prints to stderr. `say` is a line of its own; `detail` is what is being done just now.

    On a terminal the lower lines of the screen show the latter, and a row a node at work, unless `live` is False.
    `in_pipes`: False prints nothing where there is no terminal.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        live: bool = True,
        in_pipes: bool = True,
        console: Console | None = None,
    ) -> None:
        self._console = console or Console(
            file=stream or sys.stderr, highlight=False, markup=False, emoji=False, soft_wrap=True
        )
        self.silent = not (in_pipes or self._console.is_terminal)
        self._console.quiet = self.silent
        now = time.monotonic()
        self._start = process.began_s.get(now)
        self._last_detail = 0.0
        self.phases: dict[str, float] = {"start": now - self._start}
        self._board, self._phase, self._detail = Board(), "", ""
        self._ends: float | None = None  # when it probably ends, on the monotonic clock
        self._tally: Tally | None = None
        # Drawn by a thread of its own. The same thread may come twice: Ctrl-C says something wherever it comes.
        self._lock = threading.RLock()
        utf = self._console.encoding.lower().startswith("utf")
        self._spinner = Spinner("dots" if utf else "line")
        self._live = self._screen() if live and self._console.is_interactive else None

    def _screen(self) -> Live:
        return Live(
            console=self._console,
            get_renderable=self._drawn,
            refresh_per_second=_PER_SECOND,
            transient=True,
            redirect_stdout=False,  # results for a program may go there
        )

    def _drawn(self) -> Group:
        with self._lock:
            width, height = self._console.width - 1, self._console.height - _ABOVE - 1
            board = self._board.lines(width, height)
            left = self._left()
            doing = fit(self._doing(), width - 2 - len(left), pad=bool(left))
            self._spinner.text = Text(doing + left, no_wrap=True)
            return Group(self._spinner, *board)

    def expect(self, seconds: float | None) -> None:
        """From now on it will probably take so long; None: unknown."""
        self._ends = None if seconds is None else time.monotonic() + seconds

    def _doing(self) -> str:
        if self._tally is None or self._detail:
            return self._detail or self._phase
        standing = self._tally.standing()  # its longest part has the first row
        return f"{standing.phase}: {standing.done} of {standing.total}"

    def _left(self) -> str:
        if self._ends is None:
            words = left_text(self._tally.standing().left_s) if self._tally else ""
            return f"  {words}" if words else ""
        left = self._ends - time.monotonic()
        return f"  about {duration(float(round(left)))} left" if left >= 1 else "  longer than before"

    def __enter__(self) -> Progress:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    @property
    def elapsed_s(self) -> float:
        """The time since the command began, the start of Python included."""
        return time.monotonic() - self._start

    def say(self, text: str) -> None:
        """One line, with the time since the command began."""
        self._last_detail = time.monotonic()
        self._print(styled(f"[{self.elapsed_s:6.1f} s]", "aside") + " " + one_line(text))

    def detail(self, text: str) -> None:
        """Show the present activity: replaced by the next on a terminal, thinned out elsewhere."""
        if self._live:
            with self._lock:
                self._detail = " ".join(clean(text).split())
        elif time.monotonic() - self._last_detail > _EVERY_S:
            self.say(text)

    def block(self, text: str) -> None:
        """Print several lines."""
        self._print(clean(text))

    def _print(self, text: str) -> None:
        self._console.print(styled_text(text, self._console))

    def nodes(self, names: Collection[str]) -> None:
        """Which nodes are about to be worked on."""
        with self._lock:
            self._board.expect(names)

    def event(self, event: Event) -> None:
        """Show an event of an engine, or of the walk."""
        with self._lock:
            self._board.take(event)
        data, node = event.data, event.node
        role, name = data.get("role") or "", data.get("name") or ""
        if event.kind in ("changed", "progress"):
            if not self._live:  # there its row has it
                what = f"{role}: {data.get('kind')} {name}" if event.kind == "changed" else data.get("detail")
                show = self.say if str(what).startswith(_WAITS) else self.detail
                show(f"{node}: {what}")
        elif event.kind == "warning":
            self.say(f"{node}: {data.get('detail') or data}")
        elif event.kind == "draining":
            jobs = f": its jobs ({data['detail']}) are waited for" if data["detail"] else ""
            self.say(f"{node}: " + styled("drained", "warn") + jobs)
        elif event.kind == "restarting":
            self.say(f"{node}: {data['detail']}")
        elif event.kind == "returned":
            self.say(f"{node}: back in service")
        elif event.kind == "settled" and data["status"] != "interrupted":
            detail = f": {data['detail']}" if data["detail"] else ""
            status = data["status"] if data["status"] == "done" else data["status"].upper()
            self.say(f"{node}: {role} " + styled(status, _ENDS.get(data["status"], "bad")) + detail)

    @contextmanager
    def tally(self, name: str, parts: Parts) -> Iterator[Tally]:
        """Count the parts of what happens inside: a line when it begins and one when it ends, rows on a terminal."""
        tally, board, began, outer = Tally(name, parts), Board(), time.monotonic(), (self._tally, self._board)
        tally.watch(partial(self._part, board))
        board.expect(tally.names)
        self.say(f"{name} ...")
        with self._lock:
            self._tally, self._board, self._detail = tally, board, ""
        try:
            yield tally
        finally:
            with self._lock:
                (self._tally, self._board), self._detail = outer, ""
            standing = tally.standing()
            self.say(f"{name}: {standing.done} of {standing.total}, {time.monotonic() - began:.0f} s")

    def _part(self, board: Board, part: str, state: str) -> None:
        """Give a part of the work its row."""
        with self._lock:
            if state in ("added", "begun"):
                board.add(part)
            if state == "begun":
                board.take(Event(part, "", "stage", {"name": "", "roles": []}))
            elif state in ("done", "failed"):
                board.take(Event(part, "", "ended", {"status": state}))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what happens inside; `phases` has the seconds by name, those before the first as `start`."""
        start = time.monotonic()
        self._phase = name
        try:
            yield
        finally:
            self._phase = self._detail = ""
            self.phases[name] = self.phases.get(name, 0.0) + time.monotonic() - start

    @contextmanager
    def paused(self) -> Iterator[None]:
        """No status line meanwhile, so that a question can be asked."""
        if self._live:
            self._live.stop()
        try:
            yield
        finally:
            if self._live:
                self._live.start()
