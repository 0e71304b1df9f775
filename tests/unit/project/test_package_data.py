"""Each file of data in the package is in the wheel, too."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_each_file_of_data_is_in_the_wheel() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["hpcforge"]
    shipped = {str(path.relative_to(ROOT)) for pattern in patterns for path in (ROOT / "hpcforge").glob(pattern)}
    tracked = subprocess.run(
        ["git", "ls-files", "hpcforge"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert [path for path in tracked if not path.endswith(".py") and path not in shipped] == []
    assert all(any((ROOT / "hpcforge").glob(pattern)) for pattern in patterns)
