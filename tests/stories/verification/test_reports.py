"""A cluster in use is verified: what is written about it, a node with a job, and a drained node's return."""

from __future__ import annotations

import json
import os
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.site import Site

pytestmark = pytest.mark.lab

HERE = Path(__file__).parent
STATE = "sinfo --noheader --Node --nodes=w02 --format='%T|%E'"
HELD = "scontrol show reservation; systemctl list-timers --all | grep hpcforge-gate || true"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("verification")
    shutil.copytree(HERE / "tests", folder / "blueprints" / "tests")
    shutil.copy(HERE.parent / "blueprints" / "in_use.yaml", folder / "blueprints" / "rehearsal.yaml")
    here = Site(folder, f"test-verification-{os.getpid()}")
    try:
        assert here.cli("rehearse", "up", "BLUEPRINT").returncode == 0
        assert here.cli("apply", "BLUEPRINT", "--yes", "--verify", "none").returncode == 0
        yield here
    finally:
        here.cli("rehearse", "down")


def verified(site: Site, *options: str, code: int = 0) -> dict[str, Any]:
    done = site.cli("verify", "BLUEPRINT", "--json", *options)
    assert done.returncode == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_results_are_written_and_kept(site: Site) -> None:
    page, cases = site.folder / "page.html", site.folder / "cases.xml"
    found = verified(site, "--html", str(page), "--junit", str(cases), "--baseline", "save", "quiet")
    assert [(verdict["test"], verdict["status"]) for verdict in found["verdicts"]] == [("steady", "passed")]
    assert found["source"]["blueprint_sha256"] in page.read_text()
    (suite,) = ET.parse(cases).getroot()
    assert [case.get("name") for case in suite] == ["w01", "w02"]
    assert suite.get("failures") == suite.get("errors") == suite.get("skipped") == "0"


def test_a_slower_node_misses_the_baseline(site: Site) -> None:
    site.ssh("w02", "echo 7 > /tmp/steady-rate")
    done = site.cli("verify", "BLUEPRINT", "--baseline", "compare", "quiet")
    site.ssh("w02", "rm /tmp/steady-rate")
    assert done.returncode == 7
    assert "rate_gb_per_s of w02 is 7, and must be at least 9.5, 0.95 of baseline quiet" in done.stdout
    assert "other software" not in done.stderr
    assert site.cli("verify", "BLUEPRINT", "--baseline", "compare", "quiet").returncode == 0
    assert site.cli("verify", "BLUEPRINT", "--baseline", "compare", "none").returncode == 3


def test_a_node_with_a_job_is_left_alone(site: Site) -> None:
    begin = (
        "cd / && sudo -u tests sbatch --parsable --nodelist=w02 --job-name=mine --output=/dev/null --wrap='sleep 600' "
        '&& until [ "$(squeue --noheader --format=%T)" = RUNNING ]; do sleep 0.2; done'
    )
    job = site.ssh("head", begin).split()[0]
    found = verified(site, "--reserve")
    assert found["left_out"] == {"w02": f"in use: job {job}, tests's mine"}
    assert [verdict["nodes"] for verdict in found["verdicts"]] == [["w01"]]
    assert site.ssh("head", "squeue --noheader --format='%i %T'") == f"{job} RUNNING\n"
    assert site.ssh("head", HELD) == "No reservations in the system\n"
    site.ssh("head", f'sudo scancel {job}; while [ -n "$(squeue --noheader)" ]; do sleep 0.2; done')


def test_a_drained_node_returns_only_if_it_passes(site: Site) -> None:
    program = "/opt/hpcforge/smoke_tests/steady.py"
    site.ssh("head", "sudo scontrol update NodeName=w02 State=DRAIN Reason='fan replaced'")
    site.ssh("w02", f"sudo mv {program} {program}.away")
    assert "w02" in verified(site, "--gate", "w02", code=7)["drained"]
    assert site.ssh("head", STATE).startswith("drained|smoke test steady failed: ")
    site.ssh("w02", f"sudo mv {program}.away {program}")
    assert verified(site, "--gate", "w02")["resumed"] == ["w02"]
    assert site.ssh("head", STATE) == "idle|none\n"
    assert site.ssh("head", HELD) == "No reservations in the system\n"
    assert site.cli("verify", "BLUEPRINT", "--gate", "w02").returncode == 1  # it is in service
