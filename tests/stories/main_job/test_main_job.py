"""The main job on real nodes, as small as it can be: `make test` runs it each time.

Two workers and a head come up, become a cluster that has proved it can train, are repaired, and get a third worker
though hpcforge is killed meanwhile. Each test goes on where the one before it ended.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kills import Events, kill
from tests.support.site import Site

pytestmark = pytest.mark.lab

BLUEPRINT = Path(__file__).parents[1] / "blueprints" / "main_job.yaml"
STARTS = """
for unit in slurmctld slurmd munge chrony dnsmasq lighttpd hpcforge-fakegpu; do
  echo "$unit $(systemctl show -P ExecMainStartTimestampMonotonic $unit)"
done
"""
PROGRAM = "/opt/hpcforge/smoke_tests/ranks.py"
CHRONY = "/etc/chrony/chrony.conf"
PYTHON = "/etc/python3.11/sitecustomize.py"  # what each Python of a node begins with
ADDS_ONE = 'import os\nif "RANK" in os.environ:\n    import ranks\n    ranks.NO_FAULT = ranks.Fault("wrong", 1)'


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("main-job")
    (folder / "blueprints").mkdir()
    shutil.copy(BLUEPRINT, folder / "blueprints" / "rehearsal.yaml")
    here = Site(folder, f"test-mainjob-{os.getpid()}")
    try:
        yield here
    finally:
        here.cli("rehearse", "down")


def starts(site: Site, *nodes: str) -> dict[str, str]:
    """When each service of these nodes was started."""
    return {node: site.ssh(node, STARTS) for node in nodes}


def test_nodes_come_up(site: Site) -> None:
    done = site.cli("rehearse", "up", "BLUEPRINT")
    assert done.returncode == 0
    assert done.stdout.count("  running\n") == 3


def test_an_apply_makes_a_cluster_that_trains(site: Site) -> None:
    done = site.cli("apply", "BLUEPRINT", "--yes")
    assert done.returncode == 0
    assert "head,w[01-02]  configured\n" in done.stdout
    assert "allreduce  passed  2 ranks on w[01-02]  " in done.stdout
    assert "train_ddp  passed  2 ranks on w[01-02]  " in done.stdout
    assert sorted(site.ssh("head", "sudo -iu ada srun -N2 --gres=gpu:1 hostname").split()) == ["w01", "w02"]


def test_a_second_apply_changes_nothing(site: Site) -> None:
    site.becomes("head", "squeue -h", "")
    before = starts(site, "head", "w01", "w02")
    done = site.cli("apply", "BLUEPRINT", "--yes")
    assert done.returncode == 0
    assert "Nothing to do on 3 nodes." in done.stderr
    assert "(nothing changed since):\nallreduce  passed  2 ranks" in done.stdout
    assert starts(site, "head", "w01", "w02") == before


def test_verify_names_the_node_that_computes_wrongly_and_its_number(site: Site) -> None:
    """The node's Python has rank 1 add one to its sums: a program that somebody changed would not be run at all.

    Then somebody changes that, too, and another file by hand.
    """
    site.ssh("w02", f"sudo cp -p {PYTHON} {PYTHON}.right; echo {shlex.quote(ADDS_ONE)} | sudo tee -a {PYTHON}")
    done = site.cli("verify", "BLUEPRINT", "--test", "allreduce", "--json")
    assert done.returncode == 7
    [verdict] = json.loads(done.stdout)["verdicts"]
    assert (verdict["status"], verdict["rank"], verdict["node"]) == ("wrong", 1, "w02")
    assert verdict["detail"] == "element 17 of the sum over 4 KiB: expected 497.0, got 498.0"
    events = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    counted = [(event["done"], event["longest"]) for event in events if event["event"] == "progress"]
    assert counted == [(0, None), (0, "allreduce on w[01-02]"), (1, None), (1, None)]
    assert (events[-1]["event"], events[-1]["exit"]) == ("result", 7)
    site.ssh("w02", f"sudo mv {PYTHON}.right {PYTHON}; echo '# by hand' | sudo tee -a {PROGRAM} {CHRONY}")


def test_drift_is_shown_and_repaired_there_alone(site: Site) -> None:
    before = starts(site, "head", "w01", "w02")
    planned = site.cli("plan", "BLUEPRINT")
    assert planned.returncode == 2
    assert "      -# by hand\n" in planned.stdout
    assert f"file {PROGRAM}" in planned.stdout
    done = site.cli("apply", "BLUEPRINT", "--yes")
    assert done.returncode == 0
    assert "1 node to change: w02; unchanged: head,w01" in done.stderr
    assert "allreduce  passed  2 ranks on w[01-02]  " in done.stdout
    assert site.ssh("w02", f"grep -c 'by hand' {CHRONY} || :") == "0\n"
    after = starts(site, "head", "w01", "w02")
    assert [node for node in after if after[node] != before[node]] == ["w02"]
    [changed] = set(after["w02"].splitlines()) - set(before["w02"].splitlines())
    assert changed.startswith("chrony ")


def _w03_is_at_work(events: Events) -> bool:
    return any(event["event"] == "changed" and event.get("node") == "w03" for event in events)


def test_a_node_is_added_though_the_apply_is_killed(site: Site) -> None:
    before = starts(site, "head", "w01", "w02")
    assert site.cli("nodes", "add", "BLUEPRINT", "w03", "--yes").returncode == 0
    assert site.cli("rehearse", "up", "BLUEPRINT").returncode == 0
    assert kill(site, _w03_is_at_work), "the apply ended before it could be killed"
    done = site.cli("apply", "BLUEPRINT", "--yes")
    assert done.returncode == 0
    assert "w03 changed, tested with w01; not tested now: w02" in done.stdout
    assert "allreduce  passed  2 ranks on w[01,03]  " in done.stdout
    site.becomes("head", "sinfo -h -N -o '%N %T' | sort -u", "w01 idle\nw02 idle\nw03 idle\n")
    after = starts(site, "w01", "w02")
    assert after == {node: before[node] for node in after}
    assert site.cli("plan", "BLUEPRINT").returncode == 0


def test_down_leaves_nothing(site: Site) -> None:
    assert site.cli("rehearse", "down").returncode == 0
    assert site.lab not in Path("/proc/self/mounts").read_text()
    assert not (Path("/var/lib/hpcforge/labs") / site.lab).exists()
    assert site.cli("rehearse", "status").returncode == 1
