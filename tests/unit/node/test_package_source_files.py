"""Where package sources are, and how they are disabled; forms of sources.list(5)."""

import subprocess

import pytest

from hpcforge.node import package_source_files

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
    entries = list(package_source_files.entries(tmp_path / "none", tmp_path))
    assert [(entry.line, " ".join(entry.uris), " ".join(entry.suites)) for entry in entries] == found
    for entry in reversed(entries):
        subprocess.run(["sh", "-c", entry.disable], check=True)
    assert list(package_source_files.entries(tmp_path / "none", tmp_path)) == []


def test_addresses_and_messages_are_matched(tmp_path):
    [_, entry] = package_source_files.stanzas(tmp_path, STANZAS)
    assert entry.has("https://last.example.org/apt/pool/a.deb")
    assert not entry.has("https://last.example.org/apt-other/a.deb")
    assert entry.named_in("https://last.example.org/apt stable InRelease")
    assert not entry.named_in("https://last.example.org/apt testing InRelease")
    assert package_source_files.plain("at https://u:p@a.example.org/x") == "at https://a.example.org/x"
