"""The scripts of an image."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hpcforge.image import recipe


@pytest.mark.parametrize("release", ["a", "b c"])
def test_a_unit_that_a_role_starts_is_not_enabled_by_its_package(tmp_path: Path, release: str) -> None:
    """The script of the recipe, with a chroot that enables two units as packages do."""
    root, here = tmp_path / release / "tree", tmp_path / release
    wants = root / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True)
    (wants / "ssh.service").symlink_to("/lib/systemd/system/ssh.service")
    (here / "packages").write_text("chrony\nlogrotate\n")
    (here / "units").write_text("chrony.service\nssh.service\n")
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "chroot").write_text(
        '#!/bin/sh\nset -e\nroot=$1; shift; echo "$@" > "$root/said"; cd "$root/etc/systemd/system"\n'
        "ln -s /lib/systemd/system/chrony.service multi-user.target.wants/\n"
        "ln -s /lib/systemd/system/chrony.service chronyd.service\n"
        "ln -s /lib/systemd/system/logrotate.timer .\n"
    )
    (bin_folder / "chroot").chmod(0o755)
    env = {"PATH": f"{bin_folder}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-c", recipe.PACKAGES, "sh", root, here], check=True, env=env)
    assert (root / "said").read_text().split()[-2:] == ["chrony", "logrotate"]
    links = {path.name for path in (root / "etc/systemd/system").rglob("*") if path.is_symlink()}
    assert links == {"ssh.service", "logrotate.timer"}


def test_another_recipe_has_another_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    before = recipe.digest(("-oA=b",))
    assert recipe.digest(("-oA=b",)) == before != recipe.digest(())
    monkeypatch.setattr(recipe, "FINISH", recipe.FINISH + "# more\n")
    assert recipe.digest(("-oA=b",)) != before


def test_finished_trees_keep_nothing_that_tells_machines_apart(tmp_path: Path) -> None:
    """The script itself, on a small tree."""
    kept = ("etc/ssh/sshd_config", "var/log/dpkg.log", "usr/bin/true")
    removed = ("etc/ssh/ssh_host_rsa_key", "etc/munge/munge.key", "etc/hostname", "tmp/x", "var/lib/apt/lists/a")
    for name in (*kept, *removed, "etc/machine-id", "etc/resolv.conf", "var/backups/a", "var/tmp/a", "run/a",
                 "var/cache/apt/archives/a.deb"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text")
    subprocess.run(["sh", "-c", recipe.FINISH, "sh", tmp_path], check=True)
    files = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {
        "etc/machine-id": "", "etc/resolv.conf": "", "var/log/dpkg.log": "",
        "etc/ssh/sshd_config": "text", "usr/bin/true": "text",
    }  # fmt: skip
