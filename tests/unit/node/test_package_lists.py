"""apt's package lists: what is not as it was signed is named and taken away, and nothing else."""

import hashlib

import pytest

from hpcforge.node import package_lists

PREFIX = "deb.example.org_debian_dists_bookworm"
PACKAGES = {
    "main/binary-amd64/Packages": "Package: one\n",
    "main/i18n/Translation-en": "Package: one\nDescription: 1\n",
}


def sums(contents):
    lines = (f" {hashlib.sha256(text.encode()).hexdigest()} {len(text)} {name}" for name, text in contents.items())
    return "\n".join(["MD5Sum:", " 0123 4 main/binary-amd64/Packages", "SHA256:", *lines, "Suite: stable\n"])


def signed(text):
    return f"-----BEGIN PGP SIGNED MESSAGE-----\n\n{text}-----BEGIN PGP SIGNATURE-----\n\n-----END PGP SIGNATURE-----\n"


@pytest.fixture(params=["InRelease", "Release"])
def fetched(tmp_path, request):
    """A folder as apt leaves it: what is listed and was not asked for is not there; others' files are."""
    text = sums({**PACKAGES, "main/source/Sources": "Package: one\n"})
    release = tmp_path / f"{PREFIX}_{request.param}"
    release.write_text(signed(text) if request.param == "InRelease" else text)
    for name, content in PACKAGES.items():
        (tmp_path / f"{PREFIX}_{name.replace('/', '_')}").write_text(content)
    (tmp_path / "lock").touch()
    (tmp_path / "partial").mkdir()
    (tmp_path / f"{PREFIX}_main_Contents-amd64.lz4").write_text("x")
    return release


def test_what_is_whole_stays(fetched):
    before = sorted(fetched.parent.iterdir())
    assert package_lists.drop_damaged(fetched.parent) == []
    assert sorted(fetched.parent.iterdir()) == before


@pytest.mark.parametrize("length", [0, 5])
def test_a_list_that_lost_content_goes_alone(fetched, length):
    before = set(fetched.parent.iterdir())
    harmed = fetched.with_name(f"{PREFIX}_main_binary-amd64_Packages")
    harmed.write_text(harmed.read_text()[:length])
    assert package_lists.drop_damaged(fetched.parent) == [harmed.name]
    assert before - set(fetched.parent.iterdir()) == {harmed}


@pytest.mark.parametrize("length", [0, 60])
def test_what_is_signed_and_not_whole_goes(fetched, length):
    fetched.write_text(fetched.read_text()[:length])
    told = package_lists.drop_damaged(fetched.parent)
    assert told == ([] if length and fetched.name.endswith("_Release") else [fetched.name])


def test_where_nothing_was_fetched_there_is_nothing_to_say(tmp_path):
    assert package_lists.drop_damaged(tmp_path / "nowhere") == []
