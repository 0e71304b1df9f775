"""What a receipt says is ours, what is left over of it, and what was there before."""

import hashlib
from functools import partial

import pytest

from hpcforge.node import backups, kept_on_removal, ownership
from hpcforge.node.kinds import accounts
from hpcforge.node.receipt import EMPTY
from tests.support.resources import GROUP, OWNER


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Where contents from before go, in place of /var/lib."""
    folder = tmp_path / "originals"
    monkeypatch.setattr(backups, "keep", partial(backups.keep, folder=folder))
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
    back = ownership.restore(again, {str(path): {"kept": new}})
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
    one = {"role": "one", "files": [wanted.file(a), wanted.file(b)], "packages": ["dpkg"]}
    two = {"role": "two", "files": [wanted.file(b)], "directories": [wanted.directory(tmp_path / "d")]}
    owned = ownership.intend(EMPTY, [one, two], lacking=["dpkg"])
    assert ownership.surplus(owned, [one, two]) == {}
    packages = {"kind": "package", "names": ["dpkg"], "why": kept_on_removal.PACKAGES.format("apt-get purge")}
    assert ownership.surplus(owned, [two]) == {"one": {"files": [a], "on_remove": "stop", "stays": [packages]}}
    assert ownership.surplus(owned, [{**one, "files": one["files"][:1]}]) == {
        "two": {"files": [b], "directories": [str(tmp_path / "d")], "on_remove": "stop"}
    }
    everything = ownership.surplus(owned, [])
    assert [(role, left["files"]) for role, left in everything.items()] == [("two", [b]), ("one", [a])]  # b told once

    purged = ownership.intend(owned, [{"role": "one", "owns": {"on_remove": "purge"}}])
    assert ownership.surplus(purged, [two])["one"]["packages"] == ["dpkg"]
    assert "stays" not in ownership.surplus(purged, [two])["one"]
    assert "packages" not in ownership.surplus(purged, [{**two, "packages": ["dpkg"]}])["one"]


def test_unowned_roles_are_those_that_are_not_in_the_receipt_in_full(tmp_path, kept, wanted):
    one = {"role": "one", "files": [wanted.file(tmp_path / "a")]}
    more = {"role": "one", "files": [*one["files"], wanted.file(tmp_path / "b")]}
    owned = ownership.intend(EMPTY, [one])
    assert ownership.unowned(owned, [one]) == []
    assert ownership.unowned(owned, [more, {"role": "two", "packages": ["less"]}]) == ["one", "two"]


@pytest.mark.parametrize(
    "what",
    [
        {"packages": ["less"]},
        {"units": [{"name": "one.service"}]},
        {"trees": [{"path": "/opt/one"}]},
        {"leaves": [{"path": "/var/one", "why": "its state"}]},
        {"opaque": {"digest": "d"}},
        {"holds": [{"name": "less"}]},
    ],
)
def test_a_role_that_has_nothing_to_own_is_not_unowned(what):
    """As users without any: it is in no request, so that no receipt would ever have it."""
    bare = {"packages": [], "units": [], "trees": [], "leaves": [], "opaque": None, "checks": []}
    assert ownership.unowned(EMPTY, [{"role": "one", **bare}, {"role": "two", **bare, **what}]) == ["two"]


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


def test_accounts_of_before_are_told_of_when_nobody_wants_them(wanted):
    """Nothing is done to them, but whoever takes a user out is to hear of it."""
    accounts_ = [{"name": name, "uid": 77, "home": "/"} for name in ("root", "nobody-has-this")]
    users = {"role": "users", "accounts": accounts_}
    owned = ownership.intend(EMPTY, [users])
    assert owned.roles["users"]["accounts"] == {"root": False, "nobody-has-this": True}
    assert ownership.surplus(owned, [users]) == {}
    left = ownership.surplus(owned, [{"role": "users", "accounts": users["accounts"][1:]}])
    stays = {"kind": "account", "names": ["root"], "why": accounts.OPEN}
    assert left == {"users": {"accounts": ["root"], "on_remove": "stop", "stays": [stays]}}
    told = [{"role": "users", "wanted": True, **left["users"]}]
    assert ownership.surplus(ownership.forget(owned, told), []) == {
        "users": {"accounts": ["nobody-has-this"], "on_remove": "stop"}
    }


def coded(path, **more):
    """A role whose own code makes what is at a path."""
    return {"role": "coded", "trees": [{"path": str(path)}], "owns": {"trees": [str(path)], **more}}


def test_what_a_roles_code_is_about_to_make_goes_with_it_and_what_was_there_does_not(tmp_path, kept):
    new, old = tmp_path / "made/new", tmp_path / "old"
    old.mkdir()
    owned = ownership.intend(EMPTY, [coded(new, disrupts="drain"), {**coded(old), "role": "other"}])
    assert owned.roles["coded"]["trees"] == {str(new): [str(new), str(new.parent)]}
    assert owned.roles["other"]["trees"] == {str(old): []}
    new.mkdir(parents=True)
    assert ownership.intend(owned, [coded(new)]).roles["coded"]["trees"] == owned.roles["coded"]["trees"]
    left = ownership.surplus(owned._replace(opaque={"coded": "d", "other": "d"}), [])
    assert left["coded"] == {"trees": [str(new)], "on_remove": "stop", "disrupts": "drain"}
    assert left["other"] == {
        "on_remove": "stop",
        "stays": [{"kind": "path", "names": [str(old)], "why": kept_on_removal.BEFORE}],
    }


def test_what_code_made_before_that_was_written_down_is_its_own(tmp_path, kept):
    made = tmp_path / "made"
    made.mkdir()
    before = EMPTY._replace(opaque={"coded": "d"})
    assert ownership.unowned(before, [coded(made)]) == ["coded"]
    assert ownership.intend(before, [coded(made)]).roles["coded"]["trees"] == {str(made): [str(made)]}


def test_code_that_says_nothing_of_what_it_made_is_told_once(tmp_path, kept):
    owned = ownership.intend(EMPTY, [{"role": "site_ntp"}])._replace(opaque={"site_ntp": "d"})
    assert ownership.surplus(owned, [{"role": "site_ntp"}]) == {}
    left = ownership.surplus(owned, [])
    assert left["site_ntp"]["stays"] == [{"kind": "work", "names": ["site_ntp"], "why": kept_on_removal.CODE}]
    assert ownership.surplus(ownership.forget(owned, [{"role": "site_ntp"}]), []) == {}
    says = ownership.intend(
        owned, [{"role": "site_ntp", "owns": {"leaves": [{"path": "/etc/passwd", "why": "theirs"}]}}]
    )
    assert ownership.surplus(says, [])["site_ntp"]["stays"] == [
        {"kind": "path", "names": ["/etc/passwd"], "why": "theirs"}
    ]


def test_what_was_never_installed_does_not_stay(tmp_path, kept, wanted):
    """A driver whose packages could not be fetched was said to stay."""
    made = tmp_path / "driver"
    role = {"role": "driver", "files": [wanted.file(tmp_path / "f")], "packages": ["no-such-driver"]}
    words = [{"path": str(made), "why": "the driver stays"}]
    owned = ownership.intend(EMPTY, [{**role, "owns": {"leaves": words}}], lacking=["no-such-driver"])
    assert owned.roles["driver"]["packages"] == ["no-such-driver"]
    assert "stays" not in ownership.surplus(owned, [])["driver"]
    made.mkdir()
    assert ownership.surplus(owned, [])["driver"]["stays"] == [
        {"kind": "path", "names": [str(made)], "why": "the driver stays"}
    ]


def test_other_words_for_what_stays_are_noted(kept):
    words = [{"path": "/var/x", "why": "its state"}]
    role = {"role": "one", "leaves": words}
    owned = ownership.intend(EMPTY, [{"role": "one"}])
    assert ownership.unowned(owned, [role]) == ["one"]
    assert ownership.unowned(ownership.intend(owned, [{"role": "one", "owns": {"leaves": words}}]), [role]) == []


def test_a_unit_that_ran_before_us_goes_on(kept):
    before = {"ran.service": {"enabled": True, "active": True}, "new.service": {"enabled": False, "active": False}}
    owned = ownership.intend(EMPTY, [{"role": "one"}])
    owned.roles["one"]["units"].update(before)
    left = ownership.surplus(owned, [])["one"]
    assert left["units"] == ["ran.service", "new.service"]
    assert left["stays"] == [{"kind": "unit", "names": ["ran.service"], "why": kept_on_removal.RAN}]


def test_a_role_that_leaves_what_it_has_says_why_where_it_can(tmp_path, kept, wanted):
    named, other = str(tmp_path / "named"), str(tmp_path / "other")
    owns = {"on_remove": "keep", "leaves": [{"path": named, "why": "its name"}, {"path": "/var", "why": "its state"}]}
    owned = ownership.intend(EMPTY, [{"role": "base", "files": [wanted.file(named), wanted.file(other)], "owns": owns}])
    assert ownership.surplus(owned, [])["base"]["stays"] == [
        {"kind": "file", "names": [named], "why": "its name"},
        {"kind": "file", "names": [other], "why": "role base keeps everything"},
        {"kind": "path", "names": ["/var"], "why": "its state"},
    ]


def test_a_group_of_before_stays_and_so_does_one_that_somebody_is_in(kept):
    owned = ownership.intend(
        EMPTY, [{"role": "one", "groups": [{"name": "root", "gid": 0}, {"name": "nobody-has-this", "gid": 1}]}]
    )
    assert owned.roles["one"]["groups"] == {"root": False, "nobody-has-this": True}
    stays = {"kind": "group", "names": ["root"], "why": "it existed before hpcforge"}
    assert ownership.surplus(owned, [])["one"]["stays"] == [stays]
    owned.roles["one"]["groups"] = {"root": True}
    [stays] = ownership.surplus(owned, [])["one"]["stays"]
    assert (stays["names"], "root" in stays["why"]) == (["root"], True)
