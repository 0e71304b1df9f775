"""Files that an operator names: what is none is refused at once by every verb that reads one, and never waited for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hpcforge.blueprint.untrusted_files import read_named
from hpcforge.errors import UsageError
from tests.support.in_process import hpcforge
from tests.support.site import REPOSITORY

SITE = REPOSITORY / "blueprints" / "rehearsal.yaml"
REAL = REPOSITORY / "blueprints" / "roce-pair-16.yaml"
READING = {
    "init --from": ["init", "NEW", "--from", "PIPE"],
    "nodes import": ["nodes", "import", str(REAL), "PIPE", "--yes"],
    "verify --cabling": ["verify", str(REAL), "--cabling", "--from", "FOLDER"],
    "blueprint": ["validate", "PIPE"],
    "inventory": ["validate", str(SITE), "--inventory", "PIPE"],
    "include": ["validate", "INCLUDES"],
    "key of a user": ["validate", "KEYS"],
    "role": ["role", "check", "ROLE"],
    "identity": ["secrets", "list", "SECRETS", "--identity", "PIPE"],
    "secrets": ["secrets", "list", "SITE", "--identity", "SECRETS.age"],
    "key of nodes": ["export", str(REAL), "--key", "PIPE", "--output", "OUT", "--preseed"],
    "public key": ["export", str(REAL), "--key", "PIPE.pub", "--output", "OUT", "--preseed"],
    "manifest": ["image", "build", str(SITE), "--locked", "PIPE"],
    "a device": ["init", "NEW", "--from", "/dev/zero"],
    "a terminal": ["init", "NEW", "--from", "/dev/tty"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Blueprints that name pipes, in each place where one can."""
    text = SITE.read_text().replace("  site_roles:", "  # site_roles:")
    for name in ("PIPE", "PIPE.pub", "FOLDER/switch.lldp.json", "ROLE/role.yaml", "SITE.age"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        os.mkfifo(tmp_path / name, 0o600)
    (tmp_path / "SITE").write_text(text)
    (tmp_path / "SECRETS").write_text(text)
    (tmp_path / "SECRETS.age").write_bytes(b"sealed")
    (tmp_path / "SECRETS.age").chmod(0o600)
    (tmp_path / "INCLUDES").write_text(f"{text}\ninclude: [PIPE]\n")
    (tmp_path / "KEYS").write_text(text.replace("users:\n", "users:\n  zoe: {uid: 4444, keys: [PIPE.pub]}\n", 1))
    return tmp_path


@pytest.mark.parametrize("verb", READING)
def test_a_verb_refuses_what_is_no_file_at_once(verb: str, folder: Path) -> None:
    names = {"NEW", "OUT", *(path.name for path in folder.iterdir())}
    words = [str(folder / word) if word in names else word for word in READING[verb]]
    done = subprocess.run(
        [sys.executable, "-m", "hpcforge", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in (1, 3), done.stderr
    assert "Traceback" not in done.stderr
    assert any(why in done.stderr + done.stdout for why in ("a pipe", "a device", "a regular", "does not contain")), (
        done.stderr + done.stdout
    )
    assert not (folder / "NEW").exists()


def test_a_named_file_may_be_behind_a_link_and_has_a_size(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("12345")
    (tmp_path / "link").symlink_to("file")
    assert read_named(tmp_path / "link", 5) == b"12345"
    with pytest.raises(UsageError, match="is larger than"):
        read_named(tmp_path / "link", 4)
    with pytest.raises(UsageError, match="is a folder, not a regular file"):
        read_named(tmp_path)


@pytest.mark.parametrize("key", ["software", "role_folders"])
def test_a_role_that_is_a_link_is_an_error_at_its_line(key: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "tasks").mkdir(parents=True)
    (tmp_path / "elsewhere" / "tasks" / "main.yml").write_text("[]\n")
    shutil.copy(REPOSITORY / "blueprints" / "site_roles" / "motd" / "role.yaml", tmp_path / "elsewhere")
    (tmp_path / "roles").mkdir()
    (tmp_path / "roles" / "linked").symlink_to("../elsewhere")
    text = SITE.read_text().replace("  site_roles:", "  # site_roles:")
    wrong = "role_folders: [roles]\n"
    if key == "software":
        wrong = "  site_roles:\n    - {path: roles/linked, on: all}\n"
        text, wrong = text.replace("software:\n", f"software:\n{wrong}", 1), "roles/linked"
    else:
        text += f"\n{wrong}"
    (tmp_path / "site.yaml").write_text(text)
    done = hpcforge("validate", str(tmp_path / "site.yaml"))
    assert done.returncode == 3
    line = next(number for number, each in enumerate(text.splitlines(), 1) if wrong.strip() in each)
    assert f"site.yaml:{line}:" in done.stderr or "roles/linked" in done.stderr, done.stderr
    assert "linked is a symbolic link; hpcforge follows none" in done.stderr
