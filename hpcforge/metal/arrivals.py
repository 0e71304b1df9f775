"""Installations of nodes during a run: each node starts its roles when its own installation has ended."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self

from hpcforge.engines import Engines
from hpcforge.errors import ExpectedError
from hpcforge.metal.install import Installation, install, left_out
from hpcforge.plan.changes import Scope
from hpcforge.plan.diff import diff
from hpcforge.plan.observation import Observation
from hpcforge.plan.plan import Install
from hpcforge.run.result import Run
from hpcforge.run.site import Goal, Site, goal, target
from hpcforge.run.stages import Arrival, Arrive, stages

_NEWS_S = 0.5


class _StoppedError(ExpectedError):
    """The installation was stopped."""


class Arrivals:
    """An installation in a thread; one other thread calls the methods. A context manager, whose end stops it.

    `check` raises once the servers for the nodes have ended. `reopen` reads the site again, with the recorded host
    keys. `messages` has lines for people, which `news` passes on.
    """

    def __init__(
        self,
        site: Site,
        installs: Sequence[Install],
        check: Callable[[], None],
        reopen: Callable[[], Site],
        messages: queue.SimpleQueue[str],
    ) -> None:
        self.site, self._installs, self._check, self._reopen = site, installs, check, reopen
        self._messages = messages
        self.done: dict[str, Installation] = {}
        self._stopped = threading.Event()
        self.error: Exception | None = None  # the error that ended all installations
        self._thread = threading.Thread(target=self._work, name="hpcforge-install")

    def __enter__(self) -> Self:
        """Begin. Nodes that got a job since they were chosen are left out. Raises as `run.install.choose` does."""
        for installation in left_out(self.site, self._installs):
            self._messages.put(f"{installation.node}: left out: {installation.why}")
            self.done[installation.node] = installation
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stopped.set()
        self._thread.join()

    def _work(self) -> None:
        installs = [install for install in self._installs if install.node not in self.done]

        def check() -> None:
            if self._stopped.is_set():
                raise _StoppedError("stopped")
            self._check()

        def finished(node: Installation) -> None:
            self.done[node.node] = node

        try:
            if installs:
                install(self.site, installs, check, self._messages.put, finished=finished)
        except _StoppedError:
            pass
        except Exception as error:
            self.error = error

    def results(self) -> list[Installation]:
        """Return the results of all ended installations."""
        return [installation for install in self._installs if (installation := self.of(install.node))]

    def under_way(self) -> tuple[str, ...]:
        """Return nodes whose installation has not ended."""
        return tuple(install.node for install in self._installs if self.of(install.node) is None)

    def of(self, node: str) -> Installation | None:
        """Return the result of a node's installation; None: it continues."""
        ended = not self._thread.is_alive()  # read first: a thread that has ended has stored its results
        installation = self.done.get(node)
        return (
            Installation(node, 0, str(self.error or "not installed"))
            if ended and installation is None
            else installation
        )

    def news(self, say: Callable[[str], None]) -> None:
        """Pass on what was said since the last time."""
        while not self._messages.empty():
            say(self._messages.get())

    def wait(self, nodes: Sequence[str], say: Callable[[str], None]) -> bool:
        """Wait until the installation of these nodes has ended; False if it failed on one of them."""
        while None in (ended := [self.of(node) for node in nodes]):
            self.news(say)
            self._thread.join(_NEWS_S)
        self.news(say)
        return not any(node.why for node in ended if node)

    def arriving(
        self, site: Site, nodes: Sequence[str], engines: Engines, scope: Scope, run: Run, say: Callable[[str], None]
    ) -> Mapping[str, Arrive]:
        """Return what a run of `site` asks again and again for each of these nodes; `say` gets news meanwhile.

        A node that has arrived is planned again, with its host key, and the engines reach it. `self.site` has all of
        these keys. Nodes that arrive together are planned together: a plan is made for the whole cluster.
        """
        self.site = site
        planned: tuple[int, Goal] | None = None  # number of arrivals at the last reading of the site, and its goal

        def arrive(node: str) -> Arrival | None:
            self.news(say)
            installation = self.of(node)
            if installation is None:
                return None
            if installation.why:
                return Arrival(why=f"not installed: {installation.why}")
            nonlocal planned
            count = len(self.done)  # counted first: nodes that arrive meanwhile are planned next time
            if planned is None or planned[0] != count:
                try:
                    self.site = replace(self._reopen(), step=self.site.step)
                    planned = count, goal(self.site, make=False)
                except ExpectedError as error:
                    return Arrival(why=f"installed, and the site cannot be read again: {error}")
            latest = planned[1]
            machine = self.site.cluster.by_name[node]
            engines.add([target(self.site, node, machine)])
            bare = {node: Observation(node, {}, python=False)}
            plan = diff(self.site.cluster, latest.desired, bare, scope=scope)
            return Arrival(stages(plan, node, latest.secrets, run))

        return {node: partial(arrive, node) for node in nodes}
