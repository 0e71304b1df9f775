"""The events of an apply, to people on stderr and, on request, as JSON lines on stdout.

Other commands whose `--json` is one document write these lines to stderr (`beside_document`).

Each line is an object with `schema_version` (3), `event` and `time_s` (seconds since 1970), and more by event:

    installed  before the result, of each node of --install: `node`, `tries`, `why` it failed, `console`, `phases_s`
    plan      the plan, as `plan --json` gives it, and `moved`: nodes it does not hold for any more, and why
    phase     `name`, `state`: begun or ended, `wall_s` when ended
    said      `text`: something worth a line
    changed, progress, warning, remains, failed, skipped   of a node: `node` and what its program said (`hpcforge.node`)
    progress  of work with many parts, without `node`: `phase`, `done`, `total`, the part at work the `longest`, for
              `longest_s`, and `left_s` (null before a third is done, 0 when overdue: `hpcforge.tally`)
    draining  `node`, `detail`: jobs that are waited for
    restarting  `node`, `detail`: what becomes of its restart
    returned  `node`: in service again, while others wait for their turn
    settled   `node`, `role`, `status`: done, failed, skipped, unreachable, interrupted or deferred; `detail`
    result    the last: `exit`, `result`, `admission`, `error`, `moved`; `tests`: `reached` (each a `run` and its
              `verdict`), `waiting` (for users' jobs), `fell_out` (nodes that a test was run again without, and why),
              `recorded` (what is known of each node set), `note`. Beside a document: `exit` alone
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from hpcforge.engines.tasks import Event
from hpcforge.plan.plan import Plan
from hpcforge.report import printing
from hpcforge.report.plan_text import plan_text
from hpcforge.report.progress import Progress
from hpcforge.run.result import ApplyResult
from hpcforge.tally import Parts, Tally

if TYPE_CHECKING:  # it imports all of power and network boot, which few runs need
    from hpcforge.metal.install import Installation

SCHEMA_VERSION = 3
_OF_NODES = (
    "changed", "progress", "warning", "remains", "failed", "skipped", "draining", "restarting", "returned", "settled",
)  # fmt: skip


def installed(done: Installation) -> str:
    """Return the line of a node that got an operating system, or did not."""
    said = {"schema_version": SCHEMA_VERSION, "event": "installed", "time_s": time.time(), **dataclasses.asdict(done)}
    return json.dumps(said) + "\n"


class Stream:
    """Passes everything on to `human`; with an `out` also as lines to that. A context manager for symmetry with it.

    `expected` returns the time that a plan will probably take, in seconds; None: unknown.
    """

    def __init__(
        self,
        human: Progress,
        out: Callable[[str], None] | None,
        expected: Callable[[Plan], float | None] = lambda _: None,
    ) -> None:
        self.human, self._out, self._expected = human, out, expected

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Nothing is kept back."""

    def plan(self, plan: Plan, moved: Mapping[str, str]) -> None:
        """Write the plan."""
        self._write("plan", plan=plan.flat, moved=dict(moved))
        self.human.block(plan_text(plan))
        self.human.expect(self._expected(plan))
        self.warn_moved(moved)

    def warn_moved(self, moved: Mapping[str, str]) -> None:
        """Nodes that are left out because they are not as they were."""
        for node, why in moved.items():
            self.say(f"{node} is left out: {why}")

    def say(self, text: str) -> None:
        """Something worth a line."""
        self._write("said", text=text)
        self.human.say(text)

    def detail(self, text: str) -> None:
        """Ignore the present activity, which is for people only."""
        self.human.detail(text)

    def nodes(self, names: Collection[str]) -> None:
        """Which nodes are about to be worked on; the plan has said so to programs."""
        self.human.nodes(names)

    def event(self, event: Event) -> None:
        """Write an engine's event."""
        if event.kind in _OF_NODES:
            self._write(event.kind, **{**event.data, "node": event.node})
        self.human.event(event)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what happens inside."""
        began = time.monotonic()
        self._write("phase", name=name, state="begun")
        with self.human.phase(name):
            try:
                yield
            finally:
                self._write("phase", name=name, state="ended", wall_s=round(time.monotonic() - began, 3))

    @contextmanager
    def tally(self, name: str, parts: Parts) -> Iterator[Tally]:
        """Count the parts of what happens inside; a line when it begins, at each change, and when it ends."""
        with self.human.tally(name, parts) as tally:

            def write(_part: str = "", _state: str = "") -> None:
                self._write("progress", **dataclasses.asdict(tally.standing()))

            tally.watch(write)
            write()
            try:
                yield tally
            finally:
                write()

    def waits(self, name: str) -> AbstractContextManager[None]:
        """Time a wait for others; for people only."""
        return self.human.phase(name)

    def result(self, done: ApplyResult, code: int) -> None:
        """Write the result."""
        self._write("result", exit=int(code), **vars(done))

    def ended(self, code: int) -> None:
        """Write the exit status of a command whose result is a document."""
        self._write("result", exit=int(code))

    def _write(self, event: str, /, **data: Any) -> None:
        if self._out is not None:
            first = {"schema_version": SCHEMA_VERSION, "event": event, "time_s": round(time.time(), 3)}
            line = {**first, **data, **first}  # these three are ours, whatever a node says
            self._out(json.dumps(line, default=dataclasses.asdict) + "\n")


@contextmanager
def beside_document(*, as_json: bool) -> Iterator[Stream]:
    """Yield a listener for a command whose `--json` is one document: events are lines on stderr.

    People at a terminal get what they get without `--json`.
    """
    with Progress(in_pipes=not as_json) as human:
        yield Stream(human, printing.note if human.silent else None)
