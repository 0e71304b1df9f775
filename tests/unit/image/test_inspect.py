"""What no image may hold is found in an archive."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from hpcforge.image.build import faults

EPOCH_S = 1_700_000_000
_KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\n" + "b3BlbnNzaC1rZXktdjEA" * 10 + "\n-----END OPENSSH PRIVATE KEY-----\n"
_FINE = {
    "etc/machine-id": "",
    "etc/resolv.conf": "",
    "etc/shadow": "root:*:19000:0:99999:7:::\nops:!:19000:0:99999:7:::\n",
    "etc/ssh/sshd_config": "HostKey /etc/ssh/ssh_host_ed25519_key\n",
    "usr/bin/ssh-keygen": "\0-----BEGIN OPENSSH PRIVATE KEY-----\n\0\0\0",
    "usr/share/doc/openssl/example.pem": _KEY,
    "var/log/wtmp": "",
}


def archive(path: Path, files: dict[str, str], mtime: int = EPOCH_S, owner: str = "") -> Path:
    with tarfile.open(path, "w") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"./{name}")
            entry.size, entry.mtime, entry.uname = len(text), mtime, owner
            tar.addfile(entry, io.BytesIO(text.encode()))
    return path


def test_one_without_faults_has_none(tmp_path: Path) -> None:
    assert faults(archive(tmp_path / "a.tar", _FINE), EPOCH_S) == ()


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("etc/ssh/ssh_host_ed25519_key", "k", "etc/ssh/ssh_host_ed25519_key must not be there"),
        ("etc/ssh/ssh_host_ed25519_key.pub", "k", "etc/ssh/ssh_host_ed25519_key.pub must not be there"),
        ("etc/munge/munge.key", "k", "etc/munge/munge.key must not be there"),
        ("etc/ssl/private/ssl-cert-snakeoil.key", "k", "etc/ssl/private/ssl-cert-snakeoil.key must not be there"),
        ("var/lib/systemd/random-seed", "k", "var/lib/systemd/random-seed must not be there"),
        ("root/.ssh/authorized_keys", "k", "root/.ssh/authorized_keys must not be there"),
        ("var/cache/apt/archives/munge_1_amd64.deb", "k", "var/cache/apt/archives/munge_1_amd64.deb must not be there"),
        ("etc/machine-id", "0123456789abcdef\n", "etc/machine-id is not empty"),
        ("etc/resolv.conf", "nameserver 10.0.0.1\n", "etc/resolv.conf is not empty"),
        ("var/log/dpkg.log", "2026-11-22 startup\n", "var/log/dpkg.log is not empty"),
        ("opt/vendor/server.pem", f"# ours\n{_KEY}", "opt/vendor/server.pem holds a private key"),
        ("etc/shadow", "root:$y$j9T$abc:19000::::::\n", "etc/shadow: root has a password"),
    ],
)
def test_a_secret_is_found(tmp_path: Path, name: str, text: str, why: str) -> None:
    assert faults(archive(tmp_path / "a.tar", {**_FINE, name: text}), EPOCH_S) == (why,)


def test_times_and_names_of_whoever_built_it_are_found(tmp_path: Path) -> None:
    one = {"etc/machine-id": ""}
    younger = archive(tmp_path / "a.tar", one, EPOCH_S + 1)
    assert faults(younger, EPOCH_S) == ("etc/machine-id is younger than the lock",)
    assert faults(archive(tmp_path / "b.tar", one, owner="ada"), EPOCH_S) == (
        "etc/machine-id has the name of its owner",
    )


def test_one_without_a_machine_id_file_is_none(tmp_path: Path) -> None:
    (wrong,) = faults(archive(tmp_path / "a.tar", {"etc/resolv.conf": ""}), EPOCH_S)
    assert "etc/machine-id is missing" in wrong


def test_one_that_was_cut_short_cannot_be_read(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar", {**_FINE, "usr/bin/big": "x" * 100_000})
    path.write_bytes(path.read_bytes()[:50_000])
    with pytest.raises(tarfile.TarError):
        faults(path, EPOCH_S)
