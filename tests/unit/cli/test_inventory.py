"""`hpcforge inventory`, and what plain Ansible and pyinfra make of it; tests/stories/engines has real nodes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hpcforge.cli import run
from tests.support.shipped import ROOT

BIN = Path(sys.executable).parent
SITE = ROOT / "blueprints" / "dgx-h100-site.yaml"


def program(*words: object, cache: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    base = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(ROOT)}
    words_ = [str(word) for word in words]
    return subprocess.run(words_, env=base | environment, capture_output=True, text=True, check=False, timeout=120)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert run(["inventory", "--json", *words]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_json_has_machines_groups_and_the_way_in(capsys: pytest.CaptureFixture[str]) -> None:
    document = said(capsys, str(SITE))
    assert (document["schema_version"], document["name"], document["lab"]) == (1, "aurora", None)
    assert document["access"] == {"user": "ops", "become": "sudo", "key": None, "via": None}
    assert document["groups"]["function_head"] == ["head01"]
    machine = {machine["name"]: machine for machine in document["machines"]}["gpu017"]
    assert machine["address"] == "10.20.1.17"
    assert machine["bmc"] == {"address": "10.10.1.17", "mac": "02:00:0a:0a:01:11", "certificate": None, "user": None}
    assert machine["addresses"]["bmc"] == machine["bmc"]["address"]
    assert (machine["hardware"], machine["memory_mib"]) == ("dgx-h100", 1536 * 1024)
    assert machine["reason"].startswith("RMA 4711")


def test_without_a_blueprint_it_is_the_rehearsal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HPCFORGE_BLUEPRINT", raising=False)
    monkeypatch.setenv("HPCFORGE_LAB", f"test-none-{os.getpid()}")
    document = said(capsys)
    assert document["lab"] == {"kind": "nspawn", "name": None, "directory": None}  # asked for, and not up
    assert [machine["name"] for machine in document["machines"]] == ["head", "w01", "w02", "w03"]
    monkeypatch.setenv("HPCFORGE_BLUEPRINT", str(SITE))
    monkeypatch.delenv("HPCFORGE_LAB")
    assert said(capsys)["name"] == "aurora"


def test_people_read_a_table_of_what_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inventory", str(SITE)]) == 0
    lines = capsys.readouterr().out.splitlines()
    columns = ["machine", "address", "mac", "bmc", "bmc mac", "serial", "functions", "rack", "hardware"]
    assert lines[0].split() == " ".join(columns).split()
    assert lines[4].split()[:3] == ["stor01", "10.20.0.20", "02:00:0a:14:00:14"]


def test_ansible_sees_groups_and_machines(tmp_path: Path) -> None:
    script = ROOT / "inventory" / "for_ansible.py"
    done = program(BIN / "ansible-inventory", "-i", script, "--list", cache=tmp_path, HPCFORGE_BLUEPRINT=str(SITE))
    assert (done.returncode, done.stderr) == (0, "")
    listed = json.loads(done.stdout)
    assert listed["rack_g01"]["hosts"] == ["gpu001", "gpu002", "gpu003", "gpu004"]
    seen = listed["_meta"]["hostvars"]["gpu002"]
    assert seen["hpcforge_machine"]["serial"] == {"__ansible_unsafe": "AUR0006"}
    assert seen["hpcforge_cluster"] == {"__ansible_unsafe": "aurora"}  # as a site's own role is told


def test_pyinfra_sees_groups_and_machines(tmp_path: Path) -> None:
    entry = ROOT / "inventory" / "for_pyinfra.py"
    done = program(BIN / "pyinfra", entry, "debug-inventory", cache=tmp_path, HPCFORGE_BLUEPRINT=str(SITE))
    assert done.returncode == 0, done.stderr
    shown = done.stdout + done.stderr
    assert "rack_g01" in shown
    assert "AUR0006" in shown


def test_what_is_wrong_with_the_blueprint_is_said_by_both(tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text("schema: 2\n")
    environment = {"HPCFORGE_BLUEPRINT": str(tmp_path / "wrong.yaml")}
    for words in (
        (BIN / "ansible-inventory", "-i", ROOT / "inventory" / "for_ansible.py", "--list"),
        (BIN / "pyinfra", ROOT / "inventory" / "for_pyinfra.py", "debug-inventory"),
    ):
        done = program(*words, cache=tmp_path, **environment)
        assert "wrong.yaml:1:9: error: " in done.stdout + done.stderr
        assert "Traceback" not in done.stdout + done.stderr


def test_another_python_goes_on_in_the_one_that_has_hpcforge(tmp_path: Path) -> None:
    """Ansible starts the first python3 of the PATH, which need not be that of Ansible and hpcforge."""
    bare = {"PATH": "/usr/bin:/bin", "PYTHONPATH": ""}
    (tmp_path / "inventory").mkdir()
    script = Path(shutil.copy(ROOT / "inventory" / "for_ansible.py", tmp_path / "inventory"))
    done = program(script, "--list", cache=tmp_path, **bare)
    assert done.returncode == 1
    assert "hpcforge is not installed for this Python" in done.stderr
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "pyvenv.cfg").touch()
    python = tmp_path / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    done = program(script, "--list", cache=tmp_path, **bare, HPCFORGE_BLUEPRINT=str(SITE))
    assert done.returncode == 0, done.stderr
    assert "gpu032" in json.loads(done.stdout)["all"]["hosts"]
