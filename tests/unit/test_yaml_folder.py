"""Folders of YAML files: an entry is read when it is looked for, and a wrong file is named then."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from hpcforge.yaml_folder import Folder, FolderError


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")

    sides: int


def test_a_file_is_an_entry(tmp_path: Path) -> None:
    (tmp_path / "square.yaml").write_text("sides: 4\n")
    (tmp_path / "cube.txt").write_text("")
    (tmp_path / "more").mkdir()
    shapes = Folder(tmp_path, Shape)
    assert (list(shapes), len(shapes)) == (["square"], 1)
    assert shapes["square"].sides == 4
    assert shapes.get("circle") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"sides: four", "wrong.yaml: sides: Input should be a valid integer"),
        (b"sides: 4\ncolour: red", "wrong.yaml: colour: Extra inputs are not permitted"),
        (b"sides: [", "wrong.yaml: while parsing"),
        (b"sides: \xff", "wrong.yaml: "),
    ],
)
def test_a_wrong_file_stops_nobody_who_does_not_look_for_it(tmp_path: Path, text: bytes, said: str) -> None:
    (tmp_path / "square.yaml").write_text("sides: 4\n")
    (tmp_path / "wrong.yaml").write_bytes(text)
    shapes = Folder(tmp_path, Shape)
    assert shapes["square"].sides == 4
    with pytest.raises(FolderError) as raised:
        shapes["wrong"]
    assert said in str(raised.value)
