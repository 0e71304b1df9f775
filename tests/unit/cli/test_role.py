"""`hpcforge role`: what it writes is right, and what is wrong is said at its place, through the real command line."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import pytest

from hpcforge.cli import run

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "roles"
SHIPPED = Path(__file__).parents[3] / "roles"


def hpcforge(*words: str) -> tuple[int, str, str]:
    """Exit status, standard output, standard error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(["role", *words])
    return code, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("kind", ["data", "pyinfra", "ansible"])
def test_a_new_role_is_right_and_never_overwritten(tmp_path: Path, kind: str) -> None:
    code, out, err = hpcforge("new", "mine", "--in", str(tmp_path), "--kind", kind)
    assert (code, err) == (0, f"Next, after your changes: hpcforge role check {tmp_path}/mine\n")
    assert sorted(out.split()) == sorted(str(path) for path in (tmp_path / "mine").rglob("*") if path.is_file())
    code, out, err = hpcforge("check", str(tmp_path / "mine"))
    assert (code, out) == (0, "mine: right, on w[01-03] of rehearsal.yaml\n")
    assert err == f"Next, in the blueprint that uses it: role_folders: [{tmp_path}]\n"
    (tmp_path / "mine/role.yaml").write_text("mine\n")
    code, _, err = hpcforge("new", "mine", "--in", str(tmp_path))
    assert code == 3
    assert "already exists; nothing was written" in err
    assert (tmp_path / "mine/role.yaml").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Mine", "is not a valid role name"),
        ("site_mine", "is not a valid role name"),
        ("munge", "hpcforge already has a role munge"),
    ],
)
def test_a_name_that_cannot_be_is_refused(tmp_path: Path, name: str, said: str) -> None:
    code, _, err = hpcforge("new", name, "--in", str(tmp_path))
    assert code == 3
    assert said in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("folder", [SHIPPED, EXAMPLES])
def test_ours_are_right(folder: Path) -> None:
    code, out, _ = hpcforge("check", str(folder), "--json")
    judged = json.loads(out)
    assert code == 0
    assert {role["role"] for role in judged["roles"]} == {path.parent.name for path in folder.glob("*/role.yaml")}
    assert {entry["severity"] for entry in judged["diagnostics"]} <= {"not-checked"}


def test_mistakes_are_said_all_at_once_with_their_places(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "role.yaml").write_text(
        "description: Mine.\n"
        'on: "true"\n'
        "pakages: [chrony]\n"
        "units: [{name: chrony.service, watch: [/etc/x]}]\n"
        "files:\n"
        '  - {path: /etc/x, when: "cluster.name ==", content: x}\n'
    )
    code, out, err = hpcforge("check", str(folder))
    assert (code, out) == (3, "mine: wrong\n")
    assert f"{folder}/role.yaml:3:1: error: unknown key `pakages`\n    3 | pakages: [chrony]\n      | ^^^^^^^\n" in err
    assert "hint: did you mean `packages`?" in err
    assert f"{folder}/role.yaml:4:32: error: unknown key `watch`\n" in err
    assert "hint: did you mean `restart_on`?" in err
    assert f"{folder}/role.yaml:6:26: error: expression: unexpected 'end of template'\n" in err


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("one\n  {{ cluster.nam }}\n", "x.j2:2:3: error: Cluster has no", "`name`?"),
        (
            "one\n{{ clustr.name }}\n",
            "x.j2:2:1: error: 'clustr' is undefined",
            "a role can use `cluster`, `node`, `vars`",
        ),
        ("{{ cluster.services.tim.on }}\n", "x.j2:1:1: error: 'dict object' has no", "did you mean `time`?"),
        ("one\n{% if %}\n", "x.j2:2:1: error: Expected an expression", ""),
        ("{{ node.name }}\n", "role.yaml:3:9: error: /etc/x: its text uses `node`", "set `scope: node`"),
    ],
)
def test_a_wrong_text_is_named_with_its_line(tmp_path: Path, text: str, said: str, hint: str) -> None:
    folder = tmp_path / "mine"
    (folder / "files/etc").mkdir(parents=True)
    (folder / "files/etc/x.j2").write_text(text)
    (folder / "role.yaml").write_text('description: Mine.\non: "true"\nfiles: [/etc/x]\n')
    code, _, err = hpcforge("check", str(folder))
    assert code == 3
    assert said in err
    assert hint in err


COLLECTIONS = "collections: [{name: a.b, version: 1.2.3}]\n"


@pytest.mark.parametrize(
    ("files", "more", "severity", "said"),
    [
        ({"deploy.py": "pass\n"}, "delete_on_removal: [/opt/mine/x]\n", "error", "it has code, but no `checks`"),
        ({"deploy.py": "pass\n"}, "checks: [{name: x, command: [x]}]\n", "warning", "not removed with the role"),
        ({"deploy.py": "def\n"}, "", "error", "invalid syntax"),
        ({"tasks/main.yml": "a: b\n"}, "", "error", "not a list of tasks"),
        ({"files/etc/y": "y\n"}, "", "error", "role.yaml does not use this file"),
        ({}, "inputs: {x: cluster.name}\n", "error", "inputs without code that uses it"),
        ({}, COLLECTIONS, "error", "collections without code that uses it"),
        ({"deploy.py": "pass\n"}, COLLECTIONS, "error", "collections without Ansible tasks"),
        ({}, "rerun_on: [/etc/x]\n", "error", "rerun_on without code that uses it"),
        ({"deploy.py": "pass\n"}, "delete_on_removal: [/etc]\n", "error", "/etc is not this role's alone"),
        ({}, "files: [{path: etc/x, content: x}]\n", "error", "'etc/x' is not an absolute path"),
        ({}, "files: [{path: /etc/../x, content: x}]\n", "error", "'/etc/../x' is not an absolute path"),
        ({}, "files: [{path: /x, content: x, mode: rw}]\n", "error", "'rw' is not a file mode"),
        ({}, "files: [{path: /x, content: x}, {path: /x, content: y}]\n", "error", "/x is declared twice on one node"),
        ({}, "units: [chrony]\n", "error", "'chrony' is not a unit name"),
        ({}, "needs: [tim]\n", "error", "needs 'tim', but there is no such role"),
    ],
)
def test_manners(tmp_path: Path, files: dict[str, str], more: str, severity: str, said: str) -> None:
    folder = tmp_path / "mine"
    for name, text in {**files, "role.yaml": f'description: Mine.\non: "true"\n{more}'}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    code, out, _ = hpcforge("check", str(folder), "--json")
    found = [entry for entry in json.loads(out)["diagnostics"] if said in entry["message"]]
    assert [entry["severity"] for entry in found] == [severity]
    assert code == 3 or severity == "warning"


def test_another_roles_mistake_is_not_said_of_one_that_can_do_without(tmp_path: Path) -> None:
    for name, needs in {"wrong": "[nobody]", "right": "[base]", "rests": "[wrong]"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "role.yaml").write_text(f'description: One.\non: "true"\nneeds: {needs}\n')
    code, out, _ = hpcforge("check", str(tmp_path))
    assert code == 3
    assert out == "rests: wrong\nright: right, on head,w[01-03] of rehearsal.yaml\nwrong: wrong\n"


def test_a_site_role_of_ansibles_may_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine/tasks").mkdir(parents=True)
    (tmp_path / "mine/tasks/main.yml").write_text("[]\n")
    code, out, err = hpcforge("check", str(tmp_path))
    assert (code, out) == (0, "mine: right\n")
    assert "warning: its code creates things that are not removed" in err


def test_a_folder_without_roles_is_refused(tmp_path: Path) -> None:
    code, _, err = hpcforge("check", str(tmp_path))
    assert code == 3
    assert "has no role" in err
