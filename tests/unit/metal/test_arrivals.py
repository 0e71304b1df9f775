"""Nodes that are installed beside a run, by an installation that a test ends node by node."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
import yaml

from hpcforge.cli.site import open_site
from hpcforge.engines.tasks import Target
from hpcforge.errors import UsageError
from hpcforge.metal import arrivals as beside
from hpcforge.metal.arrivals import Arrivals
from hpcforge.metal.install import Installation
from hpcforge.plan.changes import Scope
from hpcforge.plan.plan import Install
from hpcforge.run.result import Run
from hpcforge.run.site import Site, goal
from tests.support.fake_bmc import Serving
from tests.support.metal_site import MetalSite, metal_site

HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJpoPS4bXRaMe6tTySXaOHYpzDJSvNFcFZLYYhJcYgBN"
INSTALLS = tuple(Install(name, "Debian 12", "img") for name in ("head", "w1", "w2"))
RUN = Run(7, "cafe", "ada@desk", "metal", "0.1")


class Installing:
    """What stands in for an installation: nodes end when the test says so."""

    def __init__(self) -> None:
        self.ends: SimpleQueue[Installation | Exception] = SimpleQueue()
        self.checked = threading.Event()

    def __call__(
        self,
        _site: Site,
        installs: tuple[Install, ...],
        check: Callable[[], None],
        say: Callable[[str], None],
        *,
        finished: Callable[[Installation], None],
    ) -> None:
        left = {install.node for install in installs}
        while left:
            check()
            self.checked.set()
            if self.ends.empty():
                threading.Event().wait(0.01)
                continue
            ended = self.ends.get()
            if isinstance(ended, Exception):
                raise ended
            say(f"{ended.node} has ended")
            finished(ended)
            left.discard(ended.node)


class Reached:
    """Engines that only hear of new nodes."""

    def __init__(self) -> None:
        self.targets: list[Target] = []

    def add(self, targets: list[Target]) -> None:
        self.targets += targets


@pytest.fixture
def files(tmp_path: Path) -> MetalSite:
    return metal_site(tmp_path, Serving(("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"), 443, "a" * 64))


def opened(files: MetalSite) -> Site:
    return open_site(files.blueprint, None, None, files.folder / "key", needs_lab=False)


def begun(files: MetalSite, monkeypatch: pytest.MonkeyPatch, left: list[Installation]) -> tuple[Arrivals, Installing]:
    work = Installing()
    monkeypatch.setattr(beside, "install", work)
    monkeypatch.setattr(beside, "left_out", lambda *_: left)
    made = Arrivals(opened(files), INSTALLS, lambda: None, lambda: opened(files), SimpleQueue())
    return made, work


def recorded(files: MetalSite, node: str) -> None:
    said = yaml.safe_load(files.inventory.read_text())
    said["nodes"][node]["host_keys"] = [HOST_KEY]
    files.inventory.write_text(yaml.safe_dump(said, sort_keys=False))


def test_a_node_arrives_with_its_host_key_and_its_own_steps(files: MetalSite, monkeypatch: pytest.MonkeyPatch) -> None:
    made, work = begun(files, monkeypatch, [])
    engines: Any = Reached()
    site, said = opened(files), list[str]()
    goal(site, make=True)
    with made as arrivals:
        work.ends.put(Installation("head", 1))
        assert arrivals.wait(["head"], said.append)
        assert said == ["head has ended"] and arrivals.under_way() == ("w1", "w2")
        asks = arrivals.arriving(site, ["w1", "w2"], engines, Scope(None, frozenset()), RUN, said.append)
        assert asks["w1"]() is None and engines.targets == []
        recorded(files, "w1")
        work.ends.put(Installation("w1", 1))
        arrivals.wait(["w1"], said.append)
        arrival = asks["w1"]()
        assert arrival is not None and arrival.why == ""
        assert arrival.stages[0].name == "bootstrap" and {stage.task.node for stage in arrival.stages} == {"w1"}
        assert [(target.name, target.host_keys) for target in engines.targets] == [("w1", (HOST_KEY,))]
        assert arrivals.site.cluster.by_name["w1"].host_keys == (HOST_KEY,)
        work.ends.put(Installation("w2", 2, "no disk"))
        assert not arrivals.wait(["w2"], said.append)
        failed = asks["w2"]()
        assert failed is not None and failed.why == "not installed: no disk"
    assert [found.node for found in arrivals.results()] == ["head", "w1", "w2"]


def test_nodes_that_arrive_together_are_planned_together(files: MetalSite, monkeypatch: pytest.MonkeyPatch) -> None:
    made, work = begun(files, monkeypatch, [])
    engines: Any = Reached()
    site, plans = opened(files), list[Site]()
    goal(site, make=True)
    monkeypatch.setattr(beside, "goal", lambda of, make: plans.append(of) or goal(of, make=make))
    with made as arrivals:
        for name in ("head", "w1", "w2"):
            recorded(files, name)
            work.ends.put(Installation(name, 1))
        arrivals.wait(["head", "w1", "w2"], print)
        asks = arrivals.arriving(site, ["w1", "w2"], engines, Scope(None, frozenset()), RUN, print)
        assert all(ask() for ask in asks.values())
    assert len(plans) == 1
    assert [(target.name, target.host_keys) for target in engines.targets] == [
        ("w1", (HOST_KEY,)),
        ("w2", (HOST_KEY,)),
    ]


def test_what_ends_all_installations_ends_each_with_its_cause(
    files: MetalSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, work = begun(files, monkeypatch, [Installation("w2", 0, "it runs job 7")])
    said: list[str] = []
    with made as arrivals:
        work.ends.put(UsageError("dnsmasq has ended"))
        assert not arrivals.wait(["head", "w1", "w2"], said.append)
        assert str(arrivals.error) == "dnsmasq has ended"
        assert [found.why for found in arrivals.results()] == ["dnsmasq has ended"] * 2 + ["it runs job 7"]
    assert said == ["w2: left out: it runs job 7"]


def test_its_end_stops_what_is_under_way(files: MetalSite, monkeypatch: pytest.MonkeyPatch) -> None:
    made, work = begun(files, monkeypatch, [])
    with made:
        assert work.checked.wait(10)
    assert made.error is None and made.done == {}
