"""What a receipt says is ours, what is left over of it, and what was there before."""

import hashlib
from functools import partial

import pytest

from hpcforge.node import originals, ownership
from hpcforge.node.receipt import EMPTY

from .conftest import GROUP, OWNER


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Where contents from before go, in place of /var/lib."""
    folder = tmp_path / "originals"
    monkeypatch.setattr(originals, "keep", partial(originals.keep, folder=folder))
    return folder


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_what_was_there_before_is_taken_down_once(tmp_path, kept, wanted):
    old, new, link = tmp_path / "old", tmp_path / "deep/er/new", tmp_path / "link"
    old.write_text("before us\n")
    old.chmod(0o640)
    link.symlink_to("elsewhere")
    work = [{"role": "one", "files": [wanted.file(path) for path in (old, new, link)]}]
    first = ownership.intend(EMPTY, work)
    files = first.roles["one"]["files"]
    assert files[str(old)]["digest"] == digest("new\n")
    assert (files[str(old)]["before"]["mode"], files[str(old)]["before"]["kept"]) == ("0640", digest("before us\n"))
    assert files[str(new)] == {
        "digest": digest("new\n"),
        "was": None,
        "before": None,
        "made": [str(tmp_path / "deep/er"), str(tmp_path / "deep")],
    }
    assert files[str(link)]["before"] == {"link": "elsewhere", "owner": OWNER, "group": GROUP}
    assert [path.read_text() for path in kept.iterdir()] == ["before us\n"]
    assert {path.stat().st_mode & 0o777 for path in (kept, *kept.iterdir())} == {0o700, 0o600}

    old.write_text("new\n")
    first = ownership.written(first, work)
    files = first.roles["one"]["files"]
    assert not any("was" in file for file in files.values())
    again = ownership.intend(first, [{"role": "one", "files": [wanted.file(old, "newer\n")]}])
    assert again.roles["one"]["files"][str(old)] == {
        **files[str(old)],
        "digest": digest("newer\n"),
        "was": digest("new\n"),
    }
    assert len(list(kept.iterdir())) == 1


def test_what_a_run_that_was_cut_off_left_is_not_taken_for_somebody_elses(tmp_path, kept, wanted):
    path = tmp_path / "f"
    work = [{"role": "one", "files": [wanted.file(path)]}]
    cut_off = ownership.intend(EMPTY, work)
    new, newer, by_hand = digest("new\n"), digest("newer\n"), digest("by hand\n")

    def written(receipt, found):
        return ownership.last_written(receipt, "one", "files", str(path), found)

    assert [written(cut_off, found) for found in (None, new, by_hand)] == [None, new, new]
    path.write_text("new\n")
    done = ownership.written(cut_off, work)
    assert [written(done, found) for found in (None, new, by_hand)] == [new, new, new]
    again = ownership.intend(done, [{"role": "one", "files": [wanted.file(path, "newer\n")]}])
    assert [written(again, found) for found in (new, newer, by_hand)] == [new, newer, newer]
    back = ownership.put_back(again, {str(path): {"kept": new}})
    assert [written(back, found) for found in (new, newer)] == [new, new]


def test_what_was_as_wanted_is_owned_and_what_was_before_it_unknown(tmp_path, kept):
    path = tmp_path / "f"
    path.write_text("as wanted\n")
    owns = {"files": [str(path), str(tmp_path / "absent")], "directories": [str(tmp_path)], "on_remove": "purge"}
    entry = ownership.intend(EMPTY, [{"role": "one", "owns": owns}]).roles["one"]
    assert entry["files"] == {str(path): {"digest": digest("as wanted\n"), "before": "unknown", "made": []}}
    assert entry["directories"] == {str(tmp_path): []}
    assert entry["on_remove"] == "purge"
    assert not kept.exists()


def test_only_what_was_missing_is_a_package_of_ours():
    work = [{"role": "one", "packages": ["less", "bash"]}, {"role": "two", "packages": ["less"]}]
    found = ownership.intend(EMPTY, work, lacking=["less"])
    assert [entry["packages"] for entry in found.roles.values()] == [["less"], ["less"]]
    assert not any(entry["packages"] for entry in ownership.without_packages(found, ["less"]).roles.values())


def test_a_file_that_goes_over_to_another_role_keeps_its_past(tmp_path, kept, wanted):
    path = tmp_path / "f"
    path.write_text("before us\n")
    first = ownership.intend(EMPTY, [{"role": "one", "files": [wanted.file(path)]}])
    path.write_text("new\n")
    second = ownership.intend(first, [{"role": "two", "owns": {"files": [str(path)]}}])
    assert second.roles["two"]["files"] == first.roles["one"]["files"]


def test_surplus_is_what_nobody_wants_any_more(tmp_path, kept, wanted):
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    one = {"role": "one", "files": [wanted.file(a), wanted.file(b)], "packages": ["less"]}
    two = {"role": "two", "files": [wanted.file(b)], "directories": [wanted.directory(tmp_path / "d")]}
    owned = ownership.intend(EMPTY, [one, two], lacking=["less"])
    assert ownership.surplus(owned, [one, two]) == {}
    assert ownership.surplus(owned, [two]) == {"one": {"files": [a], "on_remove": "stop"}}
    assert ownership.surplus(owned, [{**one, "files": one["files"][:1]}]) == {
        "two": {"files": [b], "directories": [str(tmp_path / "d")], "on_remove": "stop"}
    }
    everything = ownership.surplus(owned, [])
    assert [(role, left["files"]) for role, left in everything.items()] == [("two", [b]), ("one", [a])]  # b told once

    purged = ownership.intend(owned, [{"role": "one", "owns": {"on_remove": "purge"}}])
    assert ownership.surplus(purged, [two])["one"]["packages"] == ["less"]
    assert "packages" not in ownership.surplus(purged, [{**two, "packages": ["less"]}])["one"]


def test_unowned_roles_are_those_that_are_not_in_the_receipt_in_full(tmp_path, kept, wanted):
    one = {"role": "one", "files": [wanted.file(tmp_path / "a")]}
    more = {"role": "one", "files": [*one["files"], wanted.file(tmp_path / "b")]}
    owned = ownership.intend(EMPTY, [one])
    assert ownership.unowned(owned, [one]) == []
    assert ownership.unowned(owned, [more, {"role": "two"}]) == ["one", "two"]


def test_what_was_removed_is_forgotten_with_its_role(tmp_path, kept, wanted):
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    work = [
        {"role": "one", "files": [wanted.file(a), wanted.file(b)], "packages": ["less"]},
        {"role": "two", "files": [wanted.file(b)]},
    ]
    owned = ownership.intend(EMPTY, work, lacking=["less"])._replace(
        opaque={"one": "d1", "two": "d2"}, reboots={"one": "b", "two": "b"}
    )
    part = ownership.forget(owned, [{"role": "one", "files": [a], "wanted": True}])
    assert list(part.roles["one"]["files"]) == [b]
    assert part.opaque == owned.opaque
    whole = ownership.forget(owned, [{"role": "one", "files": [a, b]}])
    assert whole.roles == {"one": {**whole.roles["one"], "files": {}, "packages": ["less"]}, "two": whole.roles["two"]}
    assert whole.roles["two"]["files"] == {}
    assert whole.opaque == {"two": "d2"}
    assert whole.reboots == {"two": "b"}


def test_a_file_gets_its_past_back(tmp_path, kept):
    path = tmp_path / "f"
    path.write_text("before us\n")
    path.chmod(0o4750)
    inode_gone = tmp_path / "gone"
    before = originals.keep(str(path))
    path.write_text("ours\n")
    path.chmod(0o600)
    put_back = partial(originals.put_back, folder=kept)
    assert put_back(str(path), before) == "restored"
    assert (path.read_text(), path.stat().st_mode & 0o7777) == ("before us\n", 0o4750)
    assert put_back(str(path), before) is None
    assert put_back(str(inode_gone), None) is None
    assert put_back(str(path), None) == "removed"
    assert put_back(str(path), {"link": "/etc/hosts"}) == "restored"
    assert str(path.readlink()) == "/etc/hosts"
    assert put_back(str(path), {"link": "/etc/hosts"}) is None


def test_a_directory_in_its_place_is_left_alone(tmp_path, kept):
    path = tmp_path / "f"
    (path / "precious").mkdir(parents=True)
    with pytest.raises(originals.NodeError, match="is now a directory"):
        originals.put_back(str(path), None, folder=kept)
    with pytest.raises(originals.NodeError, match="neither a file nor"):
        originals.keep(str(path))
    assert (path / "precious").is_dir()


def test_contents_that_nobody_tells_of_are_deleted(tmp_path, kept, wanted):
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_text(f"before {path.name}\n")
    owned = ownership.intend(EMPTY, [{"role": "one", "files": [wanted.file(path) for path in paths]}])
    left = ownership.forget(owned, [{"role": "one", "files": [str(paths[0]), str(paths[1])], "wanted": True}])
    originals.tidy(left, guarded=[digest("before b\n")], folder=kept)
    assert {path.read_text() for path in kept.iterdir()} == {"before b\n", "before c\n"}


def test_accounts_of_before_are_told_of_when_nobody_wants_them(wanted):
    """Nothing is done to them, but whoever takes a user out is to hear of it."""
    users = {"role": "users", "accounts": [{"name": "root"}, {"name": "nobody-has-this"}]}
    owned = ownership.intend(EMPTY, [users])
    assert owned.roles["users"]["accounts"] == {"root": False, "nobody-has-this": True}
    assert ownership.surplus(owned, [users]) == {}
    left = ownership.surplus(owned, [{"role": "users", "accounts": users["accounts"][1:]}])
    assert left == {"users": {"accounts": ["root"], "on_remove": "stop"}}
    told = [{"role": "users", "wanted": True, **left["users"]}]
    assert ownership.surplus(ownership.forget(owned, told), []) == {
        "users": {"accounts": ["nobody-has-this"], "on_remove": "stop"}
    }
