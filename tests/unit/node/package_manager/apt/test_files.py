"""Where package sources are and how they are disabled, pins of negative priority, and lists that are damaged.

Forms of sources.list(5) and apt_preferences(5).
"""

import hashlib
import subprocess
from pathlib import Path

import pytest

from hpcforge.node.package_manager.apt import files as apt_files

STANZAS = """\
# the distribution
Types: deb deb-src
URIs: http://deb.example.org/debian
Suites: bookworm
 bookworm-updates
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 -----END PGP PUBLIC KEY BLOCK-----

Enabled: no
Types: deb
URIs: http://off.example.org
Suites: ./

Types: deb-src
URIs: http://source.example.org
Suites: ./

Enabled: yes
Types: deb
URIs: https://user:secret@last.example.org/apt/
Suites: stable
"""
LINES = """\
# deb http://off.example.org/debian bookworm main
deb-src http://deb.example.org/debian bookworm main
  deb [ arch=amd64 signed-by=/usr/share/keyrings/a.gpg ] https://a.example.org/apt stable main
deb http://b.example.org ./
"""
PINS = """\
Package: *
Pin: release n=sid
Pin-Priority: 100

# comment
Explanation: broken
package: slurm* src:munge
Pin: version 22*
pin-priority: -10

Package: /^lib/ chrony:any
Pin: release *
Pin-Priority: -1
"""
PREFIX = "deb.example.org_debian_dists_bookworm"
PACKAGES = {
    "main/binary-amd64/Packages": "Package: one\n",
    "main/i18n/Translation-en": "Package: one\nDescription: 1\n",
}


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("site.list", LINES, [(3, "https://a.example.org/apt", "stable"), (4, "http://b.example.org", "./")]),
        (
            "site.sources",
            STANZAS,
            [
                (2, "http://deb.example.org/debian", "bookworm bookworm-updates"),
                (21, "https://user:secret@last.example.org/apt/", "stable"),
            ],
        ),
    ],
)
def test_sources_are_found_and_disabled(tmp_path, name, text, found):
    path = tmp_path / name
    path.write_text(text)
    (tmp_path / "old.list.save").write_text(text)
    entries = list(apt_files.sources(tmp_path / "none", tmp_path))
    assert [(entry.line, " ".join(entry.uris), " ".join(entry.suites)) for entry in entries] == found
    for entry in reversed(entries):
        subprocess.run(["sh", "-c", entry.disable], check=True)
    assert list(apt_files.sources(tmp_path / "none", tmp_path)) == []


def test_addresses_and_messages_are_matched(tmp_path):
    [_, entry] = apt_files.source_stanzas(tmp_path, STANZAS)
    assert entry.has("https://last.example.org/apt/pool/a.deb")
    assert not entry.has("https://last.example.org/apt-other/a.deb")
    assert entry.named_in("https://last.example.org/apt stable InRelease")
    assert not entry.named_in("https://last.example.org/apt testing InRelease")
    assert apt_files.plain("at https://u:p@a.example.org/x") == "at https://a.example.org/x"


def test_records_of_negative_priority_are_found(tmp_path):
    (tmp_path / "site").write_text(PINS)
    (tmp_path / "site.bak").write_text(PINS)  # not read by apt
    pins = list(apt_files.negative_pins(Path("/nonexistent"), tmp_path))
    assert [(pin.first, pin.line, pin.last, pin.priority) for pin in pins] == [(6, 9, 9, -10), (11, 13, 13, -1)]
    assert pins[0].comment_out() == f"sed -i '6,9s/^/#/' {tmp_path}/site"


@pytest.mark.parametrize(("name", "matches"), [("slurmd", True), ("chrony", False)])
def test_packages_are_matched(name, matches):
    [pin] = apt_files.pins_of(Path("x"), "Package: slurm* jq\nPin-Priority: -1\n")
    assert pin.matches(name) is matches


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


def test_lists_that_are_whole_stay(fetched):
    before = sorted(fetched.parent.iterdir())
    assert apt_files.drop_damaged(fetched.parent) == []
    assert sorted(fetched.parent.iterdir()) == before


@pytest.mark.parametrize("length", [0, 5])
def test_a_list_that_lost_content_goes_alone(fetched, length):
    before = set(fetched.parent.iterdir())
    harmed = fetched.with_name(f"{PREFIX}_main_binary-amd64_Packages")
    harmed.write_text(harmed.read_text()[:length])
    assert apt_files.drop_damaged(fetched.parent) == [harmed.name]
    assert before - set(fetched.parent.iterdir()) == {harmed}


@pytest.mark.parametrize("length", [0, 60])
def test_what_is_signed_and_not_whole_goes(fetched, length):
    fetched.write_text(fetched.read_text()[:length])
    told = apt_files.drop_damaged(fetched.parent)
    assert told == ([] if length and fetched.name.endswith("_Release") else [fetched.name])


def test_where_nothing_was_fetched_there_is_nothing_to_say(tmp_path):
    assert apt_files.drop_damaged(tmp_path / "nowhere") == []
