"""The file of records: replaced as a whole, one change at a time, and none is as good as a lost one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hpcforge.metal.netboot import Records, RecordsError
from hpcforge.metal.netboot.decide import Record


def test_records_are_kept_by_node(tmp_path: Path) -> None:
    records = Records(tmp_path)
    assert records.read() == {}
    names = [f"w{number}" for number in range(20)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: Records(tmp_path).change(name, lambda _: Record(name, "wanted", 1.0, "i")), names))
    assert set(records.read()) == set(names)
    assert records.change("w1", lambda _: None) is None
    assert records.path.stat().st_mode & 0o077 == 0


def test_a_damaged_file_is_said_and_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "records.json").write_text('{"w1": {"state": "everything"}}')
    with pytest.raises(RecordsError, match="cannot be read") as raised:
        Records(tmp_path).read()
    assert "boots its own disk" in raised.value.hint
