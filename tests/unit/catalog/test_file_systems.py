"""Kinds of file systems as data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hpcforge.catalog import load_catalog
from hpcforge.catalog.file_systems import FileSystemKind
from hpcforge.yaml_folder import Folder

KINDS = load_catalog().file_systems


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_right_by_itself(name: str) -> None:
    kind = KINDS[name]
    assert kind.address is None or re.fullmatch(kind.address.pattern, kind.address.example)
    assert "*" in kind.sources
    assert not set(kind.options) & set(kind.refused)
    assert not (kind.mounted_by and (kind.packages or kind.options or kind.served))
    assert kind.mounted_by or {"nosuid", "nodev"} <= set(kind.options)


def test_a_kind_more_is_a_file_more(tmp_path: Path) -> None:
    (tmp_path / "orangefs.yaml").write_text(
        "description: OrangeFS\ntype: pvfs2\npackages: [orangefs-client]\noptions: [nosuid]\nsources: {'*': here}\n"
        "address: {pattern: 'tcp://.+', form: 'tcp://SERVER:PORT/NAME', example: 'tcp://s:3334/fs'}\n"
    )
    kinds = Folder(tmp_path, FileSystemKind)
    assert kinds["orangefs"].packages == ("orangefs-client",)
    assert kinds.get("nfs") is None


ENTRY = {"description": "x", "type": "x", "sources": {"*": "here"}}


@pytest.mark.parametrize(
    "change",
    [
        {"type": "a b"},
        {"options": ["rw,ro"]},
        {"packages": ["a%"]},
        {"sources": {}},
        {"address": {"pattern": "x", "form": "X"}},  # without an example
        {"more": 1},
    ],
)
def test_an_entry_has_words_for_mount_and_a_source(change: dict[str, object]) -> None:
    FileSystemKind.model_validate(ENTRY)
    with pytest.raises(ValueError):
        FileSystemKind.model_validate({**ENTRY, **change})
