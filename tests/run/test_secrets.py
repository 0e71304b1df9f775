import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hpcforge.run.secrets import (
    KINDS,
    SecretsError,
    default_identity_path,
    digests,
    ensure_secrets,
    read_secrets,
    rotate_secret,
    store_revoked,
)


def test_made_once_and_kept(tmp_path: Path) -> None:
    file, identity = tmp_path / "site.age", tmp_path / "config" / "age.key"
    umask = os.umask(0)  # modes are ours, not the umask's
    try:
        first = ensure_secrets(file, identity)
    finally:
        os.umask(umask)
    assert first.keys() == KINDS.keys()
    assert (len(first["munge_key"]), len(first["plan_key"])) == (1024, 32)
    assert first["ssh_host_ca"].startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----\n")
    assert ensure_secrets(file, identity) == first == read_secrets(file, identity)
    assert file.stat().st_mode & 0o777 == 0o600
    assert identity.stat().st_mode & 0o777 == 0o600
    assert identity.parent.stat().st_mode & 0o777 == 0o700
    assert first["munge_key"] not in file.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config", "site.age"]


def test_nothing_is_made_by_reading(tmp_path: Path) -> None:
    assert read_secrets(tmp_path / "site.age", tmp_path / "age.key") == {}
    assert list(tmp_path.iterdir()) == []
    assert digests({}) == {"munge_key": None, "plan_key": None, "ssh_host_ca": None}


@pytest.mark.parametrize("damage", [b"", b"age-encryption.org/v1\nnothing"])
def test_a_damaged_file_is_never_replaced(tmp_path: Path, damage: bytes) -> None:
    file, identity = tmp_path / "site.age", tmp_path / "age.key"
    ensure_secrets(file, identity)
    file.write_bytes(damage)
    with pytest.raises(SecretsError, match="cannot be opened"):
        ensure_secrets(file, identity)
    assert file.read_bytes() == damage


def test_another_key_does_not_open_it(tmp_path: Path) -> None:
    file = tmp_path / "site.age"
    ensure_secrets(file, tmp_path / "one.key")
    ensure_secrets(tmp_path / "other.age", tmp_path / "two.key")
    with pytest.raises(SecretsError, match=r"cannot be opened with .*two\.key"):
        read_secrets(file, tmp_path / "two.key")
    with pytest.raises(SecretsError, match="not the key that opens it"):
        ensure_secrets(file, tmp_path / "gone.key")


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "not-a-folder").write_text("")
    with pytest.raises(SecretsError, match="cannot write"):
        ensure_secrets(tmp_path / "not-a-folder" / "site.age", tmp_path / "age.key")


def test_the_identity_can_be_named_by_a_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HPCFORGE_IDENTITY", str(tmp_path / "mine.key"))
    assert default_identity_path() == tmp_path / "mine.key"


def _without(file: Path, identity: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """A secrets file as a version of hpcforge made it that knew no such secret."""
    kinds = {one: kind for one, kind in KINDS.items() if one != name}
    with monkeypatch.context() as patch:
        patch.setattr("hpcforge.run.secrets.KINDS", kinds)
        return ensure_secrets(file, identity)


def test_a_file_of_an_older_version_gets_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, identity = tmp_path / "site.age", tmp_path / "age.key"
    old = _without(file, identity, "plan_key", monkeypatch)
    assert "plan_key" not in old
    new = ensure_secrets(file, identity)
    assert {name: value for name, value in new.items() if name != "plan_key"} == old


def test_what_a_newer_version_made_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, identity = tmp_path / "site.age", tmp_path / "age.key"
    new = ensure_secrets(file, identity)
    _without(file, identity, "munge_key", monkeypatch)
    rotate_secret(file, identity, "plan_key")
    assert read_secrets(file, identity)["munge_key"] == new["munge_key"]


def test_rotating_replaces_one(tmp_path: Path) -> None:
    file, identity = tmp_path / "site.age", tmp_path / "age.key"
    before = ensure_secrets(file, identity)
    value = rotate_secret(file, identity, "munge_key")
    after = read_secrets(file, identity)
    assert after == before | {"munge_key": value}
    assert value != before["munge_key"]
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(SecretsError, match="no secret 'mung_key'") as caught:
        rotate_secret(file, identity, "mung_key")
    assert "munge_key, plan_key, ssh_host_ca" in caught.value.hint
    with pytest.raises(SecretsError, match="no secret"):
        rotate_secret(tmp_path / "other.age", identity, "munge_key")
    assert not (tmp_path / "other.age").exists()


def test_what_is_revoked_stays_until_there_is_another_authority(tmp_path: Path) -> None:
    file, identity = tmp_path / "site.age", tmp_path / "age.key"
    ensure_secrets(file, identity)
    store_revoked(file, identity, ["ssh-ed25519 AAAA root@w03"])
    before = file.read_bytes()
    store_revoked(file, identity, ["ssh-ed25519 AAAA"])
    assert file.read_bytes() == before  # nothing new, nothing written
    store_revoked(file, identity, ["ssh-rsa BBBB"])
    assert read_secrets(file, identity)["revoked_host_keys"] == b"ssh-ed25519 AAAA\nssh-rsa BBBB\n"
    rotate_secret(file, identity, "munge_key")
    assert "revoked_host_keys" in read_secrets(file, identity)
    rotate_secret(file, identity, "ssh_host_ca")
    assert "revoked_host_keys" not in read_secrets(file, identity)


def test_two_at_once_agree(tmp_path: Path) -> None:
    file, identity = tmp_path / "site.age", tmp_path / "age.key"
    ensure_secrets(tmp_path / "other.age", identity)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: ensure_secrets(file, identity), range(8)))
    assert all(one == made[0] for one in made)


_FIRST_USE = """
import sys, time
from pathlib import Path
from hpcforge.run.secrets import ensure_secrets
folder, name = Path(sys.argv[1]), sys.argv[2]
(folder / f"ready-{name}").touch()
while not (folder / "go").exists():
    pass
ensure_secrets(folder / name / "site.age", folder / "config" / "age.key")
"""


@pytest.mark.parametrize("clusters", [["one"] * 6, ["one", "two", "three", "four", "five", "six"]])
def test_first_uses_at_once_end_in_one_key_that_opens_all(tmp_path: Path, clusters: list[str]) -> None:
    """Processes, for one cluster or for many: nobody's secrets are sealed with a key that another one replaced."""
    argv = [sys.executable, "-c", _FIRST_USE, str(tmp_path)]
    runs = [subprocess.Popen([*argv, name], stderr=subprocess.PIPE, text=True) for name in clusters]
    while len(list(tmp_path.glob("ready-*"))) < len(set(clusters)):
        assert all(run.poll() is None for run in runs)
    (tmp_path / "go").touch()
    assert [(run.communicate()[1], run.returncode) for run in runs] == [("", 0)] * len(runs)
    identity = tmp_path / "config" / "age.key"
    for name in set(clusters):
        assert read_secrets(tmp_path / name / "site.age", identity).keys() == KINDS.keys()
    assert [path.name for path in identity.parent.iterdir()] == ["age.key"]
    assert identity.stat().st_mode & 0o777 == 0o600
    assert identity.stat().st_nlink == 1


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o660])
def test_a_key_file_that_others_may_open_is_refused(tmp_path: Path, mode: int) -> None:
    file, identity = tmp_path / "site.age", tmp_path / "my age.key"
    ensure_secrets(file, identity)
    identity.chmod(mode)
    with pytest.raises(SecretsError, match=f"open to others than its owner .mode 0{mode:o}.") as caught:
        read_secrets(file, identity)
    subprocess.run(["sh", "-c", caught.value.hint], check=True)
    assert read_secrets(file, identity).keys() == KINDS.keys()
