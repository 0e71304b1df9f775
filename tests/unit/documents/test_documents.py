"""README, CONTRIBUTING, the changelog and docs/ name files that exist, and what README shows is what it prints."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from hpcforge.blueprint.role_declarations import read_declared
from hpcforge.bundled import roles
from hpcforge.cli import _program

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
    assert {"blueprints/rehearsal.yaml", "docs/support.md", "hpcforge/cluster/resolve.py"} <= found


README = (ROOT / "README.md").read_text(encoding="utf-8")
PICTURES = sorted((ROOT / "docs" / "images").iterdir())


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run hpcforge in a folder."""
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "hpcforge", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_what_readme_shows_of_a_rule_is_what_is_printed(tmp_path: Path) -> None:
    [(edit, shown)] = re.findall(
        r"^\$ (sed .*) > wrong.yaml\n\$ hpcforge validate wrong.yaml\n(.*?)\n\.\.\.\n", README, re.M | re.S
    )
    for folder in ("blueprints", "inventory"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    wrong = subprocess.run(["sh", "-c", edit], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    (tmp_path / "wrong.yaml").write_text(wrong)
    result = run("validate", "wrong.yaml", folder=tmp_path)
    assert result.returncode == 3
    assert (result.stdout + result.stderr).startswith(f"{shown}\n")


def test_the_blueprint_in_readme_becomes_what_readme_says(tmp_path: Path) -> None:
    [text] = re.findall(r"^```yaml\n(.*?)^```$", README, re.M | re.S)
    (tmp_path / "demo.yaml").write_text(text)
    result = run("plan", "demo.yaml", "--offline", folder=tmp_path)
    assert result.returncode == 2, result.stderr
    placed = dict(re.findall(r"^(\w+)  (\S+)  \(new node\)$", result.stdout, re.M))
    on_head = {"slurm_controller", "dns_server", "time_server", "depot", "service_protection"}
    on_workers = {"slurm_compute", "pytorch", "gpu_fake"}
    assert {role for role in placed if placed[role] == "head"} == on_head
    assert on_workers <= {role for role in placed if placed[role] == "w[01-03]"}
    assert "allreduce, train_ddp" in result.stdout


def commands(text: str) -> set[str]:
    """The command lines of hpcforge in code spans and code blocks, from `hpcforge` on."""
    blocks = re.findall(r"^```[a-z]*\n(.*?)^```$", text, re.M | re.S)
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))
    return set(re.findall(r"(?<![/\w])(?:\.venv/bin/)?(hpcforge [a-z-][^#\n]*)", "\n".join([*blocks, *spans])))


def problem(line: str) -> str | None:
    """Which word of a command line hpcforge does not have."""
    words = line.split()[1:]
    command: Any = typer.main.get_command(_program(words))
    while hasattr(command, "commands"):
        name = words.pop(0) if words else ""
        if name.startswith("-"):
            break
        if name not in command.commands:
            return name
        command = command.commands[name]
    options = {option for parameter in command.params for option in parameter.opts} | {"--help", "--install-completion"}
    return next((word for word in words if word.startswith("--") and word not in options), None)


def test_every_command_in_readme_exists() -> None:
    found = commands(README)
    assert {"hpcforge apply SITE.yaml", "hpcforge role check roles/NAME"} <= found
    assert {line: problem(line) for line in found if problem(line)} == {}
    assert problem("hpcforge nodes ad SITE.yaml w04") == "ad"
    assert problem("hpcforge verify SITE.yaml --cables") == "--cables"


def test_readme_says_which_roles_have_code() -> None:
    assert {path.parent.name for path in roles().glob("*/deploy.py")} == {
        "depot", "nvidia_driver", "nvidia_mig", "pytorch", "python_frameworks"}  # fmt: skip
    assert "`depot`, `nvidia_driver`, `nvidia_mig`, `pytorch`, `python_frameworks`" in README
    assert {path.parent.name for path in roles().glob("*/tasks")} == {"directory_server", "grafana", "slurm_database"}
    assert "`directory_server`, `slurm_database`, `grafana`" in README


def test_readme_is_short_and_its_pictures_are_small() -> None:
    assert len(README.splitlines()) < 150
    assert [path.name for path in PICTURES] == ["design.png", "terminal.svg", "verification.png"]
    assert all(f"docs/images/{path.name}" in README and path.stat().st_size < 200_000 for path in PICTURES)


def test_the_picture_of_a_terminal_has_nothing_of_the_machine_that_made_it() -> None:
    """And fetches nothing: a page that shows it may forbid that."""
    svg = PICTURES[1].read_text(encoding="utf-8")
    text = html.unescape("".join(re.findall(r"<text [^>]*>([^<]*)</text>", svg))).replace("\xa0", " ")
    assert text.startswith("$ hpcforge apply demo.yaml --yes")
    assert "train_ddp  passed" in text
    assert "hpcforge rehearse down demo.yaml" in text
    assert re.findall(r"/(?:root|home|work|tmp)/\S*|https?://(?!www\.w3\.org/2000/svg)\S*", svg) == []


def test_no_document_denies_a_service_that_roles_offer() -> None:
    """docs/support.md had it that hpcforge does not set up accounting."""
    offered = read_declared(roles()).offers
    denied = re.compile(rf"\b(?:{'|'.join(offered)}|slurmdbd)\b[^.]{{0,60}}\bdoes not set up\b", re.S)
    found = {page.name: denied.findall(page.read_text(encoding="utf-8")) for page in DOCUMENTS}
    assert {name for name, said in found.items() if said} == set()
