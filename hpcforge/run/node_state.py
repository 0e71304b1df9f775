"""A node of a walk."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from hpcforge.engines.tasks import Event
from hpcforge.run.reboot import Reboot
from hpcforge.run.rollout import Drain, Resume
from hpcforge.run.stage import Stage
from hpcforge.run.stages import Arrive


@dataclass
class NodeState:
    """The remaining and running work of a node."""

    name: str
    queue: deque[Stage]
    arrive: Arrive | None = None  # while it gets its operating system
    begun: bool = False
    drain: Drain | None = None
    reboot: Reboot | None = None  # while the running stage is one
    back: Resume | None = None  # while it goes back into service, before the others have had their turn
    running: Stage | None = None
    errors: dict[str, str] = field(default_factory=dict)  # by role, of the running stage

    @property
    def ended(self) -> bool:
        """True when nothing is left to do there."""
        return self.running is None and not self.queue

    @property
    def roles(self) -> list[str]:
        """The roles that are still to be done, in order."""
        waiting = [role for stage in self.queue for role in stage.roles]
        return list(dict.fromkeys([*(self.running.roles if self.running else ()), *waiting]))

    @property
    def goes_on(self) -> bool:
        """True while a running part will end without further action."""
        emptied = self.drain is not None and self.drain.state == "waiting"
        returns = self.back is not None and not self.back.over
        return self.running is not None or emptied or returns or self.arrive is not None

    @property
    def at_work(self) -> bool:
        """True while it runs work that must not lose its controller or its connection."""
        confirms = bool(self.queue) and self.queue[0].confirms
        asking = any(step is not None and step.asking for step in (self.drain, self.back))
        return self.running is not None or confirms or asking

    def takes_of_controller(self, event: Event) -> bool:
        """Account for an event of the controller's; True if it was the answer to a question about this node."""
        return any(step is not None and step.take(event) for step in (self.drain, self.back))
