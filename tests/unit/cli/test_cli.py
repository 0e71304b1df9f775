"""The command line without nodes: what goes where, and the exit status."""

import json
import re
from pathlib import Path

import pytest

from hpcforge import __version__
from hpcforge.cli import _VERBS, run
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
        assert re.search(r"Examples?: hpcforge ", " ".join(out.split()))


def test_help_has_one_line_for_each_command_and_ends_with_commands_to_type(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    listed = out[: out.index("Exit codes:")]
    commands = dict(re.findall(r"^\u2502 ([a-z]\S*) +(.*?) *\u2502$", listed, re.M))
    assert set(commands) == {*_VERBS}
    assert [name for name, text in commands.items() if not text.endswith(".")] == [], "a line goes on in the next one"
    following = out[out.index("What to type next:") :]
    typed = re.findall(r"hpcforge ([a-z]+)", following)
    assert typed == ["rehearse", "apply", "init", "validate", "plan"]
    assert following.count("hpcforge ") == len(typed) + 1, "and `hpcforge COMMAND --help`"


def test_alone_it_shows_what_to_type_next_for_the_blueprint_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HPCFORGE_BLUEPRINT", raising=False)
    monkeypatch.chdir(tmp_path)

    def following() -> str:
        run([])
        captured = capsys.readouterr()
        return (captured.out + captured.err).partition("What to type next:")[2]

    assert "hpcforge init SITE.yaml" in following()
    (tmp_path / "my site.yaml").write_text("schema: 1\nname: x\n")
    for verb in ("validate", "plan", "apply", "status", "verify"):
        assert f"hpcforge {verb} 'my site.yaml'" in following()
    for name in "abcdefg":
        (tmp_path / f"{name}.yaml").write_text("schema: 1\nname: x\n")
    (tmp_path / "machines.yaml").write_text("schema: 1\nnodes: {}\n")
    several = following()
    assert "hpcforge plan BLUEPRINT" in several
    assert re.findall(r"^[ \u2502]*(\w\.yaml)", several, re.M) == [f"{name}.yaml" for name in "abcdef"]
    assert "and 2 more" in several
    assert "export HPCFORGE_BLUEPRINT=a.yaml" in several
    assert "machines.yaml" not in several
    monkeypatch.setenv("HPCFORGE_BLUEPRINT", "other.yaml")
    assert "hpcforge plan other.yaml" in following()


def test_the_blueprint_may_stand_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HPCFORGE_BLUEPRINT", "blueprints/rehearsal.yaml")
    monkeypatch.chdir(REPOSITORY)
    assert run(["validate"]) == 0
    assert "blueprints/rehearsal.yaml is valid" in capsys.readouterr().err


def test_the_schema_of_a_blueprint_knows_the_roles_that_it_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ours" / "motd").mkdir(parents=True)
    (tmp_path / "ours" / "motd" / "role.yaml").write_text(
        "description: A text.\nvars:\n  text: {type: text, description: What it says.}\non: 'true'\n"
    )
    path = tmp_path / "site.yaml"
    path.write_text("role_folders: [ours]\n")
    assert run(["schema", "blueprint", str(path)]) == 0
    chosen = json.loads(capsys.readouterr().out)["$defs"]["ChosenMotd"]["properties"]
    assert chosen["text"]["description"] == "What it says. Required where the role runs."
    path.write_text("role_folders: [ouers]\n")
    assert run(["schema", "blueprint", str(path)]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"{path}:1:16: error: the folder `ouers` does not exist" in captured.err
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
    assert run(["schema", "blueprint", str(path)]) == 0
    text = capsys.readouterr().out
    assert '"Writes.' in text
    assert '"allreduce": {' in text
    path.write_text("acceptance: {folders: [ouers]}\n")
    assert run(["schema", "blueprint", str(path)]) == 3
    assert f"{path}:1:24: error: the folder `ouers` does not exist" in capsys.readouterr().err


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
