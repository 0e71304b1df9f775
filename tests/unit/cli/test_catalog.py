"""`hpcforge catalog`: what is listed, shown and found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcforge.catalog import load_catalog
from hpcforge.cli import run
from hpcforge.cluster import load
from hpcforge.report.catalog_text import ENTRIES


def test_every_model_of_a_kind_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["catalog", "list", "gpus"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[1] for line in lines] == list(load_catalog().gpus)


def test_a_model_has_its_facts_with_their_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["catalog", "show", "a100-80"]) == 0
    shown = capsys.readouterr().out
    [row] = [line for line in shown.splitlines() if line.startswith("memory_gb ")]
    assert "80 " in row
    assert "datasheet" in row
    assert "In a blueprint: gpus: {model: a100-80, count: 8}" in shown


def test_words_are_found_in_names_before_facts(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["catalog", "search", "H100", "pcie", "--json"]) == 0
    models = json.loads(capsys.readouterr().out)["models"]
    assert models[0]["name"] == "h100-pcie"
    assert {"dgx-h100"} < {model["name"] for model in models}  # its slots are PCIe


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["list", "gpu"], 3, "did you mean `gpus`?"),
        (["show", "dgx-h10"], 3, "did you mean `dgx-h100`?"),
        (["search", "no-such-machine"], 1, "hpcforge catalog list"),
    ],
)
def test_a_wrong_word_has_a_way_on(words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["catalog", *words]) == code
    assert said in capsys.readouterr().err


SITE = Path(__file__).parents[1] / "design" / "facility" / "cases" / "valid.yaml"


@pytest.mark.parametrize("kind", ENTRIES)
def test_a_missing_model_of_each_kind_begins_as_a_file_that_a_blueprint_includes(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    like = ["--like", "dac-400g"] if kind == "cables" else []  # none of whose facts may be unknown
    assert run(["catalog", "new", kind, "ours", "--in", str(tmp_path), *like]) == 0
    assert "include: [ours.yaml]" in capsys.readouterr().err
    (tmp_path / "site.yaml").write_text("include: [ours.yaml]\n" + SITE.read_text(encoding="utf-8"), encoding="utf-8")
    assert load(tmp_path / "site.yaml", judged=True)


def test_a_fact_of_a_begun_model_is_written_without_its_mark(tmp_path: Path) -> None:
    assert run(["catalog", "new", "servers", "ours", "--like", "dgx-h100", "--in", str(tmp_path)]) == 0
    text = (tmp_path / "ours.yaml").read_text(encoding="utf-8")
    assert "    like: dgx-h100\n    # machine:   #" in text
    (tmp_path / "ours.yaml").write_text(text.replace("# max_w:   #", "max_w: 9000   #"), encoding="utf-8")
    blueprint = SITE.read_text(encoding="utf-8").replace("hardware: our-8u,", "hardware: ours,")
    (tmp_path / "site.yaml").write_text("include: [ours.yaml]\n" + blueprint, encoding="utf-8")
    [kind] = load(tmp_path / "site.yaml").placed.room.kinds
    assert (kind.server.max_w, kind.server.rack_units) == (9000, 8)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["server", "ours"], "did you mean `servers`?"),
        (["servers", "Ours!"], "is not a model name"),
        (["servers", "dgx-h100"], "the catalog has dgx-h100 already"),
        (["servers", "ours", "--like", "dgx-h10"], "did you mean `dgx-h100`?"),
        (["servers", "there"], "already exists; nothing was written"),
    ],
)
def test_a_model_that_cannot_begin_writes_nothing(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there.yaml").write_text("mine\n", encoding="utf-8")
    assert run(["catalog", "new", *words, "--in", str(tmp_path)]) == 3
    assert said in capsys.readouterr().err
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"there.yaml": "mine\n"}
