"""What a first apply costs the operator host beside its connections: nodes that answer at once, and are always well.

Run it as `python benchmarks/walk.py`; it prints seconds and the most memory that the process held, MiB, for 100, 1,000
and 3,000 nodes, from reading the blueprint to the last line of the report. Twice the nodes should take twice the time.
The blueprint is `dgx-h100-unit.yaml`, widened, with an inventory line a node: all shipped roles.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import facility
import scale

from hpcforge.cli import run
from hpcforge.engines.tasks import Event, NodeProgram, Target, Task, result
from hpcforge.run import site

_CHANGES = 4  # events of a role besides its end
_FACTS = {"memory_kib": 2**41 // 1024, "cpus": 224, "gpus": {"nvidia": 8}, "python": None, "os_id": "debian"}


class Nodes:
    """In place of `hpcforge.engines.Engines`: every node was installed a moment ago, and does as it is told."""

    def __init__(self, *_arguments: Any) -> None:
        self._events: deque[Event] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def add(self, targets: Iterable[Target]) -> None:
        """More nodes."""

    def start(self, task: Task) -> None:
        """Answer, at once."""
        if isinstance(task, NodeProgram):
            for kind, data in _answers(task):
                self._events.append(Event(task.node, task.id, kind, data))
        self._events.append(Event(task.node, task.id, "result", result(ok=True, rc=0)))

    def next(self, timeout_s: float | None = None) -> Event | None:  # noqa: ARG002 - nobody has to be waited for
        """The next event."""
        return self._events.popleft() if self._events else None

    def run(self, task: Task) -> Event:
        """Answer, and keep what others have said."""
        before = list(self._events)
        self._events.clear()
        self.start(task)
        *more, last = self._events
        self._events = deque([*before, *more])
        return last


def _answers(task: NodeProgram) -> Iterable[tuple[str, dict[str, Any]]]:
    verb = task.request["verb"]
    if verb in ("observe", "lease"):
        yield "no_python", _FACTS
        return
    for work in task.request.get("work", ()):
        for number in range(_CHANGES):
            yield "changed", {"role": work["role"], "kind": "file", "name": f"/etc/{number}"}
        yield "role_done", {"role": work["role"]}
    yield "done", {"facts": _FACTS}


def apply(nodes: int) -> int:
    """One apply; its exit status."""
    with tempfile.TemporaryDirectory() as folder:
        blueprint = scale.site(Path(folder), nodes)
        os.environ |= {"XDG_STATE_HOME": folder, "HPCFORGE_IDENTITY": str(Path(folder) / "age.key")}
        site.Engines = Nodes  # type: ignore[assignment,misc]
        return run(["apply", str(blueprint), "--yes"])


def main() -> None:
    """Print a line a size; each is a process of its own."""
    if len(sys.argv) > 1:
        sys.exit(apply(int(sys.argv[1])))
    print(f"{'nodes':>6}  {'s':>6} {'MiB':>6} {'exit':>4}")
    for nodes in (100, 1_000, 3_000):
        took, memory, code, _ = facility.measure([str(nodes)], (__file__,))
        print(f"{nodes:>6,}  {took:>6.2f} {memory:>6.0f} {code:>4}")


if __name__ == "__main__":
    main()
