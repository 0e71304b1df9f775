"""`hpcforge validate` as a hook of pre-commit: what the repository offers runs, and stops a commit."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpcforge import bundled
from hpcforge.cli import run

ROOT = bundled.root()


def hook() -> dict[str, Any]:
    [found] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    return dict(found)


def test_the_hook_is_a_command_of_hpcforge() -> None:
    """Of the fields that pre-commit requires, and the files that it is for."""
    assert {"id", "name", "entry", "language"} <= hook().keys()
    program, *words = shlex.split(hook()["entry"])
    assert (program, words) == ("hpcforge", ["validate"])
    assert hook()["pass_filenames"] is False  # an inventory that changes is not a blueprint
    assert "hpcforge = " in (ROOT / "pyproject.toml").read_text("utf-8").partition("[project.scripts]")[2]


def test_the_hook_stops_a_commit_only_for_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(hook()["entry"])[1:]
    text = "".join(
        line
        for line in (ROOT / "blueprints" / "rehearsal.yaml").read_text("utf-8").splitlines(keepends=True)
        if "site_roles" not in line
    )
    (tmp_path / "site.yaml").write_text(text)
    assert run([*words, str(tmp_path / "site.yaml")]) == 0
    (tmp_path / "site.yaml").write_text(text.replace("functions: [worker]", "functions: [workr]"))
    assert run([*words, str(tmp_path / "site.yaml")]) == 3
    assert "workr" in capsys.readouterr().err


BASE = (
    (ROOT / "blueprints" / "rehearsal.yaml").read_text("utf-8").replace("site_roles/", f"{ROOT}/blueprints/site_roles/")
)
NO_EFFECT = "warning: this has no effect: the role runs on no node"


@pytest.mark.parametrize(
    ("chosen", "hint"),
    [
        ('alertmanager: {slack_channel: "#hpc"}', "add `metrics: {on: head}` under `services`, or remove this"),
        ("alertmanager: {mail: [a@example.org], mail_server: 'mx:25'}", "add `metrics: {on: head}` under `services`"),
        ("alertmanager: {webhooks: ['http://10.0.0.1/x']}", "add `metrics: {on: head}` under `services`"),
        ("alertmanager: {pagerduty: true}", "add `metrics: {on: head}` under `services`"),
        ("prometheus: {keep_days: 30}", "add `metrics: {on: head}` under `services`"),
        ("node_exporter: {collect_s: 15}", "add `metrics: {on: head}` under `services`"),
        ("lmod: {defaults: [gcc]}", "add `enabled: true` here, or remove this"),
    ],
)
def test_variables_of_a_role_on_no_node_have_no_effect(
    tmp_path: Path, chosen: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(f"{BASE}\nroles:\n  {chosen}\n")
    assert run(["validate", str(path)]) == 0
    said = capsys.readouterr().err
    assert f"{path}:{BASE.count(chr(10)) + 3}:3: {NO_EFFECT}" in said
    assert f"hint: {hint}" in said


def test_a_role_of_a_site_may_name_what_is_no_service(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "roles" / "own").mkdir(parents=True)
    (tmp_path / "roles" / "own" / "role.yaml").write_text(
        """\
description: runs where a service is the site's own.
on: "cluster.services.values() | selectattr('external') | list"
vars: {level: {type: whole, default: 1, description: How much.}}
"""
    )
    path = tmp_path / "site.yaml"
    path.write_text(f"{BASE}\nrole_folders: [roles]\nroles:\n  own: {{level: 2}}\n")
    assert run(["validate", str(path)]) == 0
    assert NO_EFFECT in capsys.readouterr().err


@pytest.mark.parametrize("chosen", ["hardening: {enabled: false}", 'alertmanager: {slack_channel: "#hpc"}'])
def test_variables_of_a_role_that_runs_or_is_disabled_raise_no_warning(
    tmp_path: Path, chosen: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = BASE.replace("services:\n", "services:\n  metrics: {on: head}\n")
    (tmp_path / "site.yaml").write_text(f"{text}\nroles:\n  {chosen}\n")
    assert run(["validate", str(tmp_path / "site.yaml")]) == 0
    assert NO_EFFECT not in capsys.readouterr().err
