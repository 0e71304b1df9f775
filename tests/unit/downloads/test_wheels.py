"""Wheels by pip: what it may take."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.downloads import artifacts


@pytest.mark.parametrize(("limit", "value"), [("_LIMIT_S", 0.5), ("_WHEELS_LIMIT_BYTES", 1000)])
def test_pip_is_stopped_at_its_limits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit: str, value: float
) -> None:
    monkeypatch.setattr(artifacts, limit, value)
    endless = ["sh", "-c", 'head -c 2000 /dev/zero >"$TMPDIR/part"; exec sleep 60']
    assert (artifacts._run_pip(endless, tmp_path, lambda _: None) or "").startswith("stopped after 2000 bytes")
