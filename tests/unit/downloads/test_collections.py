"""Collections of Ansible on the operator host: unpacked as pinned, or refused."""

import io
import json
import shutil
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from hpcforge.downloads.artifacts import FetchError
from hpcforge.downloads.collections import unpack
from hpcforge.plan.desired import Artifact, Collection

FILES = {"plugins/modules/thing.py": b"print()\n", "README.md": b"read me\n"}


def _manifest(version: str = "1.2.3", **more: object) -> bytes:
    return json.dumps({"collection_info": {"namespace": "site", "name": "tools", "version": version, **more}}).encode()


def _tarball(folder: Path, files: Mapping[str, bytes], link: str | None = None) -> Collection:
    with tarfile.open(folder / "a", "w:gz") as tarball:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tarball.addfile(entry, io.BytesIO(content))
        if link is not None:
            entry = tarfile.TarInfo("plugins/link")
            entry.type, entry.linkname = tarfile.SYMTYPE, link
            tarball.addfile(entry)
    return Collection("site.tools", "1.2.3", Artifact("collections/t.tar.gz", "https://example.org/t.tar.gz", "a"))


def _wheel(folder: Path, files: Mapping[str, bytes]) -> Collection:
    with zipfile.ZipFile(folder / "b", "w") as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
    return Collection("site.tools", "1.2.3", Artifact("collections/w.whl", "pip", "b"))


def _home(folder: Path, collection: Collection) -> Path:
    return folder / collection.folder / "ansible_collections/site/tools"


def test_a_tarball_has_its_own_folder(tmp_path: Path) -> None:
    collection = _tarball(tmp_path, {"MANIFEST.json": _manifest(), **FILES})
    unpack([collection], tmp_path)
    assert (_home(tmp_path, collection) / "plugins/modules/thing.py").read_bytes() == b"print()\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "a.unpacked"]


def test_of_a_wheel_only_the_collection_is_unpacked(tmp_path: Path) -> None:
    inside = {f"ansible_collections/site/tools/{name}": content for name, content in FILES.items()}
    manifest = {"ansible_collections/site/tools/MANIFEST.json": _manifest()}
    collection = _wheel(tmp_path, {**inside, **manifest, "ansible_collections/site/other/x": b"", "../x": b""})
    unpack([collection], tmp_path)
    found = {str(path.relative_to(tmp_path / "b.unpacked")) for path in (tmp_path / "b.unpacked").rglob("*.*")}
    assert {name for name in found if "/other/" in name} == set()
    assert (_home(tmp_path, collection) / "README.md").read_bytes() == b"read me\n"


@pytest.mark.parametrize("edit", ["edited", "removed", "added", "link", "gone"])
def test_what_differs_from_the_archive_is_written_again(tmp_path: Path, edit: str) -> None:
    collection = _tarball(tmp_path, {"MANIFEST.json": _manifest(), **FILES})
    unpack([collection], tmp_path)
    home = _home(tmp_path, collection)
    if edit == "edited":
        (home / "README.md").write_text("other")
    elif edit == "removed":
        (home / "README.md").unlink()
    elif edit == "added":
        (home / "plugins/modules/own.py").write_text("")
    elif edit == "link":
        (home / "plugins").rename(tmp_path / "elsewhere")
        (home / "plugins").symlink_to(tmp_path / "elsewhere")
    else:
        shutil.rmtree(home)
    unpack([collection], tmp_path)
    assert not (home / "plugins").is_symlink()
    assert {path.name for path in home.rglob("*") if path.is_file()} == {"MANIFEST.json", "README.md", "thing.py"}
    assert (home / "README.md").read_bytes() == b"read me\n"


def test_what_is_whole_stays_with_the_bytecode_that_ansible_left(tmp_path: Path) -> None:
    collection = _tarball(tmp_path, {"MANIFEST.json": _manifest(), **FILES})
    unpack([collection], tmp_path)
    bytecode = _home(tmp_path, collection) / "plugins/__pycache__"
    bytecode.mkdir()
    unpack([collection], tmp_path)
    assert bytecode.exists()


@pytest.mark.parametrize("name", ["../out", "/etc/out", "plugins/../../out"])
def test_a_path_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "store").mkdir()
    collections = [
        _tarball(tmp_path / "store", {"MANIFEST.json": _manifest(), name: b""}),
        _wheel(tmp_path / "store", {f"ansible_collections/site/tools/{name}": b""}),
    ]
    for collection in collections:
        with pytest.raises(FetchError, match="not a path below"):
            unpack([collection], tmp_path / "store")
    assert [path.name for path in tmp_path.rglob("out")] == []


def test_a_link_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="plugins/link' is a link"):
        unpack([_tarball(tmp_path, {"MANIFEST.json": _manifest()}, link="/etc")], tmp_path)


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (_manifest("1.2.4"), "it has site.tools 1.2.4, but site.tools 1.2.3 is pinned"),
        (_manifest(name="others"), "it has site.others 1.2.3, but"),
        (_manifest(dependencies={"ansible.utils": "*"}), "site.tools needs ansible.utils"),
        (b"{}", "'collection_info' in MANIFEST.json"),
        (b"[]", "cannot be read"),
        (b"{", "cannot be read"),
    ],
)
def test_a_collection_that_says_otherwise_is_refused(tmp_path: Path, manifest: bytes, said: str) -> None:
    with pytest.raises(FetchError, match=said):
        unpack([_tarball(tmp_path, {"MANIFEST.json": manifest})], tmp_path)


def test_a_tree_of_sources_is_no_collection(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match=r"no MANIFEST\.json") as refused:
        unpack([_tarball(tmp_path, {"tools-1.2.3/galaxy.yml": b""})], tmp_path)
    assert refused.value.hint == "build the archive with: ansible-galaxy collection build"


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x1f\x8b\x08\x00"])
def test_no_archive(tmp_path: Path, content: bytes) -> None:
    collection = _tarball(tmp_path, {})
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(FetchError, match="not a complete archive"):
        unpack([collection], tmp_path)


def test_a_collection_may_need_another_of_the_role(tmp_path: Path) -> None:
    first = _tarball(tmp_path, {"MANIFEST.json": _manifest(dependencies={"site.more": "*"})})
    inside = "ansible_collections/site/more/MANIFEST.json"
    more = {"collection_info": {"namespace": "site", "name": "more", "version": "2"}}
    _wheel(tmp_path, {inside: json.dumps(more).encode()})
    unpack([first, Collection("site.more", "2", Artifact("collections/w.whl", "pip", "b"))], tmp_path)
    assert (tmp_path / "b.unpacked/site.more" / inside).exists()
