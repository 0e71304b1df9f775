"""Nine planted faults on the full lab: each raises its alert in time and no other, and quiet raises none."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from hpcforge.lab import lab as labs
from hpcforge.lab.kinds import kind_of
from tests.support.site import BECOMES_S, REPOSITORY, Site
from tests.support.watched import ROLES, asked, receive, told, told_at, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.monitoring]

HERE = Path(__file__).parent
QUIET_S = 600  # what is tested is that nothing happens meanwhile
NODES = ("head", "login", "storage", "w01", "w02", "g01")


@dataclass(frozen=True)
class Fault:
    """A row of faults.yaml."""

    fault: str
    node: str
    alert: str
    within_s: float
    plant: str = ""
    repair: str = ""
    before: str = ":"
    of: str = ""
    power: bool = False

    @property
    def firing(self) -> str:
        return f"firing {self.alert} {self.of or self.node}"

    @property
    def resolved(self) -> str:
        return self.firing.replace("firing", "resolved")


FAULTS = [Fault(**row) for row in yaml.safe_load((HERE / "faults.yaml").read_text())]
SLOW = max(FAULTS, key=lambda fault: fault.within_s)  # planted before all others, since each of them ends sooner
OTHERS = [fault for fault in FAULTS if fault is not SLOW]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("nine")
    (folder / "blueprints").mkdir()
    shutil.copytree(HERE / "roles", folder / "roles")
    full = (REPOSITORY / "blueprints" / "full-lab.yaml").read_text()
    full = full.replace("services:\n", "services:\n  metrics: {on: head}\n")
    # A scrape may take as long as the time between two: one that fails has what is pending begin again.
    roles = ROLES.replace("scrape_s: 3", "scrape_s: 10")
    full = full.replace("roles:\n", f"role_folders: [../roles]\nroles:{roles}")
    here = Site(folder, f"test-nine-{os.getpid()}")
    here.blueprint.write_text(full)
    try:
        assert here.cli("rehearse", "up", "BLUEPRINT").returncode == 0
        assert here.cli("apply", "BLUEPRINT", "--yes").returncode == 0
        receive(here)
        for fault in FAULTS:
            here.ssh(fault.node, fault.before)
        yield here
    finally:
        here.cli("rehearse", "down")


@pytest.fixture(scope="module")
def slow(site: Site) -> float:
    """When the slow fault was planted, seconds since 1970."""
    return plant(site, SLOW)


def plant(site: Site, fault: Fault) -> float:
    """Plant it. Returns when, seconds since 1970."""
    began_s = time.time()
    if fault.power:
        lab = labs.load(site.lab)
        assert lab is not None
        kind_of(lab).stop(lab, lab.node(fault.node), graceful=False)
    else:
        site.ssh(fault.node, fault.plant)
    return began_s


def repair(site: Site, fault: Fault) -> float:
    """Repair it. Returns when that began, seconds since 1970."""
    began_s = time.time()
    if fault.power:
        lab = labs.load(site.lab)
        assert lab is not None
        kind_of(lab).start(lab, lab.node(fault.node))
    else:
        site.ssh(fault.node, fault.repair)
    return began_s


def becomes_told(site: Site, what: str, until_s: float) -> float:
    """Wait until the receiver is told of it. Returns when it was, seconds since 1970."""
    while what not in (found := told_at(site)):
        assert time.time() < until_s, found
        time.sleep(1)
    return found[what]


def wait_until_quiet(site: Site) -> None:
    """Whatever the last apply began is over: only then nothing is held back any more."""
    wait_for(site, 'up{job="node"}', dict.fromkeys(NODES, 1.0))
    wait_for(site, 'ALERTS{alertstate=~"firing|pending"}', {})


def test_quiet_raises_none(site: Site) -> None:
    wait_until_quiet(site)
    before = told(site)
    time.sleep(QUIET_S)
    assert told(site) == before
    assert asked(site, 'ALERTS{alertstate="firing"}') == []


@pytest.mark.parametrize("fault", OTHERS, ids=lambda fault: fault.fault.replace(" ", "-"))
def test_a_fault_raises_its_alert_in_time_and_no_other(site: Site, slow: float, fault: Fault) -> None:
    before = told(site)
    began_s = plant(site, fault)
    try:
        fired_s = becomes_told(site, fault.firing, began_s + BECOMES_S) - began_s
    finally:
        repaired_s = repair(site, fault)
    resolved_s = becomes_told(site, fault.resolved, repaired_s + BECOMES_S) - repaired_s
    print(f"| {fault.fault} | `{fault.alert}` | {fault.within_s:.0f} | {fired_s:.0f} | {resolved_s:.0f} |")
    wait_for(site, f'ALERTS{{alertname!="{SLOW.alert}"}}', {})  # of what follows, too
    assert told(site) - before - {SLOW.firing} == {fault.firing, fault.resolved}
    assert fired_s <= fault.within_s


def test_the_slow_fault_raises_its_alert_in_time(site: Site, slow: float) -> None:
    fired_s = becomes_told(site, SLOW.firing, slow + SLOW.within_s + BECOMES_S) - slow
    repaired_s = repair(site, SLOW)
    resolved_s = becomes_told(site, SLOW.resolved, repaired_s + BECOMES_S) - repaired_s
    print(f"| {SLOW.fault} | `{SLOW.alert}` | {SLOW.within_s:.0f} | {fired_s:.0f} | {resolved_s:.0f} |")
    assert fired_s <= SLOW.within_s


def test_metrics_leave_with_the_role_of_their_program(site: Site) -> None:
    wait_for(site, "hpcforge_collector_success{collector='power'}", {"w01": 1.0})
    text = site.blueprint.read_text()
    site.blueprint.write_text(text.replace("role_folders: [../roles]\n", ""))
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0
    wait_for(site, "{collector='power'}", {})
