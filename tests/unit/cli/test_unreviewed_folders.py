"""Verbs that touch no node, on a folder that nobody has reviewed: they run nothing of it and read nothing beside it."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from hpcforge.cli import _VERBS, _program, run

ROOT = Path(__file__).parents[3]
SECRET = "AGE-SECRET-KEY-1OFTHEOPERATOR"
PATIENCE_S = 60  # what is refused is refused in well under one
BLUEPRINT = "site.yaml"

# What may be typed of each verb that touches no node, in a folder with a blueprint. `docs/security.md` names them.
NO_NODE = {
    "catalog list": ["catalog", "list", "gpus"],
    "catalog new": ["catalog", "new", "gpus", "our-gpu", "--in", "."],
    "catalog search": ["catalog", "search", "h100"],
    "catalog show": ["catalog", "show", "dgx-h100"],
    "design": ["design", BLUEPRINT],
    "explain": ["explain", "POWER-001"],
    "export": ["export", BLUEPRINT, "--preseed", "--key", "key.pub", "-o", "out"],
    "image list": ["image", "list"],
    "init": ["init", "new.yaml", "--from", "roles/plain/role.yaml"],
    "inventory": ["inventory", BLUEPRINT, "--json"],
    "nodes add": ["nodes", "add", BLUEPRINT, "n3", "--addresses", "192.168.50.13", "--yes"],
    "nodes import": ["nodes", "import", BLUEPRINT, "roles/plain/role.yaml", "--yes"],
    "nodes remove": ["nodes", "remove", BLUEPRINT, "n2", "--yes"],
    "nodes replace": ["nodes", "replace", BLUEPRINT, "n2", "--yes"],
    "pin": ["pin", BLUEPRINT],
    "plan --offline": ["plan", BLUEPRINT, "--offline"],
    "rehearse compare": ["rehearse", "compare", BLUEPRINT, "--lab", "nowhere"],
    "rehearse list": ["rehearse", "list"],
    "role check": ["role", "check", "roles"],
    "role new": ["role", "new", "mine", "--in", "more"],
    "schema": ["schema", "blueprint", BLUEPRINT],
    "secrets list": ["secrets", "list", BLUEPRINT],
    "show": ["show", BLUEPRINT],
    "validate": ["validate", BLUEPRINT],
}
# What begins something: on nodes, on this host as root, or in the site's secrets.
OTHERS = {
    *("apply", "discover", "logs", "plan", "report acceptance", "status", "trust", "verify"),
    *("image build", "image remove"),
    *(f"netboot {verb}" for verb in ("record", "serve", "status", "want", "withdraw")),
    *(f"power {verb}" for verb in ("boot-once", "cycle", "off", "on", "status")),
    *(f"rehearse {one}" for one in ("up", "down", "status", "ssh", "save", "restore", "forget")),
    *(f"secrets {one}" for one in ("init", "rotate", "set", "show")),
}


@pytest.fixture(autouse=True)
def ends_soon() -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(PATIENCE_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a blueprint that names a folder of roles and one of smoke tests; a secret lies beside it."""
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    folder = tmp_path / "cloned"
    folder.mkdir()
    text = (ROOT / "blueprints/two-node-lab.yaml").read_text()
    text = text.replace("../inventory/two-node-lab.yaml", "machines.yaml")
    (folder / BLUEPRINT).write_text(text.replace("\nsoftware:\n", "\nrole_folders: [roles]\n\nsoftware:\n"))
    shutil.copy(ROOT / "inventory/two-node-lab.yaml", folder / "machines.yaml")
    role(folder, "plain", "files: [/etc/plain]\n")
    (folder / "roles/plain/files/etc").mkdir(parents=True)
    (folder / "roles/plain/files/etc/plain").write_text("plain\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return folder


def role(site: Path, name: str, more: str, on: str = '"true"') -> Path:
    folder = site / "roles" / name
    folder.mkdir(parents=True)
    (folder / "role.yaml").write_text(f"description: Does something.\non: {on}\n{more}")
    return folder


def smoke_test(site: Path, name: str) -> Path:
    """A smoke test of the site's own, asked for; its program is still to be written."""
    folder = site / "tests" / name
    folder.mkdir(parents=True)
    (folder / "test.yaml").write_text(
        "description: Does something.\nlauncher: plain\nmeasures: {x: {unit: '1'}}\nheadline: x {x}\nthresholds: none\n"
    )
    with (site / BLUEPRINT).open("a") as file:
        file.write(
            f"  bo: {{uid: 2002}}\nacceptance: {{run_as: bo, folders: [tests], tests: {{{name}: {{nodes: all}}}}}}\n"
        )
    return folder


def hpcforge(*words: str) -> tuple[int, str]:
    """Exit status, and all that was printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = run(list(words))
    return code, printed.getvalue()


def _commands() -> set[str]:
    def names(command: object, way: str = "") -> Iterator[str]:
        below = getattr(command, "commands", None)
        if below is None:
            yield way
        for name, one in (below or {}).items():
            yield from names(one, f"{way} {name}".strip())

    return {name for verb in _VERBS for name in names(get_command(_program([verb])))}


def test_every_verb_is_either_in_the_table_or_known_to_do_more() -> None:
    assert {name.removesuffix(" --offline") for name in NO_NODE} | OTHERS == _commands()
    said = (ROOT / "docs/security.md").read_text()
    assert [name for name in NO_NODE if f"`{name}`" not in said] == []


@pytest.mark.parametrize("name", NO_NODE)
def test_no_verb_runs_what_a_role_says(site: Path, tmp_path: Path, name: str) -> None:
    system = "cluster.__class__.__init__.__globals__['__builtins__']['__import__']('os').system"
    attack = f"{system}('touch {tmp_path}/ran')"
    role(site, "of_content", f'files: [{{path: /etc/x, content: "{{{{ {attack} }}}}"}}]\n')
    role(site, "of_when", f'packages: [{{name: x, when: "{attack}"}}]\n')
    role(site, "of_on", "", on=f'"{attack}"')
    hpcforge(*NO_NODE[name])
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", NO_NODE)
def test_no_verb_runs_what_says_where_a_role_runs(site: Path, tmp_path: Path, name: str) -> None:
    """It is evaluated by all that read a blueprint, where the role lacks a variable."""
    system = "cluster.__class__.__init__.__globals__['__builtins__']['__import__']('os').system"
    role(site, "tried", "vars: {x: {description: Missing., type: whole}}\n", on=f"\"{system}('touch {tmp_path}/ran')\"")
    code, said = hpcforge(*NO_NODE[name])
    assert not (tmp_path / "ran").exists()
    if name in ("validate", "show", "design", "inventory", "plan --offline"):
        assert code == 3
        assert f"{BLUEPRINT}:" in said
        assert "the role `tried`: on: access to attribute '__" in said


def test_validate_says_where(site: Path) -> None:
    folder = role(site, "greedy", "files: [{path: /etc/x, source: x.j2}]\n")
    (folder / "x.j2").write_text("one\n{{ 'a' * 10**10 }}\n")
    code, said = hpcforge("validate", BLUEPRINT)
    assert code == 3
    assert "roles/greedy/x.j2:2:1: error: a value of more than" in said


def _absolute(site: Path, place: Path) -> None:
    place.symlink_to(site.parent / "secret")


def _relative(site: Path, place: Path) -> None:
    place.symlink_to(os.path.relpath(site.parent / "secret", place.parent))


def _pipe(site: Path, place: Path) -> None:
    os.mkfifo(place)


def _zero(site: Path, place: Path) -> None:
    place.symlink_to("/dev/zero")


def _device(site: Path, place: Path) -> None:
    os.mknod(place, 0o600 | 0o020000, os.makedev(1, 5))


def _socket(site: Path, place: Path) -> None:
    with contextlib.chdir(place.parent), socket.socket(socket.AF_UNIX) as made:
        made.bind(place.name)


def _folder(site: Path, place: Path) -> None:
    place.mkdir()


def _large(site: Path, place: Path) -> None:
    with place.open("wb") as file:
        file.truncate(1 << 34)


Make = Callable[[Path, Path], None]
MADE: list[Make] = [_absolute, _relative, _pipe, _zero, _device, _socket, _folder, _large]
# Every file that is read of a role's or a smoke test's folder, with what makes it be read.
READ = {
    "roles/tried/role.yaml": "",
    "roles/tried/files/etc/tried": "files: [/etc/tried]\n",
    "roles/tried/files/etc/tried.j2": "files: [/etc/tried]\n",
    "roles/tried/text": "files: [{path: /etc/tried, source: text}]\n",
    "roles/tried/deploy.py": "keep_on_removal: [{path: /x, why: x}]\n",
    "roles/tried/tasks/main.yml": "keep_on_removal: [{path: /x, why: x}]\n",
    "roles/tried/templates/x": "keep_on_removal: [{path: /x, why: x}]\n",
    "tests/tried/test.yaml": "",
    "tests/tried/tried.py": "",
}


CASES = [(path, make) for path in READ for make in (MADE if path.endswith(("d/role.yaml", ".py")) else MADE[:3])]


@pytest.mark.parametrize(("path", "make"), CASES)
def test_a_file_of_a_folder_is_a_regular_one_in_it(site: Path, path: str, make: Make) -> None:
    if path.startswith("tests/"):
        folder = smoke_test(site, "tried")
        (folder / "tried.py").write_text("")
    else:
        folder = role(site, "tried", READ[path])
        (folder / "tasks").mkdir()
        if "templates" in path:
            (folder / "tasks/main.yml").write_text("[]\n")
    place = site / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    make(site, place)
    code, said = hpcforge("plan", BLUEPRINT, "--offline")
    assert code == 3, said
    assert SECRET not in said
    why = {
        **{_absolute: "symbolic link", _relative: "symbolic link", _zero: "symbolic link", _pipe: "a pipe"},
        **{_device: "a device", _socket: "a device, or a socket", _folder: "a folder", _large: "larger than"},
    }
    assert why[make] in said, said
    assert "tried" in said


@pytest.mark.parametrize(
    "source", ["../plain/files/etc/plain", "/etc/hostname", "files/../../plain/role.yaml", "linked/x"]
)
def test_a_source_is_a_path_in_its_folder(site: Path, source: str) -> None:
    folder = role(site, "tried", f"files: [{{path: /etc/x, source: {source}}}]\n")
    (folder / "linked").symlink_to(site.parent)
    (site.parent / "x").write_text(SECRET)
    code, said = hpcforge("plan", BLUEPRINT, "--offline")
    assert code == 3
    assert "cannot be read: " in said
    assert SECRET not in said


def test_a_source_is_not_looked_for_beside_the_folders_of_roles(site: Path) -> None:
    """Only the shipped roles have texts there."""
    role(site, "tried", "files: [{path: /etc/x, source: aurora.age}]\n")
    (site / "aurora.age").write_text(SECRET)
    code, said = hpcforge("plan", BLUEPRINT, "--offline")
    assert code == 3
    assert "No such file" in said


def test_a_role_s_folder_is_no_link_and_the_folder_around_it_may_be_one(site: Path) -> None:
    (site / "roles").rename(site / "elsewhere")
    (site / "roles").symlink_to("elsewhere")
    assert hpcforge("plan", BLUEPRINT, "--offline")[0] == 2
    (site.parent / "home").mkdir()
    shutil.move(site / "elsewhere/plain", site.parent / "home/plain")
    (site / "elsewhere/plain").symlink_to(site.parent / "home/plain")
    code, said = hpcforge("plan", BLUEPRINT, "--offline")
    assert code == 3
    assert "plain is a symbolic link; hpcforge follows none" in said


@pytest.mark.parametrize("make", [_pipe, _zero, _device, _socket, _folder, _large])
@pytest.mark.parametrize("path", [BLUEPRINT, "machines.yaml"])
def test_a_blueprint_and_an_inventory_are_regular_files(site: Path, path: str, make: Make) -> None:
    (site / path).unlink()
    make(site, site / path)
    code, said = hpcforge("validate", BLUEPRINT)
    assert code == 3
    assert "not a regular one" in said or "is larger than" in said


@pytest.mark.parametrize("make", [_absolute, _pipe, _device, _socket])
def test_an_ansible_role_of_the_site_s_own_has_regular_files(site: Path, make: Make) -> None:
    (site / "ours/tasks").mkdir(parents=True)
    (site / "ours/tasks/main.yml").write_text("[]\n")
    text = (site / BLUEPRINT).read_text()
    assert "\nsoftware:\n" in text
    asked = "\nsoftware:\n  site_roles: [{path: ours, on: all}]\n"
    (site / BLUEPRINT).write_text(text.replace("\nsoftware:\n", asked))
    assert hpcforge("validate", BLUEPRINT)[0] == 0
    make(site, site / "ours/tasks/more.yml")
    code, said = hpcforge("validate", BLUEPRINT)
    assert code == 3
    assert "tasks/more.yml is a" in said
