"""Fetching pinned wheels, with the real pip and a small index on disk."""

from __future__ import annotations

import ensurepip
import hashlib
import os
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from hpcforge.downloads.artifacts import FetchError, fetch
from hpcforge.plan.desired import Artifact


@pytest.fixture(params=["this environment's pip", "the pip that Python brings"])
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """The operator's pip looks here and nowhere else; a pip of another age answers the same."""
    if request.param != "this environment's pip":
        wheels = Path(sysconfig.get_config_var("WHEEL_PKG_DIR") or Path(ensurepip.__file__).parent / "_bundled")
        [brought] = wheels.glob("pip-*.whl")
        monkeypatch.setenv("PYTHONPATH", str(brought))
    folder = tmp_path / "shelf"
    folder.mkdir()
    config = tmp_path / "pip.conf"
    config.write_text(f"[global]\nno-index = true\nfind-links = {folder}\n")
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    return folder


def make_wheel(shelf: Path, name: str, version: str, tag: str) -> Artifact:
    file = shelf / f"{name}-{version}-{tag}.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
        archive.writestr(f"{info}/RECORD", "")
    return Artifact(f"wheels/{file.name}", "pip", hashlib.sha256(file.read_bytes()).hexdigest())


def test_wheels_for_the_nodes_python_are_fetched_once_unless_damaged(shelf: Path, tmp_path: Path) -> None:
    # A Python that no operator host runs: it must come from the tags, not from who asks.
    wheels = (
        make_wheel(shelf, "torch", "9.1+cpu", "cp39-cp39-manylinux_2_28_aarch64"),
        make_wheel(shelf, "torch_needs", "1.0", "py3-none-any"),
        make_wheel(shelf, "speedups", "3", "cp39-cp39-manylinux2014_aarch64.manylinux_2_17_aarch64"),
    )
    artifacts, said = tmp_path / "cache" / "artifacts", list[str]()
    fetch(wheels, artifacts, said.append)
    assert sorted(path.name for path in artifacts.iterdir()) == sorted(wheel.sha256 for wheel in wheels)
    (artifacts / wheels[1].sha256).write_bytes(b"half")
    for path in shelf.iterdir():
        if path.name != Path(wheels[1].name).name:
            path.unlink()  # what is whole is not asked for again
    fetch(wheels, artifacts, said.append)
    assert hashlib.sha256((artifacts / wheels[1].sha256).read_bytes()).hexdigest() == wheels[1].sha256


def test_the_operators_constraints_do_not_hold_for_what_nodes_get(shelf: Path, tmp_path: Path) -> None:
    """A site's pip.conf caps torch for this host; the pin with its digest is what the nodes' catalog says."""
    wheel, caps = make_wheel(shelf, "torch", "9.1+cpu", "cp39-cp39-manylinux_2_28_aarch64"), tmp_path / "caps.txt"
    caps.write_text("torch<=2.14.1\n")
    with Path(os.environ["PIP_CONFIG_FILE"]).open("a") as config:
        config.write(f"constraint = {caps}\n")
    fetch((wheel,), tmp_path / "cache", lambda _: None)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [wheel.sha256]


def test_an_environment_without_pip_is_told_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    wheel = Artifact("wheels/missing-1.0-py3-none-any.whl", "pip", "0" * 64)
    with pytest.raises(FetchError, match="bare/bin/python has no pip") as failure:
        fetch((wheel,), tmp_path / "cache", lambda _: None)
    assert failure.value.hint == f"{sys.executable} -m ensurepip"


def test_a_pip_that_lies_around_is_not_run(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel, downloads = make_wheel(shelf, "torch_needs", "1.0", "py3-none-any"), tmp_path / "downloads"
    downloads.mkdir()
    (downloads / "pip.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(downloads)
    fetch((wheel,), tmp_path / "cache", lambda _: None)
    assert not (tmp_path / "ran").exists()


def test_another_content_than_pinned_is_refused(shelf: Path, tmp_path: Path) -> None:
    wheel = make_wheel(shelf, "torch_needs", "1.0", "py3-none-any")
    said: list[str] = []
    with pytest.raises(FetchError, match="THESE PACKAGES DO NOT MATCH THE HASHES") as failure:
        fetch((Artifact(wheel.name, "pip", "0" * 64),), tmp_path / "cache", said.append)
    assert failure.value.hint
    assert list((tmp_path / "cache").iterdir()) == []
    assert not any("download.pytorch.org" in line for line in said)


@pytest.mark.usefixtures("shelf")
def test_what_is_nowhere_is_named(tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(FetchError, match=r"missing-1\.0-py3-none-any\.whl"):
        fetch((Artifact("wheels/missing-1.0-py3-none-any.whl", "pip", "0" * 64),), tmp_path, said.append)
    assert any("download.pytorch.org" in line for line in said)


def test_a_full_or_closed_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FetchError, match="file/artifacts"):
        fetch((), tmp_path / "file" / "artifacts", lambda _: None)
