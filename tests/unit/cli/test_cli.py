"""The command line without nodes: what goes where, and the exit status."""

import json
from pathlib import Path

import pytest

from hpcforge import __version__
from hpcforge.cli import run
from hpcforge.cli.exit_codes import Exit, worst

REPOSITORY = Path(__file__).parents[3]
REHEARSAL = str(REPOSITORY / "blueprints" / "rehearsal.yaml")
_WORDS = "validate show design explain pin image plan apply verify status nodes rehearse secrets schema trust"
VERBS = _WORDS.split()
GROUPS = {
    "image": ("build", "list", "remove"),
    "rehearse": ("up", "compare", "list", "status", "ssh", "save", "restore", "forget", "down"),
    "nodes": ("add", "remove", "replace"),
    "secrets": ("init", "list", "show", "rotate"),
}
COMMANDS = [(), *((verb,) for verb in VERBS), *((group, verb) for group in GROUPS for verb in GROUPS[group])]


@pytest.mark.parametrize(
    "words", [(), *[(verb,) for verb in VERBS], *[(group, verb) for group, verbs in GROUPS.items() for verb in verbs]]
)
def test_help_says_what_it_is_for(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*words, "--help"]) == 0
    out = capsys.readouterr().out
    assert "Usage: " in out
    if words and words not in [(group,) for group in GROUPS]:
        assert "Example: hpcforge " in " ".join(out.split())


def test_the_schema_of_a_blueprint_knows_the_roles_that_it_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ours" / "motd").mkdir(parents=True)
    (tmp_path / "ours" / "motd" / "role.yaml").write_text(
        "description: A text.\nvars:\n  text: {type: text, description: What it says.}\non: 'true'\n"
    )
    path = tmp_path / "site.yaml"
    path.write_text("role_folders: [ours]\n")
    assert run(["schema", "blueprint", str(path), "--markdown"]) == 0
    out = capsys.readouterr().out
    assert "| `roles.motd.text` | string |  | What it says. Required where the role runs. |\n" in out
    assert f"Made by `hpcforge schema blueprint {path} --markdown`" in out
    path.write_text("role_folders: [ouers]\n")
    assert run(["schema", "blueprint", str(path)]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"{path}:1:16: error: there is no folder `ouers` there" in captured.err
    assert run(["schema", "inventory", str(path)]) == 3


def test_the_schema_of_a_blueprint_knows_the_smoke_tests_that_it_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ours" / "disk").mkdir(parents=True)
    (tmp_path / "ours" / "disk" / "disk.py").touch()
    (tmp_path / "ours" / "disk" / "test.yaml").write_text(
        "description: Writes.\nlauncher: plain\nmeasures: {sync_ms: {unit: ms}}\nheadline: done\n"
    )
    path = tmp_path / "site.yaml"
    path.write_text("acceptance: {folders: [ours]}\n")
    assert run(["schema", "blueprint", str(path), "--markdown"]) == 0
    out = capsys.readouterr().out
    assert "| `acceptance.tests.disk` | mapping |  | Writes. |\n" in out
    assert "| `acceptance.tests.allreduce` |" in out
    path.write_text("acceptance: {folders: [ouers]}\n")
    assert run(["schema", "blueprint", str(path)]) == 3
    assert f"{path}:1:24: error: there is no folder `ouers` there" in capsys.readouterr().err


def test_five_mistakes_are_five_errors(capsys: pytest.CaptureFixture[str]) -> None:
    case = REPOSITORY / "tests" / "unit" / "blueprint" / "cases" / "five_mistakes.yaml"
    assert run(["validate", str(case)]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    errors = [line for line in captured.err.splitlines() if ": error: " in line]
    assert len(errors) == 5
    assert all(line.startswith(f"{case}:") for line in errors)
    assert captured.err.count("\nhint: ") == 5
    assert sum(set(line.strip(" |")) == {"^"} for line in captured.err.splitlines()) == 5


def test_errors_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    case = REPOSITORY / "tests" / "unit" / "blueprint" / "cases" / "five_mistakes.yaml"
    assert run(["validate", str(case), "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["schema_version"] == 1
    assert len(found["diagnostics"]) == 5
    assert {"file", "line", "column", "message", "hint", "severity"} <= set(found["diagnostics"][0])


@pytest.mark.parametrize("blueprint", sorted((REPOSITORY / "blueprints").glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_blueprints_are_valid(blueprint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", str(blueprint)]) == 0
    assert f" plan {blueprint}\n" in capsys.readouterr().err
    assert run(["show", str(blueprint), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cluster"]["nodes"]


@pytest.mark.parametrize(
    "words",
    [["fly"], ["plan"], ["plan", "--fly", REHEARSAL], ["validate", "/nowhere.yaml"], ["rehearse", "down", "w[1-"], []],
    ids=" ".join,
)
def test_wrong_usage_is_3(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 3
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err


def test_the_worst_code_wins() -> None:
    assert worst([]) == Exit.DONE
    assert worst([Exit.PENDING, Exit.BELOW, Exit.UNREACHABLE]) == Exit.UNREACHABLE
    assert worst([Exit.UNREACHABLE, Exit.FAILED]) == Exit.FAILED
    assert worst([Exit.FAILED, Exit.INTERRUPTED]) == Exit.INTERRUPTED


def test_a_file_that_cannot_be_written_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["design", REHEARSAL, "--html", "/nowhere/at/all.html"]) == 1
    assert capsys.readouterr().err == "error: /nowhere/at/all.html: No such file or directory\n"


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"hpcforge {__version__}\n"
