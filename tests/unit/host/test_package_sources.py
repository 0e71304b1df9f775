from __future__ import annotations

import pytest

from hpcforge.host.commands import HostError
from hpcforge.host.package_sources import check_distribution, codename, is_testing, sources_for, takes_cgroup_v2_alone

DEB822 = """\
Types: deb
# a comment
URIs: http://mirror.example.org/debian/
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb deb-src
URIs: https://mirror.example.org/debian-security
Suites: bookworm-security
Components: main

Types: deb
URIs: https://packages.example.com/tools
Suites: bookworm
Components: main
Signed-By: /usr/share/keyrings/tools.gpg

Types: deb
URIs: http://off.example.org/debian
Suites: bookworm
Components: main
Enabled: no
"""

LINES = """\
# deb http://commented.example.org/debian bookworm main
deb http://mirror.example.org/debian bookworm main non-free-firmware # main
deb [arch=amd64 signed-by=/etc/apt/keyrings/docker.asc] https://download.example.com/linux bookworm main
deb-src http://mirror.example.org/debian bookworm main
deb http://mirror.example.org/debian bookworm-backports main
deb mirror+file:/etc/apt/mirrors/debian.list bookworm main
"""

DEFAULT = """\
deb http://deb.debian.org/debian trixie main
deb http://deb.debian.org/debian trixie-updates main
deb http://deb.debian.org/debian-security trixie-security main
"""


def test_the_hosts_own_mirrors_are_used() -> None:
    assert sources_for("bookworm", {"/etc/apt/sources.list.d/debian.sources": DEB822}) == (
        "deb http://mirror.example.org/debian bookworm main contrib\n"
        "deb http://mirror.example.org/debian bookworm-updates main contrib\n"
        "deb http://mirror.example.org/debian-security bookworm-security main\n"
    )


def test_old_style_lines() -> None:
    assert sources_for("bookworm", {"/etc/apt/sources.list": LINES}) == (
        "deb http://mirror.example.org/debian bookworm main non-free-firmware\n"
    )


@pytest.mark.parametrize(
    "files",
    [{}, {"/etc/apt/sources.list": LINES}, {"a.sources": DEB822}, {"a.sources": "Types: deb\nURIs: http://x\n"}],
)
def test_another_release_than_the_hosts_comes_from_debian(files: dict[str, str]) -> None:
    assert sources_for("trixie", files) == DEFAULT


def test_unknown_releases_are_refused() -> None:
    assert codename("13") == "trixie"
    assert (codename("14"), is_testing("14"), is_testing("13")) == ("forky", True, False)
    with pytest.raises(HostError, match="no lab can be built of Debian '7'"):
        codename("7")


def test_other_distributions_are_refused() -> None:
    check_distribution("debian")
    with pytest.raises(HostError, match="no lab can be built of ubuntu"):
        check_distribution("ubuntu")


def test_a_source_with_a_password_in_its_address_is_no_nodes() -> None:
    text = "deb https://ada:of-ada@mirror.example.org/debian bookworm main\n"
    assert "of-ada" not in sources_for("bookworm", {"/etc/apt/sources.list": text})


def test_slurm_22_05_does_not_start_under_cgroup_v2_alone() -> None:
    assert [takes_cgroup_v2_alone(release) for release in ("12", "13", "14")] == [False, True, True]
