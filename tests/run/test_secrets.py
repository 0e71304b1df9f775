import os
from pathlib import Path

import pytest

from hpcforge.run.secrets import SecretsError, default_identity_path, digests, ensure_secrets, read_secrets


def test_made_once_and_kept(tmp_path: Path) -> None:
    file, identity = tmp_path / "site.age", tmp_path / "config" / "age.key"
    umask = os.umask(0)  # modes are ours, not the umask's
    try:
        first = ensure_secrets(file, identity)
    finally:
        os.umask(umask)
    assert len(first["munge_key"]) == 1024
    assert ensure_secrets(file, identity) == first == read_secrets(file, identity)
    assert file.stat().st_mode & 0o777 == 0o600
    assert identity.stat().st_mode & 0o777 == 0o600
    assert identity.parent.stat().st_mode & 0o777 == 0o700
    assert first["munge_key"] not in file.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config", "site.age"]


def test_nothing_is_made_by_reading(tmp_path: Path) -> None:
    assert read_secrets(tmp_path / "site.age", tmp_path / "age.key") == {}
    assert list(tmp_path.iterdir()) == []
    assert digests({}) == {"munge_key": None}


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
