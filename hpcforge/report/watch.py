"""A text that fills the terminal and is replaced as it changes; afterwards the shell's own screen is back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from hpcforge.report.colour import Kind, spans
from hpcforge.report.live import fit
from hpcforge.report.text import clean, duration, one_line

_PER_SECOND = 2  # how often it is drawn: for the seconds in its first line, and after a change of the window's size


class Watch:
    """A screen for one text at a time. `clock` gives seconds.

    It uses the terminal's second screen, and draws over what is there instead of clearing it: nothing flickers.
    """

    def __init__(
        self, title: str, kind: Kind, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console or Console(highlight=False, markup=False, emoji=False)
        self._title, self._kind, self._clock = title, kind, clock
        self._text, self._note, self._since_s = "", "", clock()
        self._lock = threading.RLock()
        self._live = Live(
            console=self._console,
            get_renderable=self._drawn,
            refresh_per_second=_PER_SECOND,
            screen=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Watch:
        self._live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, text: str) -> None:
        """Replace the text; a note belongs to the time until then."""
        with self._lock:
            self._text, self._note, self._since_s = clean(text), "", self._clock()
        self._live.refresh()

    def note(self, text: str) -> None:
        """Say something beside the text, in the first line."""
        with self._lock:
            self._note = one_line(text)

    def _drawn(self) -> Group:
        with self._lock:
            width, room = self._console.width, self._console.height - 2
            ago = f"{duration(self._clock() - self._since_s)} ago" if self._text else "asking the nodes"
            first = f"{self._title}  {ago}  {self._note or 'Ctrl-C ends'}"
            lines = self._text.splitlines()
            if len(lines) > room:
                lines = [*lines[: room - 1], f"and {len(lines) - room + 1} more lines: make the window larger"]
            body = "".join(f"{fit(line, width)}\n" for line in lines)
            shown = Text(body, no_wrap=True)
            if self._console.color_system is not None and not self._console.no_color:
                for begin, end, style in spans(body, self._kind):
                    shown.stylize(style, begin, end)
            return Group(Text(fit(first, width), "bold", no_wrap=True), Text(""), shown)
