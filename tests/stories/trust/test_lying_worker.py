"""A worker whose root lies in smoke tests, beside two honest ones: `verify --reserve` drains no other node."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import liar
from tests.support.site import Site

pytestmark = pytest.mark.lab

STORIES = Path(__file__).parents[1]
STATES = "sinfo --noheader --Node --format='%N %T' | sort -u"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("lying_worker")
    shutil.copytree(STORIES / "verification" / "tests", folder / "blueprints" / "tests")
    text = (STORIES / "blueprints" / "in_use.yaml").read_text()
    for old, new in (("w[01-02]", "w[01-03]"), ("10.79.0.[11-12]", "10.79.0.[11-13]")):
        assert old in text
        text = text.replace(old, new)
    (folder / "blueprints" / "rehearsal.yaml").write_text(text)
    here = Site(folder, f"test-lying-{os.getpid()}")
    try:
        assert here.cli("rehearse", "up", "BLUEPRINT").returncode == 0
        assert here.cli("apply", "BLUEPRINT", "--yes", "--verify", "none").returncode == 0
        yield here
    finally:
        here.cli("rehearse", "down")


def test_a_worker_that_names_others_is_drained_alone(site: Site) -> None:
    site.ssh("w03", f"printf %s {shlex.quote(liar.EVENTS)} | sudo tee {liar.PROGRAM} > /dev/null")
    done = site.cli("verify", "BLUEPRINT", "--reserve", "--json")
    assert done.returncode == 7, done.stderr
    report = json.loads(done.stdout)
    (verdict,) = report["verdicts"]
    assert (verdict["status"], verdict["node"]) == ("failed", "w03")
    assert [*report["drained"]] == ["w03"]
    site.becomes("head", STATES, "w01 idle\nw02 idle\nw03 drained\n")


def test_the_others_pass_without_it(site: Site) -> None:
    assert site.cli("verify", "BLUEPRINT", "--reserve").returncode == 0
    site.becomes("head", STATES, "w01 idle\nw02 idle\nw03 drained\n")


ESCAPES = r"""-e 's/"kernel": *"/&\\u001b[2J/g'"""
FILES = "sudo sha256sum /var/lib/hpcforge/receipt.json /etc/slurm/*.conf"


@pytest.mark.parametrize(("expression", "said"), [(ESCAPES, "sent an invalid response"), ("", "memory 0.0 GiB")])
def test_a_worker_that_says_it_is_another_changes_no_other(site: Site, expression: str, said: str) -> None:
    """Its facts and answers, through `status`, `plan` and `apply`: what it claims is its own, or it is left out."""
    lies = shlex.quote(liar.ANSWERS.replace("EXPRESSION", expression))
    site.ssh("w03", f"printf %s {lies} > /tmp/answers; sudo install /tmp/answers /usr/local/sbin/lying")
    before = [site.ssh(node, FILES) for node in ("w01", "w02")]
    site.ssh("w03", "sudo ln -sfn /usr/local/sbin/lying /usr/bin/python3")
    try:
        found = json.loads(site.cli("status", "BLUEPRINT", "--json").stdout)["nodes"]
        assert sorted(found) == ["head", "w01", "w02", "w03"]
        assert not any(found[name]["troubles"] or found[name]["unreachable"] for name in ("w01", "w02"))
        applied = site.cli("apply", "BLUEPRINT", "--yes", "--verify", "none")
        output = applied.stdout + applied.stderr
        assert applied.returncode in (4, 5, 7), output
        assert said in output
        assert "\x1b[2J" not in output
        site.becomes("head", STATES, "w01 idle\nw02 idle\nw03 drained\n")
        assert [site.ssh(node, FILES) for node in ("w01", "w02")] == before
    finally:
        site.ssh("w03", "sudo ln -sfn python3.11 /usr/bin/python3")
