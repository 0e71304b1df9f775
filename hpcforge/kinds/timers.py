"""Commands that run at times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from hpcforge.kinds.resource import ActualState, LocalName, Resource, ResourceState
from hpcforge.wire_types import Word


@dataclass(frozen=True)
class Timer(Resource):
    """A command that systemd runs at times; one that was missed while the node was off is made up for."""

    kind: ClassVar[str] = "timers"
    apply_verb: ClassVar[str] = "runs at times"

    name: Annotated[str, "Name of its units, without .timer."]
    command: Annotated[tuple[str, ...], "An absolute path and its arguments; no shell reads them.", LocalName.COMMAND]
    calendar: Annotated[str, "When, as systemd.time(7) has it: `daily`, `Mon *-*-* 04:00`."]
    user: Annotated[str, "Who runs it.", LocalName.ACCOUNT] = "root"
    delay_s: Annotated[int, "Each node waits a part of this, seconds, so that not all begin at once."] = 0
    accuracy_s: Annotated[
        int, "How late it may begin, seconds: systemd begins units that are due about then together."
    ] = 60
    quiet: Annotated[bool, "Log only its output, not its beginning and end."] = False

    def line(self, actual: ActualState) -> str:
        """Return the line with its times and its command."""
        detail = f"{self.calendar}: {' '.join(self.command)}" + ("" if self.user == "root" else f" (as {self.user})")
        return f"{'~' if actual['exists'] else '+'} timer {self.name}: {detail}"


class TimerState(ResourceState):
    """A timer that is not as desired, or does not run."""

    name: Word
    exists: bool


RESOURCE, FOUND = Timer, TimerState
