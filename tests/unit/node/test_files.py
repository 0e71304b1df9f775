"""Files and directories on a real file system, with somebody else trying to redirect them."""

import hashlib
import os
import resource
from pathlib import Path

import pytest

from hpcforge.node import files
from hpcforge.node.events import NodeError
from tests.support.node_program import compare_directory, compare_file, put_directory, put_file

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to play another user")
NOBODY = 65534


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_creates_with_parents(tmp_path, wanted):
    path = tmp_path / "a/b/c.conf"
    assert put_file(wanted.file(path, mode="0640")) == "created"
    assert path.read_text() == "new\n"
    assert mode(path) == 0o640
    assert mode(path.parent) == 0o755
    assert put_file(wanted.file(path, mode="0640")) is None
    assert names(path.parent) == ["c.conf"]


def test_content_is_replaced_as_a_whole(tmp_path, wanted):
    path = tmp_path / "f"
    path.write_text("old\n")
    with path.open() as reader:
        assert put_file(wanted.file(path)) == "content"
        assert reader.read() == "old\n"  # who reads meanwhile sees the old file, never half of the new one
    assert path.read_text() == "new\n"


def test_rights_alone_are_mended_in_place(tmp_path, wanted):
    path = tmp_path / "f"
    path.write_text("new\n")
    path.chmod(0o666)
    inode = path.stat().st_ino
    assert put_file(wanted.file(path, content_base64=None)) == "mode 0666 -> 0644"
    assert (path.stat().st_ino, mode(path)) == (inode, 0o644)


def test_content_that_moved_on_is_not_given_new_rights(tmp_path, wanted):
    path = tmp_path / "f"
    path.write_text("edited meanwhile\n")
    with pytest.raises(NodeError, match="changed while hpcforge changed its mode or owner"):
        put_file(wanted.file(path, content_base64=None))


def test_content_must_be_what_was_planned(tmp_path, wanted):
    with pytest.raises(NodeError, match="digest"):
        put_file(wanted.file(tmp_path / "f", digest="0" * 64))
    assert not (tmp_path / "f").exists()


def test_a_write_that_fails_leaves_the_old_file(tmp_path, wanted):
    path = tmp_path / "f"
    path.write_text("old\n")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # as a full disk: an error half way through
    try:
        with pytest.raises(OSError, match="too large"):
            put_file(wanted.file(path, "x" * 5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text() == "old\n"
    assert names(tmp_path) == ["f"]


def test_symbolic_link_in_the_place_of_a_file_is_replaced_not_followed(tmp_path, wanted):
    victim = tmp_path / "victim"
    victim.write_text("precious\n")
    path = tmp_path / "f"
    path.symlink_to(victim)
    assert compare_file(wanted.file(path))["kind"] == "symlink"
    assert put_file(wanted.file(path)) == "was a symbolic link"
    assert victim.read_text() == "precious\n"
    assert not path.is_symlink()


def test_planted_temporary_name_is_not_followed(tmp_path, wanted):
    victim = tmp_path / "victim"
    victim.write_text("precious\n")
    path = tmp_path / "d/f"
    path.parent.mkdir()
    (path.parent / (".hpcforge-" + hashlib.sha256(b"f").hexdigest()[:16])).symlink_to(victim)
    put_file(wanted.file(path))
    assert victim.read_text() == "precious\n"
    assert names(path.parent) == ["f"]


def test_hard_link_is_replaced_and_its_other_name_left_alone(tmp_path, wanted):
    other = tmp_path / "other"
    other.write_text("new\n")
    other.chmod(0o600)
    path = tmp_path / "f"
    os.link(other, path)
    difference = compare_file(wanted.file(path))
    assert difference["digest"] is None  # so that the content is sent
    assert put_file(wanted.file(path)) == "content"
    assert mode(other) == 0o600
    assert mode(path) == 0o644


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_stays(tmp_path, wanted, make):
    path = tmp_path / "f"
    make(path)
    assert compare_file(wanted.file(path))["exists"]
    with pytest.raises(NodeError, match="move it away"):
        put_file(wanted.file(path))


@as_root
def test_somebody_elses_link_on_the_way_is_refused(tmp_path, wanted):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    assert compare_file(wanted.file(link / "f"))["kind"] == "unsafe"
    with pytest.raises(files.UnsafeError, match=f"link is a symbolic link that .*{'nobody'}"):
        put_file(wanted.file(link / "f"))
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("target", ["elsewhere", "../{name}/elsewhere", "{parent}/elsewhere"])
def test_our_own_link_on_the_way_is_followed(tmp_path, wanted, target):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(target.format(name=tmp_path.name, parent=tmp_path))
    assert put_file(wanted.file(tmp_path / "link/f")) == "created"
    assert (tmp_path / "elsewhere/f").read_text() == "new\n"


def test_links_in_a_circle_end(tmp_path, wanted):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(files.UnsafeError):
        put_file(wanted.file(tmp_path / "a/f"))


def test_directory_that_everybody_may_write_to_is_refused(tmp_path, wanted):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(files.UnsafeError, match="chmod o-w"):
        put_file(wanted.file(folder / "f"))
    folder.chmod(0o1777)
    assert put_file(wanted.file(folder / "f")) == "created"


@pytest.mark.parametrize("path", ["relative", "/etc/../f", "/etc/", "/a/./b", "/nul\0"])
def test_odd_paths_are_refused(path, wanted):
    with pytest.raises(NodeError, match="plain absolute path"):
        put_file(wanted.file(path))


def test_unknown_owner(tmp_path, wanted):
    path = tmp_path / "f"
    path.write_text("new\n")
    assert compare_file(wanted.file(path, owner="nosuchuser"))["exists"]
    with pytest.raises(NodeError, match="user 'nosuchuser' does not exist"):
        put_file(wanted.file(path, owner="nosuchuser"))


def test_compare_tells_what_is_there(tmp_path, wanted):
    path = tmp_path / "f"
    assert compare_file(wanted.file(path))["exists"] is False
    assert compare_file(wanted.file(tmp_path / "no/such/f"))["exists"] is False
    path.write_text("old\n")
    path.chmod(0o644)
    difference = compare_file(wanted.file(path))
    assert (difference["kind"], difference["mode"], difference["text"]) == ("file", "0644", "old\n")
    assert difference["digest"] == hashlib.sha256(b"old\n").hexdigest()
    assert compare_file(wanted.file(path, "old\n")) is None
    assert compare_file(wanted.file(path, "old\n", mode="0600"))["mode"] == "0644"
    assert compare_file(wanted.file(path, digest=None, secret="key"))["text"] is None


@pytest.mark.parametrize("data", [b"\xff\xfe", b"x" * (files.TEXT_LIMIT + 1)])
def test_text_is_left_out_where_it_cannot_be_shown(tmp_path, wanted, data):
    path = tmp_path / "f"
    path.write_bytes(data)
    difference = compare_file(wanted.file(path))
    assert difference["text"] is None
    assert difference["digest"] == hashlib.sha256(data).hexdigest()


def test_reads(tmp_path):
    (tmp_path / "f").write_bytes(b"\xff" + b"x" * files.READ_LIMIT)
    assert files.read_text(str(tmp_path / "f")) == "\ufffd" + "x" * (files.READ_LIMIT - 1)
    (tmp_path / "f").write_text("text\n")
    assert files.read_text(str(tmp_path / "f")) == "text\n"
    assert files.read_text(str(tmp_path)) is None
    assert files.read_text("/nowhere") is None
    assert files.read_text("/proc/meminfo").startswith("MemTotal:")


def test_directories(tmp_path, wanted):
    path = tmp_path / "a/b"
    assert compare_directory(wanted.directory(path))["exists"] is False
    assert put_directory(wanted.directory(path, "2750")) == "created"
    assert mode(path) == 0o2750
    assert compare_directory(wanted.directory(path, "2750")) is None
    assert compare_directory(wanted.directory(path))["mode"] == "2750"
    assert put_directory(wanted.directory(path)) == "mode 2750 -> 0755"
    assert put_directory(wanted.directory(path)) is None


def test_link_in_the_place_of_a_directory_is_refused(tmp_path, wanted):
    (tmp_path / "d").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("d")
    assert compare_directory(wanted.directory(tmp_path / "link"))["kind"] == "symlink"
    with pytest.raises(NodeError, match="symbolic link"):
        put_directory(wanted.directory(tmp_path / "link"))
    assert mode(tmp_path / "d") == 0o700
