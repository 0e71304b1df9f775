"""Applies of a cluster with Slurm are killed, at every event or at random moments: all must end equal.

Hours, so only on demand: `make test-kills`. What was killed and how it ended is printed, a line a kill.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.kills import Change, Due, Events, Trial, keep
from tests.support.site import REPOSITORY, Site

pytestmark = [pytest.mark.lab, pytest.mark.kills]

GROWTH = Path(__file__).parents[1] / "blueprints" / "growth.yaml"
FULL = REPOSITORY / "blueprints" / "full-lab.yaml"
_BASE = "base"  # the save of the applied cluster
_CONFIRM = "  confirm_wait: 15s"  # a guarded change that a kill left is taken back so soon, not after a minute


def _add(name: str, site: Site) -> None:
    assert site.cli("nodes", "add", "BLUEPRINT", name, "--yes").returncode == 0
    assert site.cli("rehearse", "up", "BLUEPRINT").returncode == 0


def _remove(name: str, site: Site) -> None:
    assert site.cli("nodes", "remove", "BLUEPRINT", name, "--yes").returncode == 0


def _replace(name: str, site: Site) -> None:
    assert site.cli("rehearse", "down", "BLUEPRINT", name, "--disks").returncode == 0
    assert site.cli("nodes", "replace", "BLUEPRINT", name, "--yes").returncode == 0
    assert site.cli("rehearse", "up", "BLUEPRINT").returncode == 0


def _edit(site: Site) -> None:
    """A limit of a partition, an account, and a time of the health check: on the head, on all nodes, on workers."""
    text = site.blueprint.read_text()
    for old, new in (
        ("04:00:00", "05:00:00"),
        ("interval_s: 60", "interval_s: 90"),
        ("{uid: 2002}", "{uid: 2002, admin: true}"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    site.blueprint.write_text(text)


_THREE = ("w01", "w02", "w03")
OF_GROWTH = [
    Change("growth", lambda site: _add("w04", site), _THREE, (*_THREE, "w04")),
    Change("replacement", lambda site: _replace("w03", site), _THREE[:2], _THREE),
    Change("removal", lambda site: _remove("w03", site), _THREE[:2], _THREE[:2]),
]
_ALL = ("g01", "w01", "w02")
OF_FULL = [
    Change("growth", lambda site: _add("w03", site), _ALL, (*_ALL, "w03")),
    Change("shrinking", lambda site: _remove("w02", site), ("g01", "w01"), ("g01", "w01")),
    Change("change", _edit, _ALL, _ALL),
]


@pytest.fixture(scope="module")
def applied(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A cluster of the blueprint that a test asks for, applied and saved."""
    folder = tmp_path_factory.mktemp("kills") / "site"
    (folder / "blueprints").mkdir(parents=True)
    site = Site(folder, f"test-kills-{os.getpid()}")
    shutil.copy(request.param, site.blueprint)
    text = site.blueprint.read_text()
    site.blueprint.write_text(text if _CONFIRM in text else f"{text}\nrollout:\n{_CONFIRM}\n")
    try:
        for words in (("rehearse", "up", "BLUEPRINT"), ("apply", "BLUEPRINT", "--yes")):
            done = site.cli(*words)
            assert done.returncode == 0, done.stderr
        keep(site, _BASE)
        yield site
    finally:
        site.cli("rehearse", "down")


def _told(trials: Sequence[Trial]) -> None:
    for trial in trials:
        killed = trial.equal + len(trial.failed)
        print(f"{trial.change.name}: {killed} killed, {trial.equal} ended equal, {len(trial.failed)} failed")
    assert sum(trial.equal for trial in trials) > 0
    assert not any(trial.failed for trial in trials), "\n\n".join(one for trial in trials for one in trial.failed)


@pytest.mark.parametrize("applied", [GROWTH], indirect=True)
@pytest.mark.parametrize("change", OF_GROWTH, ids=[change.name for change in OF_GROWTH])
def test_killed_after_every_event(applied: Site, change: Change, request: pytest.FixtureRequest) -> None:
    step = 1 if request.config.getoption("--every-boundary") else 10
    trial = Trial(applied, change)
    trial.begin(_BASE)
    number = 0
    while trial.go(f"after {number} events", _after(number)):
        number += step
    assert number >= len(trial.events) // 2, "most applies were over before they were killed"
    _told([trial])


def _after(number: int) -> Due:
    return lambda events: len(events) >= number


@pytest.mark.parametrize("applied", [FULL], indirect=True)
def test_killed_at_random_moments(applied: Site, request: pytest.FixtureRequest) -> None:
    chance = random.Random(request.config.getoption("--kills-seed"))
    trials = [Trial(applied, change) for change in OF_FULL]
    for trial in trials:
        trial.begin(_BASE)
    wanted = request.config.getoption("--random-kills")
    killed = 0
    while killed < wanted:
        trial = chance.choice(trials)
        after_s = chance.uniform(0, trial.wall_s)
        killed += trial.go(f"after {after_s:.1f} s", _in(after_s))
    _told(trials)


def _in(after_s: float) -> Due:
    begun: list[float] = []

    def due(_events: Events) -> bool:
        begun.append(time.monotonic())
        return begun[-1] - begun[0] >= after_s

    return due
