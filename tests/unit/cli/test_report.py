"""`hpcforge report acceptance` through the real command line, where no node answers: that, too, is a report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcforge.cli import run

SITE = """\
schema: 1
name: away
domain: away.example.org
inventory: inventory.yaml
access: {user: ops}
nodes:
  head: {functions: [head], hardware: generic-1u}
  w[1-2]: {functions: [worker], hardware: rehearsal-node}
networks: {mgmt: {cidr: 127.77.3.0/24}}
services: {dns: {on: head}, time: {on: head}, depot: {on: head}}
software: {os: {name: debian, release: "12"}}
slurm: {controller: head, reserve: {cores: 1, memory_gib: 1}, partitions: {main: {nodes: all, default: true}}}
users: {ada: {uid: 2001}}
acceptance: {run_as: ada, tests: {memory_copy: {nodes: all}}}
overrides: {w2: {memory_gib: 2, reason: one DIMM out}}
"""
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 42 + "A"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    nodes = "".join(
        f'  {name}: {{address: 127.77.3.{place}, host_keys: ["{KEY}"]}}\n'
        for place, name in enumerate(("head", "w1", "w2"), 1)
    )
    (tmp_path / "inventory.yaml").write_text(f"schema: 1\nnodes:\n{nodes}")
    blueprint = tmp_path / "site.yaml"
    blueprint.write_text(SITE)
    return blueprint


def test_a_report_is_written_of_nodes_that_do_not_answer(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = site.with_name("acceptance.html")
    assert run(["report", "acceptance", str(site), "--html", str(page), "--json"]) == 4
    document = json.loads(capsys.readouterr().out)
    assert document["schema_version"] == 1
    assert document["judgement"] == "not accepted"
    assert [node["observed"] for node in document["nodes"]] == [None] * 3
    kinds = [found["kind"] for found in document["exceptions"]]
    assert [len(found["nodes"]) for found in document["exceptions"] if found["kind"] == "not compared"] == [3]
    assert {"test not passed", "override"} <= set(kinds)
    assert "one DIMM out" in page.read_text()
    assert document["sentence"] == "Not accepted: test not passed (1), not compared (3)"


@pytest.mark.parametrize(
    ("command", "code"), [("report acceptance", 4), ("status", 4), ("design", 0)], ids=["report", "status", "design"]
)
def test_pages_are_replaced_as_a_whole(site: Path, command: str, code: int) -> None:
    page, before = site.with_name("page.html"), site.with_name("before.html")
    page.write_text("old")
    before.hardlink_to(page)
    assert run([*command.split(), str(site), "--html", str(page)]) == code
    assert page.read_text().rstrip().endswith("</html>")
    assert before.read_text() == "old"
    away = site.parent / "none" / "page.html"
    assert run([*command.split(), str(site), "--html", str(away)]) == 1
    assert not away.parent.exists()
