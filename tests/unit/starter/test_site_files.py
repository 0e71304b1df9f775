"""The file of a site with its machines, and files beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.errors import UsageError
from hpcforge.starter.machines import LeftOut, StarterError
from hpcforge.starter.site_files import place_of, read_site


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A slurm.conf that includes another file."""
    path = tmp_path / "site" / "slurm.conf"
    path.parent.mkdir()
    path.write_text("ClusterName=x\nSlurmctldHost=ctl\nNodeName=w0 CPUs=2\nInclude more/nodes.conf\n")
    (path.parent / "more").mkdir()
    return path


NODES = "NodeName=w1 NodeAddr=10.0.0.1 CPUs=2\n"


def names(path: Path) -> list[str]:
    return [machine.name for machine in read_site(path, "slurm").machines]


def test_a_file_is_read_with_those_beside_it(site: Path) -> None:
    (site.parent / "more" / "nodes.conf").write_text(NODES)
    assert sorted(names(site)) == ["ctl", "w0", "w1"]


@pytest.mark.parametrize("way", ["link", "folder", "dots"])
def test_a_way_out_of_the_folder_is_not_followed(site: Path, way: str) -> None:
    outside = site.parents[1] / "outside"
    outside.mkdir()
    (outside / "nodes.conf").write_text(NODES)
    if way == "link":
        (site.parent / "more" / "nodes.conf").symlink_to(outside / "nodes.conf")
    elif way == "folder":
        (site.parent / "more").rmdir()
        (site.parent / "more").symlink_to(outside)
    else:
        site.write_text(site.read_text().replace("more/", "../outside/"))
    assert sorted(names(site)) == ["ctl", "w0"]


@pytest.mark.parametrize("content", [b"\xff\xfe[\x00", b"[workers]\n\xffw1\n"])
def test_a_file_that_is_not_utf_8_is_named_with_the_place(site: Path, content: bytes) -> None:
    site.write_bytes(content)
    with pytest.raises((UsageError, StarterError)) as refused:
        read_site(site, "ansible")
    assert str(refused.value).startswith(str(site))


def test_a_file_that_is_not_there_or_has_no_machines_is_an_error(site: Path) -> None:
    with pytest.raises(UsageError):
        read_site(site.with_name("nosuch"), None)
    site.write_text("# nothing\n")
    with pytest.raises(StarterError) as refused:
        read_site(site, "ansible")
    assert str(refused.value).startswith(f"{site}: ")
    assert refused.value.hint


@pytest.mark.parametrize(
    ("left_out", "place"),
    [
        (LeftOut(3, "x", "why"), "/site/hosts:3"),
        (LeftOut(0, "x", "why"), "/site/hosts"),
        (LeftOut(3, "x", "why", "host_vars/w1.yml"), "/site/host_vars/w1.yml:3"),
    ],
)
def test_what_is_left_out_has_its_place(left_out: LeftOut, place: str) -> None:
    assert place_of(Path("/site/hosts"), left_out) == place
