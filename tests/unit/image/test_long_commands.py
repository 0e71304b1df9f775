"""Programs that run for minutes: how they end, and how they are ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.image.errors import ImageError
from hpcforge.image.long_commands import watched


def test_a_program_that_fails_is_told_with_the_end_of_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(ImageError) as caught:
        watched(["sh", "-c", "seq 40; exit 7"], tmp_path, lambda: None)
    said = str(caught.value)
    assert said.startswith("`sh` failed with exit code 7\n26\n")
    assert said.endswith("\n40")


def test_a_program_is_ended_when_we_are(tmp_path: Path) -> None:
    def interrupt() -> None:
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watched(["sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 600"], tmp_path, interrupt)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()
