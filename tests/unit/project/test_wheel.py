"""An installed hpcforge works outside a clone: what it reads at run time is inside the wheel."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
SHIPPED = ("roles", "smoke_tests", "blueprints", "inventory", "vagrant")
DATA = ("hpcforge/catalog", "hpcforge/report/html/templates", "hpcforge/node")


def files_in(source: Path, folder: str) -> set[str]:
    return {str(path.relative_to(source)) for path in (source / folder).rglob("*") if path.is_file()}


def test_what_is_read_at_run_time_is_in_the_wheel(tmp_path: Path) -> None:
    source = tmp_path / "source"
    left_out = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "*.age", "tests", "build", "docs")
    shutil.copytree(REPOSITORY, source, ignore=left_out)
    expected = {f"hpcforge/shipped/{name}" for folder in SHIPPED for name in files_in(source, folder)}
    expected |= {name for folder in DATA for name in files_in(source, folder)}
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
    ]  # setuptools of the lock
    command += ["-w", str(tmp_path), str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert expected - inside == set()
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in inside)
