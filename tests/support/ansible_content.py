"""Lint the Ansible that is shipped and made: the roles as they stand, and each in the play that hpcforge makes for it.

`make check` runs it; the exit status is that of the first tool that finds something.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from hpcforge.downloads.artifacts import fetch
from hpcforge.downloads.collections import unpack
from hpcforge.engines.ansible.play import Host, read_role, write
from hpcforge.engines.tasks import Ansible, Target
from hpcforge.plan.roles.role import Code, load_role, site_role_code
from hpcforge.run.site import artifacts_path

ROOT = Path(__file__).parents[2]
TARGET = Target("n1", "192.0.2.1", "ops", "sudo", Path("/key"), ("ssh-ed25519 AAAA",))
BIN = Path(sys.executable).parent


def roles() -> Iterator[Path]:
    """Folders that Ansible gets as roles."""
    for shipped in ("roles", "blueprints", "docs"):
        yield from sorted(tasks.parents[1] for tasks in (ROOT / shipped).rglob("tasks/main.yml"))


def collections(role_folders: Iterable[Path]) -> list[str]:
    """Folders of the collections that the roles pin, fetched and unpacked as for an apply."""
    pinned = {
        collection for role in role_folders if (role / "role.yaml").exists() for collection in _code(role).collections
    }
    fetch([*{collection.archive for collection in pinned}], artifacts_path(), lambda _: None)
    unpack(pinned, artifacts_path())
    return sorted(str(artifacts_path() / collection.folder) for collection in pinned)


def _code(role: Path) -> Code:
    code = load_role(role).code if "\non:" in (role / "role.yaml").read_text() else site_role_code(role)
    assert code is not None
    return code


def lay_out(folder: Path, role: Path) -> Path:
    """A role and its play, as ansible-runner gets them; where that is."""
    shutil.copytree(role, folder / "roles" / role.name, ignore=shutil.ignore_patterns("role.yaml"))  # that is ours
    (folder / role.name).mkdir()
    task = Ansible("t", TARGET.name, role, {}, 60.0)
    write(folder / role.name, [Host(task, TARGET)], read_role(role), folder / "sockets")
    return folder / role.name


def main() -> int:
    """Exit status of the check."""
    role_folders = tuple(roles())
    with TemporaryDirectory() as name:
        folder = Path(name)
        env = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": name, "LANG": "C.UTF-8"}
        env |= {"ANSIBLE_ROLES_PATH": f"{name}/roles", "NO_COLOR": "1"}
        env["ANSIBLE_COLLECTIONS_PATH"] = ":".join(collections(role_folders))
        plays = [lay_out(folder, role) for role in role_folders]
        books = [str(play.relative_to(folder) / "project/site.yml") for play in plays]
        inventories = [f"--inventory={play}/inventory" for play in plays]
        for place, command in (
            (folder, ["ansible-playbook", "--syntax-check", *inventories, *books]),
            (folder, ["ansible-lint", "--offline", "--profile", "production", "-q", "roles", *books]),
            (ROOT, ["ansible-lint", "-q"]),  # by the settings there
        ):
            process = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, check=False)
            if process.returncode:
                print(process.stdout, process.stderr, sep="", file=sys.stderr)
                return process.returncode
    print(f"ansible-lint, ansible-playbook --syntax-check: {len(role_folders)} roles in their plays, nothing found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
