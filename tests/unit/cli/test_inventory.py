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
from hpcforge.engines.inventories import ansible_file
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


def test_without_a_blueprint_it_is_that_of_the_folder_or_the_rehearsal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HPCFORGE_BLUEPRINT", "HPCFORGE_LAB"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    shipped = ROOT / "blueprints" / "rehearsal.yaml"
    assert run(["inventory", "--json"]) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["lab"]["kind"] == "nspawn"
    assert [machine["name"] for machine in document["machines"]] == ["head", "w01", "w02", "w03"]
    assert f"the shipped rehearsal, {shipped}: this folder has no blueprint" in captured.err
    site = SITE.read_text().replace("name: aurora", "name: boreas")
    (tmp_path / "mine.yaml").write_text(site.replace("../inventory/", f"{ROOT}/inventory/"))
    assert run(["inventory", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["name"] == "boreas"
    assert "mine.yaml, the only blueprint of this folder" in captured.err
    (tmp_path / "other.yml").write_text("name: other\n")
    assert run(["inventory", "--json"]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "this folder has 2 blueprints: mine.yaml, other.yml" in captured.err
    assert "inventory mine.yaml, or set HPCFORGE_BLUEPRINT" in captured.err
    monkeypatch.setenv("HPCFORGE_BLUEPRINT", str(SITE))
    assert said(capsys)["name"] == "aurora"


@pytest.mark.parametrize("blueprint", ["rehearsal.yaml", "dgx-h100-site.yaml"])
def test_a_rehearsal_that_does_not_exist_is_an_error(
    blueprint: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"none-{os.getpid()}"
    path = str(ROOT / "blueprints" / blueprint)
    monkeypatch.delenv("HPCFORGE_LAB", raising=False)
    assert run(["inventory", path, "--lab", name]) == run(["status", path, "--lab", name]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count(f"error: the rehearsal '{name}' is not up\nhint: start it: ") == 2
    monkeypatch.setenv("HPCFORGE_LAB", name)
    assert run(["inventory", path, "--json"]) == 3


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


def printed(capsys: pytest.CaptureFixture[str], site: Path, kind: str) -> str:
    assert run(["inventory", str(site), kind]) == 0
    return capsys.readouterr().out


@pytest.fixture
def bastion(tmp_path: Path) -> Path:
    """A site behind a machine of its own, with a key in a folder whose name has a blank."""
    inventory = tmp_path / "machines.yaml"
    (tmp_path / "my keys").mkdir()
    (tmp_path / "my keys" / "id").touch(mode=0o600)
    keys = f"[{json.dumps(KEY)}]"
    inventory.write_text(
        f"""schema: 1
access:
  key: "my keys/id"
  via: {{host: gate.example.org, user: gatekeeper, host_keys: {keys}}}
nodes:
  head: {{address: 10.77.0.10, host_keys: {keys}}}
"""
    )
    text = (ROOT / "blueprints" / "rehearsal.yaml").read_text()
    text = text.replace("inventory: {lab: nspawn}", "inventory: machines.yaml")
    text = text.replace("  site_roles: [{path: site_roles/motd, on: head}]\n", "")
    (tmp_path / "site.yaml").write_text(text)
    return tmp_path / "site.yaml"


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ+KhUYOURCG8TxJDVvUPxNrUHSDVrWpPRbyOLR0hVKD"


def ssh_settings(config: Path, host: str) -> dict[str, str]:
    done = subprocess.run(["ssh", "-G", "-F", config, host], capture_output=True, text=True, check=True)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


def test_ssh_goes_by_the_jump_host_with_pinned_keys_and_the_site_s_user(
    capsys: pytest.CaptureFixture[str], bastion: Path
) -> None:
    config = bastion.with_name("ssh_config")
    config.write_text(printed(capsys, bastion, "--ssh-config"))
    for name in ("head", "head.rehearsal.example.org"):
        head = ssh_settings(config, name)
        assert (head["hostname"], head["proxyjump"]) == ("10.77.0.10", "gate.example.org")
    gate = ssh_settings(config, "gate.example.org")
    assert (gate["user"], gate.get("proxyjump")) == ("gatekeeper", None)
    assert (gate["identityfile"], gate["stricthostkeychecking"]) == (str(bastion.parent / "my keys" / "id"), "true")
    known = Path(head["userknownhostsfile"].strip('"')).read_text()
    assert known == f"10.77.0.10 {KEY}\ngate.example.org {KEY}\n"


def test_a_node_without_a_host_key_is_named(capsys: pytest.CaptureFixture[str], bastion: Path) -> None:
    assert run(["inventory", str(bastion), "--ssh-config"]) == 0
    assert capsys.readouterr().err.startswith(
        "w[01-03]: the inventory has no host key, so ssh refuses to connect\nhint: "
    )
    assert run(["inventory", str(bastion), "--genders"]) == 0
    assert capsys.readouterr().err == ""


def test_clustershell_takes_groups_by_function_rack_partition_and_model(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "groups.d").mkdir()
    (tmp_path / "groups.conf").write_text(f"[Main]\ndefault: function\nautodir: {tmp_path}/groups.d\n")
    (tmp_path / "groups.d" / "site.yaml").write_text(printed(capsys, SITE, "--clustershell"))

    def nodes(*words: str) -> str:
        done = program(BIN / "nodeset", *words, cache=tmp_path, CLUSTERSHELL_CFGDIR=str(tmp_path))
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return done.stdout.strip()

    assert nodes("-f", "@head,@login") == "head01,login[01-02]"
    assert nodes("-f", "@rack:g01") == "gpu[001-004]"
    assert nodes("-f", "@partition:debug") == "gpu[031-032]"
    assert nodes("-f", "@hardware:nas-2u") == "stor01"
    assert nodes("-f", "@worker!@partition:debug") == "gpu[001-030]"
    assert nodes("-c", "@*") == "36"


def test_genders_has_an_attribute_of_a_node_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, SITE, "--genders").splitlines()
    assert "gpu031 worker,partition_debug,rack=g08,hardware=dgx-h100" in lines
    for line in lines:
        _, attributes = line.split(" ")
        names = [attribute.partition("=")[0] for attribute in attributes.split(",")]
        assert len({*names}) == len(names)


@pytest.mark.parametrize("name", ["hosts.yml", "hosts.json"])
def test_ansible_takes_the_file(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / name).write_text(printed(capsys, SITE, "--ansible"))
    done = program(BIN / "ansible-inventory", "-i", tmp_path / name, "--list", cache=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    listed = json.loads(done.stdout)
    assert listed["rack_g01"]["hosts"] == ["gpu001", "gpu002", "gpu003", "gpu004"]
    seen = listed["_meta"]["hostvars"]["gpu002"]
    assert seen["hpcforge_machine"]["serial"] == {"__ansible_unsafe": "AUR0006"}
    assert "-o BatchMode=yes -o ConnectTimeout=5 " in seen["ansible_ssh_common_args"]["__ansible_unsafe"]


def test_ansible_lint_finds_nothing_in_the_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With the long values that a site has: ssh's options through a jump host, an RSA key, a reason."""
    (tmp_path / "hosts.yml").write_text(printed(capsys, SITE, "--ansible"))
    assert max(map(len, (tmp_path / "hosts.yml").read_text().splitlines())) <= 160
    long = {
        "reason": "a  long story \u2028 with {{ braces }} " * 20,
        "on": "ssh-rsa " + "A" * 700,
        "gpus": [{"count": 8}],
    }
    (tmp_path / "more.yml").write_text(ansible_file({"yes": long, "w-01": {"empty": []}}, {"no": ["yes"]}))
    done = subprocess.run(
        [BIN / "ansible-lint", "--offline", "--profile", "production", "-q", "hosts.yml", "more.yml"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    listed = program(BIN / "ansible-inventory", "-i", tmp_path / "more.yml", "--list", cache=tmp_path)
    seen = json.loads(listed.stdout)["_meta"]["hostvars"]["yes"]
    assert {name: seen[name].get("__ansible_unsafe") for name in ("reason", "on")} == {
        name: long[name] for name in ("reason", "on")
    }
    assert seen["gpus"] == [{"count": 8}]


def test_two_formats_at_once_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inventory", str(SITE), "--ssh-config", "--genders"]) == 3
    assert capsys.readouterr().err == "error: --ssh-config and --genders exclude each other\nhint: use one\n"
