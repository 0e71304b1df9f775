"""What git says of a blueprint, in real repositories, some of them made to harm."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge.cli.site import open_site
from hpcforge.cluster.load.loaded import inputs
from hpcforge.host.commit import commit_of, descends

ROOT = Path(__file__).parents[3]

Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    def run(*words: str) -> str:
        who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main"]
        argv = ["git", *who, "-C", str(tmp_path), *words]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()

    run("init", "-q")
    return run


def committed(git: Git, blueprint: Path, text: str) -> str:
    blueprint.write_text(text)
    git("add", "-A")
    git("commit", "-qm", text)
    return git("rev-parse", "HEAD")


def test_clean_changed_and_not_added(git: Git, tmp_path: Path) -> None:
    blueprint, inventory = tmp_path / "site.yaml", tmp_path / "inventory.yaml"
    assert commit_of(blueprint) is None  # no commit yet
    first = committed(git, blueprint, "one")
    found = commit_of(blueprint)
    assert found is not None
    assert (found.id, found.dirty) == (first, False)
    (tmp_path / "notes").write_text("not asked about")
    assert commit_of(blueprint) == found
    inventory.write_text("new")
    found = commit_of(blueprint, inventory)
    assert found is not None
    assert found.dirty
    (tmp_path / ".gitignore").write_text("inventory.yaml\n")  # ignored is not in the commit either
    found = commit_of(blueprint, inventory)
    assert found is not None
    assert found.dirty
    blueprint.write_text("two")
    found = commit_of(blueprint)
    assert found is not None
    assert (found.id, found.dirty) == (first, True)


def test_descent(git: Git, tmp_path: Path) -> None:
    blueprint = tmp_path / "site.yaml"
    first = committed(git, blueprint, "one")
    second = committed(git, blueprint, "two")
    assert descends(blueprint, first) is True
    assert descends(blueprint, second) is True
    git("checkout", "-q", first)
    assert descends(blueprint, second) is False
    assert descends(blueprint, "0" * 40) is None
    assert descends(blueprint, "--upload-pack=touch x") is None


def test_without_a_repository_or_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    assert commit_of(folder / "site.yaml") is None
    assert descends(folder / "site.yaml", "0" * 40) is None
    monkeypatch.setenv("PATH", str(folder))
    assert commit_of(folder / "site.yaml") is None


def test_a_repository_s_own_settings_run_nothing(git: Git, tmp_path: Path) -> None:
    blueprint = tmp_path / "site.yaml"
    committed(git, blueprint, "one")
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    git("config", "core.fsmonitor", str(program))
    assert commit_of(blueprint) is not None
    assert not (tmp_path / "ran").exists()
    subprocess.run(["git", "-C", str(tmp_path), "status"], check=True, capture_output=True)
    assert (tmp_path / "ran").exists()  # which shows that it would have run


@pytest.fixture
def program(tmp_path: Path, git: Git) -> Path:
    """A program that leaves a trace; settings of a hostile repository name it."""
    path = tmp_path / "program"
    path.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
    path.chmod(0o755)
    return path


def ran(tmp_path: Path) -> bool:
    """Whether it was run since this was asked last."""
    there = (tmp_path / "ran").exists()
    (tmp_path / "ran").unlink(missing_ok=True)
    return there


def as_the_shell_would(folder: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=30
    )


def test_filters_of_a_repository_are_not_run(git: Git, tmp_path: Path, program: Path) -> None:
    """`.git/config` of an archive that somebody sent; git looks for changes where size or times differ."""
    blueprint = tmp_path / "site.yaml"
    (tmp_path / ".gitattributes").write_text("site.yaml filter=evil diff=evil\n")
    first = committed(git, blueprint, "one")
    git("config", "filter.evil.clean", str(program))
    git("config", "filter.evil.process", str(program))
    git("config", "diff.evil.textconv", str(program))
    git("config", "diff.external", str(program))
    blueprint.write_text("two")
    found = commit_of(blueprint)
    assert found is not None
    assert (found.id, found.dirty) == (first, True)
    assert descends(blueprint, first) is True
    assert not ran(tmp_path)
    as_the_shell_would(tmp_path, "status", "--porcelain")
    assert ran(tmp_path)  # which shows that it would have run


_PROGRAMS = """
core.fsmonitor core.hooksPath core.sshCommand core.gitProxy core.pager core.editor core.askPass
core.alternateRefsCommand diff.external sequence.editor credential.helper gpg.program alias.rev-parse alias.ls-tree
alias.merge-base remote.origin.uploadpack remote.origin.vcs
uploadpack.packObjectsHook pager.ls-tree interactive.diffFilter
"""


def test_no_setting_of_a_repository_runs_a_program(git: Git, tmp_path: Path, program: Path) -> None:
    blueprint = tmp_path / "site.yaml"
    first = committed(git, blueprint, "one")
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("post-index-change", "reference-transaction", "pre-auto-gc", "fsmonitor-watchman"):
        shutil.copy(program, hooks / name)
    shutil.copytree(hooks, tmp_path / ".git/hooks", dirs_exist_ok=True)
    for name in _PROGRAMS.split():
        git("config", name, str(hooks if name == "core.hooksPath" else program))
    (tmp_path / "ran").unlink(missing_ok=True)
    found = commit_of(blueprint)
    assert found is not None
    assert (found.id, found.dirty) == (first, False)
    assert descends(blueprint, first) is True
    assert descends(blueprint, "1" * 40) is None
    assert not ran(tmp_path)


def test_a_bare_repository_among_the_files_is_none(git: Git, tmp_path: Path, program: Path) -> None:
    """`git clone` brings it as ordinary files; who works in that folder would be in the repository."""
    folder = tmp_path / "site"
    blueprint = folder / "site.yaml"
    subprocess.run(["git", "init", "-q", "--bare", str(folder)], check=True)
    blueprint.write_text("one")
    within = ["git", f"--git-dir={folder}", f"--work-tree={folder}", "-c", "user.name=Ada", "-c", "user.email=a@b.org"]
    subprocess.run([*within, "add", "-f", "site.yaml"], check=True, cwd=folder)
    subprocess.run([*within, "commit", "-qm", "one"], check=True, cwd=folder)
    (folder / "info").mkdir(exist_ok=True)
    (folder / "info/attributes").write_text("* filter=evil\n")
    for key, value in {"core.bare": "false", "core.worktree": str(folder), "filter.evil.clean": str(program)}.items():
        subprocess.run(["git", "config", f"--file={folder}/config", key, value], check=True)
    blueprint.write_text("two")
    assert commit_of(blueprint) is None
    assert descends(blueprint, "1" * 40) is None
    assert not ran(tmp_path)
    as_the_shell_would(folder, "status", "--porcelain")
    assert ran(tmp_path)


def test_what_a_repository_lacks_is_not_fetched(git: Git, tmp_path: Path, program: Path) -> None:
    """A partial clone fetches what is missing, over a transport that its settings may say is a program."""
    (tmp_path / "roles").mkdir()
    (tmp_path / "roles/role.yaml").write_text("one")
    first = committed(git, tmp_path / "site.yaml", "one")
    tree = git("rev-parse", "HEAD:roles")
    (tmp_path / ".git/objects" / tree[:2] / tree[2:]).unlink()
    settings = {
        **{"core.repositoryFormatVersion": "1", "extensions.partialClone": "origin", "remote.origin.promisor": "true"},
        **{"remote.origin.url": f"ext::{program} %S x", "protocol.ext.allow": "always", "protocol.allow": "always"},
    }
    for key, value in settings.items():
        git("config", key, value)
    found = commit_of(tmp_path / "site.yaml", tmp_path / "roles")
    assert found is not None
    assert (found.id, found.dirty) == (first, True)
    assert descends(tmp_path / "site.yaml", "1" * 40) is None
    assert not ran(tmp_path)
    as_the_shell_would(tmp_path, "ls-tree", "-r", "HEAD")
    assert ran(tmp_path)


@pytest.mark.parametrize("said", ["git version 2.37.1", "git version 1.8.3.1", "something else", ""])
def test_with_a_git_that_is_too_old_there_is_no_commit(
    git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """Before 2.38 it cannot be told to take no bare repository for one."""
    blueprint = tmp_path / "site.yaml"
    first = committed(git, blueprint, "one")
    old = tmp_path / "old"
    old.mkdir()
    (old / "git").write_text(f"#!/bin/sh\ncase \"$*\" in *--version*) echo '{said}';; *) : > {tmp_path}/ran;; esac\n")
    (old / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(old))
    assert commit_of(blueprint) is None
    assert descends(blueprint, first) is None
    assert not ran(tmp_path)


def test_a_folder_is_as_in_the_commit_with_all_that_is_in_it(git: Git, tmp_path: Path) -> None:
    blueprint, roles = tmp_path / "site.yaml", tmp_path / "roles"
    (roles / "ours/files").mkdir(parents=True)
    (roles / "ours/role.yaml").write_text("one")
    (roles / "ours/files/motd").write_bytes(b"\xff\n\r\n")

    def dirty() -> bool:
        found = commit_of(blueprint, roles / "ours")
        assert found is not None
        return found.dirty

    committed(git, blueprint, "one")
    assert not dirty()
    (roles / "ours/__pycache__").mkdir()
    (roles / "ours/__pycache__/deploy.cpython-311.pyc").write_text("compiled")
    assert not dirty()
    (roles / "ours/files/motd").write_bytes(b"\xff\n\n")
    assert dirty()
    (roles / "ours/files/motd").write_bytes(b"\xff\n\r\n")
    (roles / "ours/files/more").write_text("not added")
    assert dirty()
    git("add", "-A")
    assert dirty()  # in the index only
    (roles / "ours/files/more").unlink()
    assert not dirty()
    (roles / "ours/role.yaml").rename(tmp_path / "elsewhere")
    assert dirty()
    (roles / "ours/role.yaml").symlink_to(tmp_path / "elsewhere")
    assert dirty()


def test_a_path_outside_the_repository_is_in_no_commit(git: Git, tmp_path: Path) -> None:
    inner, outside = tmp_path / "inner", tmp_path / "outside.yaml"
    inner.mkdir()
    shutil.move(tmp_path / ".git", inner / ".git")
    (inner / "site.yaml").write_text("one")
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run(["git", "-C", str(inner), "add", "-A"], check=True)
    subprocess.run(["git", *who, "-C", str(inner), "commit", "-qm", "one"], check=True)
    outside.write_text("one")
    found, without = commit_of(inner / "site.yaml", outside), commit_of(inner / "site.yaml")
    assert found is not None
    assert without is not None
    assert (found.dirty, without.dirty) == (True, False)


READ = [
    *("site.yaml", "machines.yaml", "ada.pub", "roles/ours/role.yaml", "roles/ours/files/etc/ours"),
    *("tests/disk/test.yaml", "tests/disk/disk.py", "scratch/tasks/main.yml", "scratch/templates/x.j2"),
]
_MORE = """
  bo: {uid: 2002, keys: [ada.pub]}
role_folders: [roles]
acceptance: {run_as: bo, folders: [tests], tests: {disk: {nodes: all}}}
"""
_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ"


def test_every_file_that_a_site_is_read_from_is_compared(git: Git, tmp_path: Path) -> None:
    text = (ROOT / "blueprints/two-node-lab.yaml").read_text()
    text = text.replace("../inventory/two-node-lab.yaml", "machines.yaml")
    text = text.replace("\nsoftware:\n", "\nsoftware:\n  site_roles: [{path: scratch, on: all}]\n")
    files = {
        "site.yaml": text.rstrip() + _MORE,
        "machines.yaml": (ROOT / "inventory/two-node-lab.yaml").read_text(),
        "ada.pub": f"{_KEY}\n",
        "roles/ours/role.yaml": 'description: Ours.\non: "true"\nfiles: [/etc/ours]\n',
        "roles/ours/files/etc/ours": "one\n",
        "tests/disk/test.yaml": "description: Does.\nlauncher: plain\nmeasures: {x: {unit: '1'}}\nheadline: x {x}\n",
        "tests/disk/disk.py": "one\n",
        "scratch/tasks/main.yml": "[]\n",
        "scratch/templates/x.j2": "one\n",
    }
    assert list(files) == READ
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    git("add", "-A")
    git("commit", "-qm", "one")
    site = open_site(tmp_path / "site.yaml", None, None, tmp_path / "identity")
    assert site.loaded.inventory_path is not None
    found = commit_of(*inputs(site.loaded), site.loaded.inventory_path)
    assert found is not None
    assert not found.dirty
    for name, content in files.items():
        (tmp_path / name).write_text(f"{content}# changed\n")
        found = commit_of(*inputs(site.loaded), site.loaded.inventory_path)
        assert found is not None
        assert found.dirty, name
        (tmp_path / name).write_text(content)
