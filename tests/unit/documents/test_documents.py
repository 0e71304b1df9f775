"""README, CONTRIBUTING, the changelog and docs/ name files that exist, and what README shows is what it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcforge.blueprint.declared import read_declared
from hpcforge.shipped import roles

ROOT = Path(__file__).parents[3]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FOLDERS = ("blueprints", "benchmarks", "docs", "hpcforge", "inventory", "roles", "smoke_tests", "tests", "vagrant")
NAMED = re.compile(
    rf"(?<![\w/.:~$*-])((?:\.\./)*(?:{'|'.join(FOLDERS)})/[\w.*/-]*[\w*])"  # from the root, or relative to the page
    r"|`((?:[\w-]+/)+[\w-]+\.(?:py|yaml|md|json|js|toml))[:`]"  # from hpcforge/, as docs/architecture.md has them
    r"|\]\(([^)#:]+)(?:#[^)]*)?\)"
)
MADE = {
    "vagrant/.vagrant",  # by Vagrant
    "hpcforge/collectives",  # an environment module of that name
    "our-roles/motd/role.yaml",  # by the commands of that page
}


def named(page: Path) -> Iterator[tuple[str, int]]:
    """What a page names, with the line. Words in capitals stand for any name."""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        for groups in NAMED.findall(line):
            path = next(filter(None, groups))
            if not re.search(r"(?:^|[/.-])[A-Z]{3,}(?:[/.-]|$)", path.removesuffix(".md")) and path not in MADE:
                yield path, number


def exists(page: Path, path: str) -> bool:
    return any(next(iter(base.glob(path)), None) for base in (ROOT, page.parent, ROOT / "hpcforge", ROOT / "tests")
               if ".." not in path) or (page.parent / path).exists()  # fmt: skip


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_document_names_exists(page: Path) -> None:
    assert [f"{path}, line {number}" for path, number in named(page) if not exists(page, path)] == []


def test_documents_name_many_files() -> None:
    """So that the pattern is known to find them."""
    found = {path for page in DOCUMENTS for path, _ in named(page)}
    assert len(found) > 300
    assert {"blueprints/rehearsal.yaml", "docs/support.md", "cluster/resolve.py"} <= found


def test_what_readme_shows_of_a_rule_is_what_is_printed(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [(edit, shown)] = re.findall(
        r"^\$ (sed .*) > wrong.yaml\n\$ hpcforge validate wrong.yaml\n(.*?)\n\.\.\.\n", text, re.M | re.S
    )
    for folder in ("blueprints", "inventory"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    wrong = subprocess.run(["sh", "-c", edit], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    (tmp_path / "wrong.yaml").write_text(wrong)
    command = [sys.executable, "-m", "hpcforge", "validate", "wrong.yaml"]
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 3
    assert (result.stdout + result.stderr).startswith(f"{shown}\n")


def test_no_document_denies_a_service_that_roles_offer() -> None:
    """docs/support.md had it that hpcforge does not set up accounting."""
    offered = read_declared(roles()).offers
    denied = re.compile(rf"\b(?:{'|'.join(offered)}|slurmdbd)\b[^.]{{0,60}}\bdoes not set up\b", re.S)
    found = {page.name: denied.findall(page.read_text(encoding="utf-8")) for page in DOCUMENTS}
    assert {name for name, said in found.items() if said} == set()
