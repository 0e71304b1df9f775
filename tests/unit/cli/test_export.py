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
