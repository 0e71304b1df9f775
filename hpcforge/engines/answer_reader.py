"""The border where a node's lines come in.

An answer that is not of its type (`hpcforge.node.answer_types`) is none: that node has failed,
and says so, and nothing of the answer goes any further.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hpcforge.engines.node_output import CUT, LAST_EVENTS, MAX_LINE_BYTES, complaint, parse_event
from hpcforge.node import answer_types
from hpcforge.schemas import MisfitError
from hpcforge.typed_json import fits

Json = dict[str, Any]


@dataclass
class AnswerReader:
    """A node program's lines, taken one by one. `against` says why, for all its exit status, it is no success."""

    changed: bool = False
    answered: bool = False
    against: str | None = None

    def take(self, line: str) -> tuple[str, Json] | None:
        """The event of a line; None for what is none, or not of its type."""
        if line.endswith(CUT):
            self._say(cut_off(line))
            return None
        event = parse_event(line)
        if event is None:
            return None
        kind, data = event
        try:
            fits(answer_types.EVENTS[kind])(data)
        except MisfitError as error:
            self._say(f"sent an invalid response ({kind}: {error})")
            return None
        self.changed |= kind == "changed"
        self.answered |= kind in LAST_EVENTS
        if said := complaint(kind, data):
            self._say(said)
        return kind, data

    def error(self, node: str, ended: str | None) -> str | None:
        """Return why the program failed: by its lines, or else by how it `ended`."""
        return (
            self.against or ended or (None if self.answered else f"the node program on {node} ended without an answer")
        )

    def _say(self, why: str) -> None:
        self.against = self.against or why


def cut_off(line: str) -> str:
    """What a line that was cut says against all that it belongs to."""
    return f"a line of more than {MAX_LINE_BYTES >> 20} MiB was cut: {line[:60]!a} ..."
