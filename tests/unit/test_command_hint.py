"""What is printed as the next thing to type can be typed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from hpcforge.cli import run
from hpcforge.command_hint import command_line
from tests.support.shipped import anywhere

REPOSITORY = Path(__file__).parents[2]


def test_only_what_was_given_is_repeated_and_quoted_for_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/opt/my tools/hpcforge", "plan"])
    line = command_line(
        "apply", Path("my site.yaml"), lab=None, limit=["w[01-02]", "$(x)"], only=[], yes=True, plan=None
    )
    assert line == "'/opt/my tools/hpcforge' apply 'my site.yaml' --limit 'w[01-02]' --limit '$(x)' --yes"
    assert shlex.split(line)[1:] == ["apply", "my site.yaml", "--limit", "w[01-02]", "--limit", "$(x)", "--yes"]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A blueprint and an inventory in a folder whose name has to be quoted."""
    folder = tmp_path / "my site; rm"
    folder.mkdir()
    (folder / "machines.yaml").write_text("schema: 1\nnodes: {n1: {address: 10.40.0.1}, n2: {address: 10.40.0.2}}\n")
    blueprint = folder / "two-node-lab.yaml"
    blueprint.write_text(anywhere(REPOSITORY / "blueprints" / blueprint.name))
    return blueprint


def test_after_plan_comes_apply_with_the_same_options(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--inventory", str(site.parent / "machines.yaml"), "--limit", "worker", "--only", "base", "--offline"]
    code = run(["plan", str(site), *options])
    first = capsys.readouterr()
    assert code == 2, first.err
    [line] = [line for line in first.err.splitlines() if line.startswith("Next: ")]
    words = shlex.split(line.removeprefix("Next: "))
    words = words[words.index("apply") + 1 :]
    assert words == [str(site), *options[:-1]]
    assert run(["plan", *words, "--offline"]) == 2
    assert capsys.readouterr().out == first.out
