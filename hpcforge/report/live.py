"""Nodes at work as the lower lines of a terminal: a row each, and how many have ended how.

What nodes say comes as events and is text of theirs: nothing of it reaches the screen but in its row, cut to its width.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from types import TracebackType

from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from hpcforge.engines.tasks import Event
from hpcforge.report.text import clean, duration, one_line
from hpcforge.styles import LOOKS, parts_of

_ENDS = {"done": "done", "failed": "failed", "deferred": "deferred", "other": "not done"}  # as a walk says: as we do
_COLUMNS = 70  # from this width on what a node is at has a column of its own
_LABEL = 20  # and so wide at most


@dataclass(frozen=True)
class _NodeWork:
    """What a node is at: the task it will end with, the role or stage, the resource, and since when (clock)."""

    task: str
    label: str
    doing: str
    since_s: float


class Board:
    """The nodes of a run. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._nodes: set[str] = set()
        self._at_work: dict[str, _NodeWork] = {}
        self._ended: Counter[str] = Counter()
        self._ends: dict[str, str] = {}

    def expect(self, nodes: Iterable[str]) -> None:
        """Set the nodes of the coming work, and no others."""
        self._nodes = set(nodes)
        self._at_work, self._ended, self._ends = {}, Counter(), {}

    def add(self, node: str) -> None:
        """Expect one more node, or one that has ended again."""
        if (ended := self._ends.pop(node, None)) is not None:
            self._ended[ended] -= 1
        self._nodes.add(node)

    def take(self, event: Event) -> None:
        """Account for an event of a walk."""
        data, node = event.data, event.node
        if node not in self._nodes:
            return
        work = self._at_work.get(node)
        if event.kind == "stage":
            roles = ", ".join(data["roles"])
            self._at_work[node] = _NodeWork(event.task, str(data["name"]), roles, self._clock())
        elif event.kind == "draining":
            self._at_work[node] = _NodeWork("", "drain", f"waits for jobs {data['detail']}", self._clock())
        elif event.kind == "ended":
            self._at_work.pop(node, None)
            self._ends[node] = _ENDS[data["status"]]
            self._ended[self._ends[node]] += 1
        elif work is None:
            return
        elif event.kind == "result" and event.task == work.task:
            del self._at_work[node]  # until its next stage it waits for others
        elif event.kind == "changed":
            self._at_work[node] = replace(work, label=str(data["role"]), doing=f"{data['kind']} {data['name']}")
        elif event.kind == "progress":
            self._at_work[node] = replace(work, label=data.get("role") or work.label, doing=str(data.get("detail")))
        elif event.kind == "restarting":
            self._at_work[node] = replace(work, doing=str(data["detail"]))

    def lines(self, width: int, height: int) -> list[Text]:
        """At most `height` lines of at most `width` cells: the nodes that are at it the longest, and the counts."""
        left = len(self._nodes) - self._ended.total()
        if not left or height < 1:
            return []
        room = height - 1
        if len(self._at_work) > room:
            room = max(0, room - 1)  # for how many more there are
        shown = heapq.nsmallest(room, self._at_work.items(), key=lambda pair: pair[1].since_s)
        more = len(self._at_work) - len(shown)
        lines = self._rows(dict(shown), width)
        if more and height > 1:
            lines.append(Text(fit(f"and {more} more" if shown else f"{more} nodes at work", width), "dim"))
        failed = self._ended["failed"] > 0
        return [*lines, Text(fit(self._counts(left, width), width), "bold red" if failed else "bold")]

    def _rows(self, works: dict[str, _NodeWork], width: int) -> list[Text]:
        now = self._clock()
        names = {node: _line(node) for node in works}
        labels = {node: _line(work.label) for node, work in works.items()}
        first = min(max(map(cell_len, names.values()), default=0), max(4, width // 3))
        second = min(max(map(cell_len, labels.values()), default=0), _LABEL)
        rows = []
        for node, work in works.items():
            seconds = f"{now - work.since_s:.0f} s"
            doing, label = _line(work.doing), labels[node]
            if width >= _COLUMNS:
                middle = f"{fit(label, second, pad=True)}  {doing}"
            else:
                middle = f"{label}: {doing}" if doing else label
            room = width - first - len(seconds) - 3
            head = f"{fit(names[node], first, pad=True)}  {fit(middle, room, pad=True)}"
            rows.append(Text(fit(f"{head} {seconds}" if room > 0 else head, width), no_wrap=True))
        return rows

    def _counts(self, left: int, width: int) -> str:
        """How many have ended how, in words or, where those are too long, in shorter ones."""
        at_work = len(self._at_work)
        waiting = left - at_work
        ends = {name: self._ended[name] for name in _ENDS.values() if self._ended[name] or name in ("done", "failed")}
        text = ", ".join(f"{count} {name}" for name, count in {**ends, "at work": at_work, "waiting": waiting}.items())
        if cell_len(text) <= width:
            return text
        failed = sum(count for name, count in ends.items() if name != "done")
        return f"+{ends['done']} -{failed} at work {at_work}/{left}"


def _line(text: str) -> str:
    return " ".join(clean(text).split())


def fit(text: str, width: int, *, pad: bool = False) -> str:
    """Text cut to so many cells of a terminal, or filled up to them."""
    if cell_len(text) > width:
        return set_cell_size(text, max(0, width - 3)) + "..."[: max(0, width)]
    return set_cell_size(text, width) if pad else text


def styled_text(text: str, console: Console) -> Text:
    """Return a text as rich prints it, with the styles of its parts where the console has colours."""
    if console.color_system is None or console.no_color:
        return Text(str(text))
    return Text.assemble(*((piece, LOOKS[style] if style else "") for piece, style in parts_of(text)))


# A text that fills the terminal and is replaced as it changes; afterwards the shell's own screen is back.
_PER_SECOND = 2  # how often it is drawn: for the seconds in its first line, and after a change of the window's size


class Watch:
    """A screen for one text at a time. `clock` gives seconds.

    It uses the terminal's second screen, and draws over what is there instead of clearing it: nothing flickers.
    """

    def __init__(self, title: str, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console or Console(highlight=False, markup=False, emoji=False)
        self._title, self._clock = title, clock
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
            lines = [*styled_text(self._text, self._console).split("\n")]
            if len(lines) > room:
                more = f"and {len(lines) - room + 1} more lines: make the window larger"
                lines = [*lines[: room - 1], Text(more)]
            for line in lines:
                if line.cell_len > width:
                    line.truncate(max(0, width - 3))
                    line.append("..."[:width])
            body = Text("\n", no_wrap=True).join([*lines, Text("")])
            return Group(Text(fit(first, width), "bold", no_wrap=True), Text(""), body)
