"""Progress messages while nodes have not answered: their names, and how long."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from hpcforge.blueprint.hostlist import fold

FIRST_S = 5.0  # shorter waits are normal
SLOW_S = 15.0  # and on a busy machine all nodes take longer
LATER = 3  # times as long as half of the nodes took: longer than what is normal here
EACH_S = 30.0


class Waits:
    """Called again and again with the nodes that have not answered yet; names those that take longer than others.

    Those are named after 5 s, and 3 times as long as half of the nodes took; after 15 s in any case; then every 30 s.
    `always`: a node that is asked whatever is left out; None: the verb cannot leave any out, and no hint is given.
    """

    def __init__(
        self, say: Callable[[str], None], always: str | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say, self._always, self._clock = say, always, clock
        self._start_s = clock()
        self._next_s = SLOW_S
        self._count, self._half_s = 0, 0.0  # nodes at first; when half of them had answered

    def __call__(self, nodes: Collection[str]) -> None:
        """These have not answered yet."""
        waited_s = self._clock() - self._start_s
        self._count = max(self._count, len(nodes))
        if not self._half_s and 2 * len(nodes) <= self._count:
            self._half_s = waited_s
            self._next_s = min(self._next_s, max(FIRST_S, LATER * waited_s))
        if not nodes or waited_s < self._next_s:
            return
        self._next_s = waited_s + EACH_S
        avoidable = sorted(set(nodes) - {self._always}) if self._always is not None else []
        hint = f"; --exclude {fold(avoidable)} leaves out what does not answer" if avoidable else ""
        self._say(f"{fold(sorted(set(nodes)))}: no answer for {waited_s:.0f} s, waiting{hint}")
