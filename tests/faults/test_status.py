"""What the head remembers of runs: read back by `status`, damaged, lost, of a newer hpcforge, of another commit."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.faults.conftest import Site

pytestmark = pytest.mark.lab

KEPT = "/var/lib/hpcforge"


def status(site: Site, code: int = 0) -> dict:
    done = site.run("status", "--history", "--last", "200", "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_who_did_what_and_when(site: Site) -> None:
    site.apply()
    line = site.revise("client", "client.conf.j2")
    site.apply()
    assert line
    found = status(site)
    last = found["last_run"]
    assert (last["exit"], last["verb"], last["number"]) == (0, "apply", found["nodes"]["n02"]["changed_by_run"])
    assert "@" in last["who"]
    numbers = [run["number"] for run in found["history"]["runs"] if run["number"]]  # one killed early has none
    assert numbers == sorted(numbers)
    assert (found["at_work"], found["leaving"], found["notes"]) == (None, {}, [])
    table = site.run("status", "--history")
    assert table.returncode == 0
    assert f"{last['number']} " in table.stdout.splitlines()[-1]
    assert "changed n[01-02]" in table.stdout.splitlines()[-1]
    site.apply()  # nothing to do
    assert status(site)["last_run"] == last


def test_a_run_that_was_killed_is_in_the_history(site: Site) -> None:
    site.apply()
    site.revise("ground", "ground.conf.j2")
    site.revise("client", "client.conf.j2")
    run = site.start()
    run.until("settled", node="n02", role="ground")  # the head knows its number by then, and client is yet to come
    run.send(signal.SIGKILL)
    run.end()
    found = status(site)
    assert found["at_work"] is None
    assert any("that process has ended on this machine" in note for note in found["notes"])
    site.revise("client", "client.conf.j2")
    site.apply()
    dead, after = status(site)["history"]["runs"][-2:]
    assert (dead["cut_off"], after["cut_off"], after["exit"]) == (True, False, 0)
    assert dead["number"] is not None
    assert dead["number"] < after["number"]


def test_what_a_killed_run_did_not_write_down_the_next_one_does(site: Site) -> None:
    site.apply()
    site.inside("n01", f"rm -f {KEPT}/roster.json")  # as if the first apply of all had been killed at its end
    site.apply()
    roster = json.loads(site.inside("n01", f"cat {KEPT}/roster.json"))
    assert list(roster["nodes"]) == ["n01", "n02"]
    runs = len(status(site)["history"]["runs"])
    site.apply()
    assert len(status(site)["history"]["runs"]) == runs  # nothing was done, and all was written down


def test_damage_is_said_and_costs_no_correctness(site: Site) -> None:
    site.apply()
    before = len(status(site)["history"]["runs"])
    site.inside("n01", f"printf '\\377{{half a li' >> {KEPT}/history.jsonl; truncate -s 50 {KEPT}/roster.json")
    found = status(site)
    assert any("history that cannot be read: 1" in note for note in found["notes"])
    assert any("roster cannot be used: damaged" in note for note in found["notes"])
    line = site.revise("ground", "ground.conf.j2")
    done = site.apply()
    assert "the node list on n01 cannot be used: damaged" in done.stderr
    assert "this host's copy is used" in done.stderr
    assert line in site.inside("n02", "cat /etc/faults/ground.conf")
    found = status(site)
    assert not any("roster" in note for note in found["notes"])
    assert len(found["history"]["runs"]) == before + 1
    assert "1 line" in site.run("status", "--history").stdout
    site.inside("n01", f"sed -i '/half a li/d' {KEPT}/history.jsonl")


def test_all_of_it_lost_costs_no_correctness(site: Site) -> None:
    site.apply()
    site.inside("n01", f"rm -f {KEPT}/history.jsonl {KEPT}/roster.json {KEPT}/lease.json")
    shutil.rmtree(site.folder / "state")
    assert site.run("plan").returncode == 0
    line = site.revise("ground", "ground.conf.j2")
    site.apply()
    assert line in site.inside("n02", "cat /etc/faults/ground.conf")
    assert len(status(site)["history"]["runs"]) == 1


def test_without_the_head_this_host_s_copy_is_shown(site: Site) -> None:
    site.apply()
    site.revise("ground", "ground.conf.j2")
    site.apply()
    last = status(site)["last_run"]
    site.link("n01", "down")
    try:
        found = status(site, code=4)
    finally:
        site.link("n01", "up")
    assert found["last_run"] == last
    assert found["nodes"]["n01"]["unreachable"]
    assert found["nodes"]["n02"]["unreachable"] is None
    assert any("as this host last saw them" in note for note in found["notes"])


def test_an_older_hpcforge_is_refused(site: Site) -> None:
    site.apply()
    kept = site.inside("n01", f"cat {KEPT}/roster.json")
    newer = json.loads(kept)
    newer["run"]["hpcforge"] = "99.1"
    rest = {key: value for key, value in newer.items() if key != "checksum"}
    newer["checksum"] = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
    site.inside("n01", f"cat > {KEPT}/roster.json <<'END'\n{json.dumps(newer)}\nEND")
    line = site.revise("ground", "ground.conf.j2")
    try:
        done = site.apply(code=1)
        assert "99.1" in done.stderr
        assert "install that version or a newer one" in done.stderr
        assert line not in site.inside("n02", "cat /etc/faults/ground.conf")
    finally:
        site.inside("n01", f"cat > {KEPT}/roster.json <<'END'\n{kept}END")
    site.apply()


@pytest.fixture
def repository(site: Site) -> Iterator[list[str]]:
    """The blueprint's folder as a git repository; the beginning of a git command line."""
    git = ["git", "-C", str(site.folder), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    yield git
    shutil.rmtree(site.folder / ".git")


def test_a_blueprint_that_does_not_descend_from_the_last_is_warned_about(site: Site, repository: list[str]) -> None:
    def commit(text: str) -> str:
        subprocess.run([*repository, "add", "site.yaml"], check=True)
        subprocess.run([*repository, "commit", "-q", "--allow-empty", "-m", text], check=True)
        return subprocess.run([*repository, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout[
            :12
        ]

    first = commit("first")
    site.revise("ground", "ground.conf.j2")
    assert "warning" not in site.apply().stderr
    assert status(site)["last_run"]["commit"].startswith(first)
    commit("second")
    assert "warning" not in site.run("plan").stderr
    subprocess.run([*repository, "checkout", "-q", "--orphan", "elsewhere"], check=True)
    other = commit("without the first")
    said = site.run("plan").stderr
    assert f"of commit {first}, which this blueprint's commit {other} does not contain" in said
