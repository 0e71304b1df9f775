"""`hpcforge export`: which files are written, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.cli import run
from tests.support.fake_bmc import Serving
from tests.support.metal_site import MetalSite, metal_site

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJpoPS4bXRaMe6tTySXaOHYpzDJSvNFcFZLYYhJcYgBN"


@pytest.fixture
def site(tmp_path: Path) -> MetalSite:
    (tmp_path / "key.pub").write_text(f"{KEY} ops@here\n")
    return metal_site(tmp_path, Serving(("127.0.0.1", "127.0.0.2", "127.0.0.3"), 443, "a" * 64))


def export(site: MetalSite, *words: str) -> int:
    key = ["--key", str(site.folder / "key.pub"), "-o", str(site.folder / "out")]
    return run(["export", str(site.blueprint), *key, *words])


def test_files_are_written_for_each_node(site: MetalSite, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(site, "--preseed", "--limit", "w[1-2]") == 0
    assert export(site, "--cloud-init", "--limit", "w2") == 0
    out = site.folder / "out"
    written = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    assert written == ["w1.cfg", "w2.cfg", "w2/meta-data", "w2/user-data"]
    assert "uri: http://deb.debian.org/debian-security\n" in (out / "w2" / "user-data").read_text()
    said = capsys.readouterr()
    assert "2 files of w[1-2]" in said.out
    assert "no network-config without a MAC address in the inventory: w2" in said.err
    assert f"apply {site.blueprint} --trust-new" in said.err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "one of --preseed and --cloud-init"),
        (("--preseed", "--cloud-init"), "one of --preseed and --cloud-init"),
        (("--preseed", "--security-mirror", "http://mirror.example.org/security"), "is for --cloud-init"),
        (("--preseed", "--mirror", "http://x/'; reboot"), "not the address of a mirror"),
        (("--cloud-init", "--security-mirror", "ftp://x/"), "--security-mirror ftp://x/: not the address of a mirror"),
        (("--preseed", "--dns", "10.0.0.5 x"), "not an IPv4 address"),
    ],
)
def test_what_is_wrong_writes_nothing(
    site: MetalSite, words: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(site, *words) == 3
    assert why in capsys.readouterr().err
    assert not (site.folder / "out").exists()


def test_a_file_without_a_key_is_refused(site: MetalSite, capsys: pytest.CaptureFixture[str]) -> None:
    (site.folder / "key.pub").write_text("ssh-ed25519 '; reboot\n")
    assert export(site, "--preseed") == 3
    assert "has no ssh public key" in capsys.readouterr().err


def test_the_security_mirror_of_a_site_is_its_own(site: MetalSite) -> None:
    assert export(site, "--cloud-init", "--limit", "w2", "--security-mirror", "http://mirror.example.org/security") == 0
    assert "uri: http://mirror.example.org/security\n" in (site.folder / "out" / "w2" / "user-data").read_text()


def test_a_file_that_was_edited_stays(site: MetalSite, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(site, "--cloud-init", "--limit", "w2") == 0
    out = site.folder / "out"
    edited, other = out / "w2" / "user-data", out / "w2" / "meta-data"
    edited.write_text(edited.read_text() + "timezone: Europe/Berlin\n")
    edited.chmod(0o640)
    other.unlink()
    capsys.readouterr()
    assert export(site, "--cloud-init") == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"{edited}: present with another text, so nothing was written\nhint: " in captured.err
    assert "add --replace" in captured.err
    assert "Berlin" in edited.read_text()
    assert [path.name for path in out.rglob("*") if path.is_file()] == ["user-data"]
    assert export(site, "--cloud-init", "--replace") == 0
    assert "Berlin" not in edited.read_text()
    assert edited.stat().st_mode & 0o777 == 0o640
    assert export(site, "--cloud-init") == 0, "the same files again"


def test_a_name_that_cannot_be_written_leaves_all_files(site: MetalSite) -> None:
    (site.folder / "out" / "w2.cfg").mkdir(parents=True)
    assert export(site, "--preseed", "--replace") == 1
    assert [path for path in site.folder.joinpath("out").iterdir() if path.is_file()] == []


@pytest.mark.parametrize(
    ("disk", "text"),
    [
        ("drives: 2", "RAID 1 of 2 disks"),
        ("partitions_gib: {/var: 20, /scratch: 500}", "/scratch with 500 GiB, /var with 20 GiB"),
        ("drives: 2, partitions_gib: {/var: 20}", "RAID 1 of 2 disks, /var with 20 GiB"),
    ],
)
def test_cloud_init_says_which_disks_it_cannot_make(
    site: MetalSite, disk: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    declared = f'addresses: "10.78.0.[11-12]", system_disk: {{{disk}}}}}'
    blueprint = site.blueprint.read_text().replace('addresses: "10.78.0.[11-12]"}', declared)
    site.blueprint.write_text(blueprint)
    assert export(site, "--cloud-init") == 0
    assert capsys.readouterr().err.count(f"cloud-init makes no system disk: install w[1-2] with {text}, or") == 1
    lines = (site.folder / "out" / "w1" / "user-data").read_text().splitlines()
    assert lines[:2] == [
        "#cloud-config",
        f"# Not in this file, and needed before it is read: system_disk with {text}.",
    ]
    assert "system_disk" not in (site.folder / "out" / "head" / "user-data").read_text()
    assert export(site, "--preseed") == 0
    assert "system disk" not in capsys.readouterr().err
