"""`hpcforge catalog`: what is listed, shown and found."""

from __future__ import annotations

import json

import pytest

from hpcforge.catalog import load_catalog
from hpcforge.cli import run


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
