"""hpcforge is killed or interrupted, or a node loses its power: the next apply ends where an undisturbed one does."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from hpcforge.lab.nspawn import disks
from tests.stories.faults.conftest import Running, Site

pytestmark = pytest.mark.lab

_BOUNDARIES = ("changed", "settled", "failed", "phase")
_ENOUGH = 200  # boundaries; the loop ends by itself long before


@pytest.fixture(scope="module")
def wanted(lab_site: Site) -> dict[str, str]:
    """The nodes after a first apply that nothing disturbed."""
    lab_site.restore()
    lab_site.fresh()
    lab_site.apply()
    return lab_site.state()


def boundary(run: Running, number: int) -> bool:
    """Read on to the end of the event of this number; False if there were fewer."""
    seen = 0
    while seen < number:
        event = run.next()
        if event is None:
            return False
        seen += event["event"] in _BOUNDARIES
    return True


def test_killed_at_events_of_a_first_apply(site: Site, wanted: dict[str, str], request: pytest.FixtureRequest) -> None:
    step = 1 if request.config.getoption("--every-boundary") else 4  # every one takes a quarter of an hour
    number = 0
    while number < _ENOUGH:
        site.fresh()
        run = site.start()
        cut_off = boundary(run, number)
        run.send(signal.SIGKILL)
        run.end()
        site.apply()
        assert site.state() == wanted, f"killed after event {number}: {run.events[-1:]}"
        if not cut_off:
            break
        number += step
    assert number > 20, "an apply of this site has more events than this: was anything killed?"


def test_nothing_is_left_to_do_after_one_that_was_killed(site: Site, wanted: dict[str, str]) -> None:
    done = site.run("plan")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("presses", [1, 2])
def test_interrupted(site: Site, wanted: dict[str, str], presses: int) -> None:
    site.fresh()
    role = site.roles / "ground" / "role.yaml"
    text = role.read_text()
    slowly = text.replace("ground.conf,", 'ground.conf, verify: [sh, -c, "sleep 10", "{file}"],')
    assert slowly != text
    role.write_text(slowly)  # or all would be over before the second press, now and then
    run = site.start()
    run.until("changed", node="n02", kind="account")
    os.killpg(run.process.pid, signal.SIGINT)  # as a terminal does: to the whole group
    end = time.monotonic() + 60
    while "stopping after the running steps" not in run.said():  # a second press before would be one with the first
        assert time.monotonic() < end, run.said()
        time.sleep(0.05)
    if presses == 2:
        os.killpg(run.process.pid, signal.SIGINT)
    assert run.end() == 130
    settled = [event for event in run.events if event["event"] == "settled"]
    assert any(event["event"] == "result" for event in run.events) == (presses == 1)  # the second waits for nothing
    if presses == 1:
        assert {event["status"] for event in settled} <= {"done", "interrupted", "skipped"}
    role.write_text(text)
    site.apply()
    assert site.state() == wanted


def test_terminated_it_stops_in_good_order(site: Site, wanted: dict[str, str]) -> None:
    """As by Ctrl-C: what is at work is finished and written down, and no lease is left behind."""
    site.fresh()
    run = site.start()
    run.until("changed", node="n02", kind="account")
    run.send(signal.SIGTERM)
    assert run.end() == 130
    assert "terminated: stopping after the running steps" in run.said()
    assert run.events[-1]["event"] == "result"
    assert site.inside("n01", "cat /var/lib/hpcforge/lease.json 2>/dev/null || true") == ""
    site.apply()
    assert site.state() == wanted


def test_power_is_lost_in_the_midst_of_files(site: Site, wanted: dict[str, str]) -> None:
    site.fresh()
    run = site.start()
    run.until("changed", node="n02", kind="file")
    site.power_off("n02")
    site.power_on("n02")
    assert run.end() in (0, 4, 5)  # back in time and done, or found again with its work gone, or lost
    assert "n02" in run.said()
    site.apply()
    assert site.state() == wanted


def test_power_is_lost_within_dpkg(site: Site, wanted: dict[str, str]) -> None:
    site.fresh()
    updates = site.lab.node_directory("n02") / "root/var/lib/dpkg/updates"
    init = site.pid("n02")
    run = site.start()
    _wait_for_dpkg(updates)
    os.kill(init, signal.SIGKILL)  # at once: to look for it now may take longer than dpkg does
    site.power_off("n02")
    assert any(updates_of(site)), "dpkg was not in the midst of anything"
    site.power_on("n02")
    assert run.end() in (0, 4, 5)
    site.apply()
    assert site.state() == wanted


def updates_of(site: Site) -> list[Path]:
    return list((disks.written(site.lab, site.lab.node("n02")) / "var/lib/dpkg/updates").glob("[0-9]*"))


def _wait_for_dpkg(updates: Path) -> None:
    end = time.monotonic() + 60
    while not list(updates.glob("[0-9]*")):
        assert time.monotonic() < end, "dpkg never began"
        time.sleep(0.002)
