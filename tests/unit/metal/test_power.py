"""Which nodes may lose power, and in which order they do."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hpcforge.cli.site import open_site
from hpcforge.cluster import load
from hpcforge.cluster.model import Node
from hpcforge.engines import Engines
from hpcforge.engines.tasks import Command, Event, result
from hpcforge.metal import power
from hpcforge.metal.bmc import Boot, Controller
from hpcforge.metal.bmc.makes import Traits
from hpcforge.metal.bmc.verbs import MachineState, Wish
from hpcforge.metal.power import (
    HeadUnknownError,
    Outcome,
    TurnRules,
    announced,
    beside,
    boot_warnings,
    carried_out,
    cycled,
    disturbed,
    in_order,
    jobs,
    jobs_command,
)
from hpcforge.run.records.lease import LeaseHeldError
from hpcforge.run.site import Site
from tests.support.bmc_of_make import BmcOfMake
from tests.support.fake_bmc import FakeBmc, serving
from tests.support.metal_site import metal_site
from tests.support.metric_programs import load as load_program
from tests.unit.run.records.test_lease import Head as LeaseHead

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def nodes() -> dict[str, Node]:
    return dict(load(ROOT / "blueprints" / "air-cooled-16.yaml", None).cluster.by_name)


class Head:
    """A head that answers squeue so."""

    def __init__(self, **answer: Any) -> None:
        self.answer = answer

    def run(self, task: Command) -> Event:
        return Event(task.node, task.id, "result", result(**self.answer))


def asked(**answer: Any) -> dict[str, tuple[str, ...]]:
    return jobs(cast(Engines, Head(**answer)), "head01")


def test_jobs_are_read_and_a_head_without_slurm_has_none() -> None:
    assert asked(ok=True, rc=0, stdout="17|g[01-02]\n18|g02\n") == {"g01": ("17",), "g02": ("17", "18")}
    assert asked(ok=True, rc=0, stdout="no configuration of Slurm\n") == {}
    for answer in (
        {"rc": 1, "error": "exit status 1"},
        {"rc": 127, "error": "exit status 127"},  # as while squeue is being replaced
        {"error": "no route", "reason": "no-route"},
        {"ok": True, "rc": 0, "stdout": "17|g[01-02]\nslurm_load_jobs: odd\n"},
        {"ok": True, "rc": 0, "stdout": "17|g[01-\n"},
    ):
        with pytest.raises(HeadUnknownError, match="head01 cannot say which jobs run"):
            asked(**answer)


def test_a_missing_squeue_is_no_list_without_jobs(tmp_path: Path) -> None:
    configuration = tmp_path / "slurm.conf"

    def ran() -> tuple[int, str]:
        done = subprocess.run(
            ["/bin/sh", *jobs_command(str(configuration))[1:]],
            env={"PATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    code, printed = ran()
    assert asked(ok=code == 0, rc=code, stdout=printed) == {}
    configuration.symlink_to(tmp_path / "away")
    assert ran() == (127, "")
    (tmp_path / "squeue").write_text("#!/bin/sh\necho '17|g01'\n")
    (tmp_path / "squeue").chmod(0o755)
    assert ran() == (0, "17|g01\n")


def test_a_worker_is_kept_for_its_jobs_and_the_rest_for_all(nodes: dict[str, Node]) -> None:
    some = [nodes[name] for name in ("head01", "stor01", "g01", "g02")]
    assert disturbed(some, {}) == {}
    found = disturbed(some, {"g02": ("17", "18")})
    assert found == {
        "head01": "jobs 17, 18 run in the cluster, which needs it",
        "stor01": "jobs 17, 18 run in the cluster, which needs it",
        "g02": "it runs jobs 17, 18",
    }


def test_what_others_need_comes_first_and_goes_last(nodes: dict[str, Node]) -> None:
    some = [nodes[name] for name in ("g01", "head01", "login01", "g02", "stor01")]
    on = in_order(some, "on")
    assert on == [("stor01",), ("head01",), ("login01",), ("g01", "g02")]
    assert in_order(some, "off") == on[::-1]


def test_a_node_whose_power_state_is_unclear_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load(ROOT / "blueprints" / "air-cooled-16.yaml", None)
    monkeypatch.setattr(power, "carry_out", lambda *_: MachineState("changing", Boot("none", once=False)))
    of = {name: cast(Controller, SimpleNamespace(quirks=())) for name in ("g01", "g02")}
    site = cast(Site, SimpleNamespace(loaded=loaded, cluster=loaded.cluster))
    found = list(cycled(site, of, ["g01", "g02"], Wish("cycle", hard=True), TurnRules(0.0)))
    why = "its power state is changing, neither on nor off"
    assert sorted((outcome.node, outcome.state, outcome.why) for outcome in found) == [
        ("g01", "failed", why),
        ("g02", "failed", why),
    ]


def test_no_node_begins_once_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped, asked = threading.Event(), []

    def carry_out(controller: Any, _wish: Wish) -> MachineState:
        asked.append(controller.name)
        stopped.set()
        return MachineState("on", Boot("none", once=False))

    monkeypatch.setattr(power, "carry_out", carry_out)
    monkeypatch.setattr(power, "_AT_ONCE", 1)
    of = {f"g{number}": cast(Controller, SimpleNamespace(name=f"g{number}", quirks=())) for number in range(50)}
    list(carried_out(of, list(of), Wish("on"), stopped))
    assert 1 <= len(asked) < 50
    assert list(carried_out(of, list(of), Wish("on"), stopped)) == []


def test_warnings_of_a_plan_are_by_make_and_of_who_answers(tmp_path: Path) -> None:
    make = Traits("HPE", "", "HPE", "ProLiant DL380a Gen11", "iLO 6", "iLO 6 v1.60")
    with serving(tmp_path, [FakeBmc(), FakeBmc(does=("breaks-off",)), BmcOfMake(traits=make), FakeBmc()]) as at:
        found = metal_site(tmp_path, at)
        site = open_site(found.blueprint, None, None, tmp_path / "key", needs_lab=False)
        warnings = boot_warnings(site, ["store", "head", "w1"])
        assert warnings["store"] == warnings["head"] == ()
        assert "UnsupportedOperation" in warnings["w1"][0]
        found.inventory.write_text(found.inventory.read_text().replace("port:", "protocol: ipmi\n  port:"))
        site = open_site(found.blueprint, None, None, tmp_path / "key", needs_lab=False)
        assert boot_warnings(site, ["store", "head", "w1"]) == {}


def test_the_head_knows_which_nodes_are_switched_while_they_are(tmp_path: Path) -> None:
    """The role node_facts reads the lease, and NodeInRun holds back the alerts of these nodes."""
    loaded = load(ROOT / "blueprints" / "air-cooled-16.yaml", None)
    site = cast(Site, SimpleNamespace(loaded=loaded, cluster=loaded.cluster))
    facts = load_program("node_facts/node_facts.py")
    kept, begun = tmp_path / "lease.json", threading.Event()

    def outcomes(stopped: threading.Event) -> Iterator[Outcome]:
        begun.set()
        while not (known := facts.run_nodes(str(kept))):  # which a heartbeat brings
            if stopped.wait(0.05):
                return
        yield Outcome(",".join(known), "done")

    with announced(site, cast(Engines, LeaseHead(tmp_path)), ["g01", "g02"], print) as lease:
        assert [outcome.node for outcome in beside(lease, outcomes)] == ["g01,g02"]
        with pytest.raises(LeaseHeldError):
            announced(site, cast(Engines, LeaseHead(tmp_path)), ["g03"], print)
    assert begun.is_set()
    assert facts.run_nodes(str(kept)) == []


def test_no_other_node_begins_once_the_reader_of_outcomes_ends(tmp_path: Path) -> None:
    loaded = load(ROOT / "blueprints" / "air-cooled-16.yaml", None)
    site = cast(Site, SimpleNamespace(loaded=loaded, cluster=loaded.cluster))
    ended = threading.Event()

    def outcomes(stopped: threading.Event) -> Iterator[Outcome]:
        yield Outcome("g01", "done")
        if stopped.wait(60):
            ended.set()

    def wrong(_stopped: threading.Event) -> Iterator[Outcome]:
        yield Outcome("g01", "done")
        raise ValueError("wrong")

    with announced(site, cast(Engines, LeaseHead(tmp_path)), ["g01"], print) as lease:
        found = beside(lease, outcomes)
        assert next(found).node == "g01"
        cast(Generator[Outcome], found).close()
        assert ended.wait(60)
        with pytest.raises(ValueError, match="wrong"):
            list(beside(lease, wrong))
