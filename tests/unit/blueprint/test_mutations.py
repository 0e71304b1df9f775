"""Every part of a right blueprint, replaced by something else: an answer is given, never a crash."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hpcforge.blueprint.diagnostics import InvalidInput, render_all
from hpcforge.blueprint.reader import plain, read_file
from hpcforge.cluster import load

ROOT = Path(__file__).parents[3]
WHOLE = plain(read_file(ROOT / "blueprints" / "rehearsal.yaml").root)
SITE = plain(read_file(ROOT / "tests" / "unit" / "design" / "facility" / "cases" / "valid.yaml").root)
NETWORKS = plain(read_file(ROOT / "tests" / "unit" / "blueprint" / "cases" / "networks.yaml").root)
INSTEAD: list[Any] = [
    None,
    "",
    "x",
    "0",
    "all",
    "w[01-03]",
    "w[1",
    [],
    ["x"],
    [None],
    {},
    {"x": None},
    {"w[": "y"},
    [[]],
]


def replaced(data: Any, at: tuple[Any, ...], value: Any) -> Any:
    if not at:
        return value
    copy = dict(data) if isinstance(data, dict) else list(data)
    copy[at[0]] = replaced(data[at[0]], at[1:], value)
    return copy


def places(data: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for step, child in items:
        yield from places(child, (*at, step))


def without(data: Any, at: tuple[Any, ...]) -> Any:
    copy = dict(data) if isinstance(data, dict) else list(data)
    if len(at) == 1:
        del copy[at[0]]
    else:
        copy[at[0]] = without(data[at[0]], at[1:])
    return copy


CASES = [
    *((WHOLE, at) for at in places(WHOLE)),
    *((SITE, at) for at in places(SITE) if at and at[0] in ("site", "hardware", "parts", "nodes")),
    *((NETWORKS, at) for at in places(NETWORKS) if at and at[0] in ("networks", "fabrics")),
]


@pytest.mark.parametrize(("whole", "at"), CASES, ids=[".".join(map(str, at)) or "whole" for _, at in CASES])
def test_any_part_replaced(whole: Any, at: tuple[Any, ...], tmp_path: Path) -> None:
    path = tmp_path / "mutant.yaml"
    for mutant in [*(replaced(whole, at, value) for value in INSTEAD), *([without(whole, at)] if at else [])]:
        path.write_text(json.dumps(mutant, indent=1))
        try:
            load(path, judged=True)
        except InvalidInput as error:
            text = render_all(error.diagnostics)
            assert text.startswith(str(path)) and ": error: " in text
            assert len(error.diagnostics) < 12, text


def test_every_length_of_a_blueprint(tmp_path: Path) -> None:
    text = (ROOT / "blueprints" / "rehearsal.yaml").read_text()
    for end in range(0, len(text), 7):
        (tmp_path / "cut.yaml").write_text(text[:end])
        with pytest.raises(InvalidInput):
            load(tmp_path / "cut.yaml")


def test_a_key_file_that_is_not_there_is_said_with_its_path(tmp_path: Path) -> None:
    whole = {**WHOLE, "users": {**WHOLE["users"], "zoe": {"uid": 2999, "keys": ["keys/zoe.pub"]}}}
    (tmp_path / "site.yaml").write_text(json.dumps(whole))
    with pytest.raises(InvalidInput) as caught:
        load(tmp_path / "site.yaml")
    text = render_all(caught.value.diagnostics)
    assert "the file `zoe.pub` does not exist" in text
    assert f"looked for as {tmp_path}/keys/zoe.pub" in text
