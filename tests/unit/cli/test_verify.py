"""The exit status of `hpcforge verify`: what was not tested is no success."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.cli import run
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.verify import exit_status
from hpcforge.plan.test_selection import DeferredTests, SmokeRun
from hpcforge.run.result import Reached, Run, Verified
from hpcforge.run.verify import Verification
from hpcforge.verify.jobs import StoppedError
from hpcforge.verify.verdicts import Status, Verdict

BLUEPRINT = """\
schema: 1
name: away
domain: away.example.org
inventory: machines.yaml
access: {user: ops}
nodes:
  head:     {functions: [head],   hardware: rehearsal-node}
  w[01-03]: {functions: [worker], hardware: rehearsal-node}
networks: {cluster: {cidr: 127.0.0.0/24}}
services: {dns: {on: head}, time: {on: head}, depot: {on: head}}
software: {os: {name: debian, release: "12"}}
slurm: {controller: head, enforce: [], partitions: {main: {nodes: "w[01-03]", default: true}}}
users: {tests: {uid: 2002}}
acceptance: {run_as: tests, tests: {node_health: {nodes: all}}}
"""
MACHINES = "schema: 1\nnodes: {head: {address: 127.0.0.2}, w01: {address: 127.0.0.3}, w02: {address: 127.0.0.4}, "
RUN = Run(1, "cafe", "ada@desk", "away", "0.2.0")


@pytest.mark.parametrize("limit", [[], ["--limit", "w[01-02]"], ["--limit", "w01", "--reserve"]], ids=str)
def test_a_head_that_cannot_be_reached_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], limit: list[str]
) -> None:
    """Its host key is not in the inventory, so it is not contacted."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "site.yaml").write_text(BLUEPRINT)
    (tmp_path / "machines.yaml").write_text(MACHINES + "w03: {address: 127.0.0.5}}\n")
    assert run(["verify", str(tmp_path / "site.yaml"), *limit]) == Exit.UNREACHABLE
    assert "not verified: head is unreachable" in capsys.readouterr().out


def test_an_interrupted_run_names_the_files_that_it_does_not_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> Verification:
        raise StoppedError

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("hpcforge.run.verify.verify_now", interrupted)
    (tmp_path / "site.yaml").write_text(BLUEPRINT)
    (tmp_path / "machines.yaml").write_text(MACHINES + "w03: {address: 127.0.0.5}}\n")
    page = tmp_path / "last.html"
    page.write_text("of yesterday")
    assert run(["verify", str(tmp_path / "site.yaml"), "--html", str(page)]) == Exit.INTERRUPTED
    assert f"interrupted: {page} is not written" in capsys.readouterr().err
    assert page.read_text() == "of yesterday"


def verified(*statuses: Status) -> Verified:
    run_ = SmokeRun(("copy",), ("w01",), ("w01",), "asked for")
    return Verified(tuple(Reached(run_, Verdict("copy", status, ("w01",))) for status in statuses))


@pytest.mark.parametrize(
    ("done", "code"),
    [
        (Verification(Verified(note="not verified: the blueprint has no acceptance section"), RUN, 0, 0), Exit.BELOW),
        (Verification(Verified(), RUN, 0, 0, busy={"w01": "ada's job 7"}), Exit.PENDING),
        (
            Verification(Verified(waiting=(DeferredTests(("copy",), ("w01",), {"w01": "job 7"}),)), RUN, 0, 0),
            Exit.PENDING,
        ),
        (Verification(verified("passed"), RUN, 0, 0), Exit.DONE),
        (Verification(verified("passed", "failed"), RUN, 0, 0), Exit.BELOW),
        (Verification(verified("passed"), RUN, 0, 0, not_drained={"w01": "slow"}), Exit.BELOW),
    ],
)
def test_only_what_was_tested_and_passed_is_a_success(done: Verification, code: Exit) -> None:
    assert exit_status(done, {}) == code
