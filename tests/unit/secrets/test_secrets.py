import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hpcforge import bundled
from hpcforge.plan.roles.role import declared_secrets, load_roles
from hpcforge.plan.secrets import Secret, SecretSpec, Use
from hpcforge.secrets.secret_files import digests, unfit
from hpcforge.secrets.secrets import (
    SecretsError,
    default_identity_path,
    ensure_secrets,
    kinds_of,
    made_up,
    read_secrets,
    rotate_secret,
    set_secret,
    store_revoked,
)

# Those that are made: what a site provides for a shipped role is nothing that is there by itself.
KINDS = {
    name: kind for name, kind in kinds_of(declared_secrets(load_roles(bundled.root() / "roles"))).items() if kind.make
}


def test_made_once_and_kept(tmp_path: Path) -> None:
    file, identity = tmp_path / "site.age", tmp_path / "config" / "age.key"
    umask = os.umask(0)  # modes are ours, not the umask's
    try:
        first = ensure_secrets(file, identity, KINDS)
    finally:
        os.umask(umask)
    assert first.keys() == KINDS.keys()
    assert (len(first["munge_key"]), len(first["plan_key"])) == (1024, 32)
    assert first["ssh_host_ca"].startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----\n")
    assert ensure_secrets(file, identity, KINDS) == first == read_secrets(file, identity)
    assert file.stat().st_mode & 0o777 == 0o600
    assert identity.stat().st_mode & 0o777 == 0o600
    assert identity.parent.stat().st_mode & 0o777 == 0o700
    assert first["munge_key"] not in file.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config", "site.age"]


def test_nothing_is_made_by_reading(tmp_path: Path) -> None:
    assert read_secrets(tmp_path / "site.age", tmp_path / "age.key") == {}
    assert list(tmp_path.iterdir()) == []
    assert digests({}) == {}


@pytest.mark.parametrize("damage", [b"", b"age-encryption.org/v1\nnothing"])
def test_a_damaged_file_is_never_replaced(tmp_path: Path, damage: bytes) -> None:
    file, identity = tmp_path / "site.age", tmp_path / "age.key"
    ensure_secrets(file, identity, KINDS)
    file.write_bytes(damage)
    with pytest.raises(SecretsError, match="cannot be opened"):
        ensure_secrets(file, identity, KINDS)
    assert file.read_bytes() == damage


def test_another_key_does_not_open_it(tmp_path: Path) -> None:
    file = tmp_path / "site.age"
    ensure_secrets(file, tmp_path / "one.key", KINDS)
    ensure_secrets(tmp_path / "other.age", tmp_path / "two.key", KINDS)
    with pytest.raises(SecretsError, match=r"cannot be opened with .*two\.key"):
        read_secrets(file, tmp_path / "two.key")
    with pytest.raises(SecretsError, match="its key file is missing"):
        ensure_secrets(file, tmp_path / "gone.key", KINDS)


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "not-a-folder").write_text("")
    with pytest.raises(SecretsError, match="cannot write"):
        ensure_secrets(tmp_path / "not-a-folder" / "site.age", tmp_path / "age.key", KINDS)


def test_the_identity_can_be_named_by_a_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HPCFORGE_IDENTITY", str(tmp_path / "mine.key"))
    assert default_identity_path() == tmp_path / "mine.key"


def _without(file: Path, identity: Path, name: str) -> dict[str, bytes]:
    """A secrets file as a version of hpcforge made it that knew no such secret."""
    return ensure_secrets(file, identity, {one: kind for one, kind in KINDS.items() if one != name})


def test_a_file_of_an_older_version_gets_what_it_lacks(tmp_path: Path) -> None:
    file, identity = tmp_path / "site.age", tmp_path / "age.key"
    old = _without(file, identity, "plan_key")
    assert "plan_key" not in old
    new = ensure_secrets(file, identity, KINDS)
    assert {name: value for name, value in new.items() if name != "plan_key"} == old


def test_what_a_newer_version_made_is_kept(tmp_path: Path) -> None:
    file, identity = tmp_path / "site.age", tmp_path / "age.key"
    new = ensure_secrets(file, identity, KINDS)
    _without(file, identity, "munge_key")
    rotate_secret(file, identity, KINDS, "plan_key")
    assert read_secrets(file, identity)["munge_key"] == new["munge_key"]


def test_rotating_replaces_one(tmp_path: Path) -> None:
    file, identity = tmp_path / "site.age", tmp_path / "age.key"
    before = ensure_secrets(file, identity, KINDS)
    value = rotate_secret(file, identity, KINDS, "munge_key")
    after = read_secrets(file, identity)
    assert after == before | {"munge_key": value}
    assert value != before["munge_key"]
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(SecretsError, match="has no secret 'mung_key'") as caught:
        rotate_secret(file, identity, KINDS, "mung_key")
    assert ", ".join(KINDS) in caught.value.hint
    with pytest.raises(SecretsError, match="no secret"):
        rotate_secret(tmp_path / "other.age", identity, KINDS, "munge_key")
    assert not (tmp_path / "other.age").exists()


def test_what_is_revoked_stays_until_there_is_another_authority(tmp_path: Path) -> None:
    file, identity = tmp_path / "site.age", tmp_path / "age.key"
    ensure_secrets(file, identity, KINDS)
    store_revoked(file, identity, ["ssh-ed25519 AAAA root@w03"])
    before = file.read_bytes()
    store_revoked(file, identity, ["ssh-ed25519 AAAA"])
    assert file.read_bytes() == before  # nothing new, nothing written
    store_revoked(file, identity, ["ssh-rsa BBBB"])
    assert read_secrets(file, identity)["revoked_host_keys"] == b"ssh-ed25519 AAAA\nssh-rsa BBBB\n"
    rotate_secret(file, identity, KINDS, "munge_key")
    assert "revoked_host_keys" in read_secrets(file, identity)
    rotate_secret(file, identity, KINDS, "ssh_host_ca")
    assert "revoked_host_keys" not in read_secrets(file, identity)


def test_two_at_once_agree(tmp_path: Path) -> None:
    file, identity = tmp_path / "site.age", tmp_path / "age.key"
    ensure_secrets(tmp_path / "other.age", identity, KINDS)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: ensure_secrets(file, identity, KINDS), range(8)))
    assert all(one == made[0] for one in made)


_FIRST_USE = """
import sys, time
from pathlib import Path
from hpcforge import bundled
from hpcforge.plan.roles.role import declared_secrets, load_roles
from hpcforge.secrets.secrets import ensure_secrets, kinds_of
KINDS = kinds_of(declared_secrets(load_roles(bundled.root() / "roles")))
folder, name = Path(sys.argv[1]), sys.argv[2]
(folder / f"ready-{name}").touch()
while not (folder / "go").exists():
    pass
ensure_secrets(folder / name / "site.age", folder / "config" / "age.key", KINDS)
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
    ensure_secrets(file, identity, KINDS)
    identity.chmod(mode)
    with pytest.raises(SecretsError, match=f"the key file .* .mode 0{mode:o}.") as caught:
        read_secrets(file, identity)
    subprocess.run(["sh", "-c", caught.value.hint], check=True)
    assert read_secrets(file, identity).keys() == KINDS.keys()


LICENCE = Secret("licence", "app", SecretSpec(description="what the vendor gave", provided=True))
PASSWORD = Secret("password", "app", SecretSpec(description="of the database", length=32))
PIN = Secret("pin", "app", SecretSpec(description="of the database", length=40, alphabet="hex"))
OF_A_ROLE = kinds_of({one.name: one for one in (LICENCE, PASSWORD, PIN)})
KEY = Secret("key", "app", SecretSpec(description="of many clusters", provided=True, binary=True, min_bytes=32))


def test_what_a_role_declares_is_made_as_it_says(tmp_path: Path) -> None:
    file, identity = tmp_path / "site.age", tmp_path / "age.key"
    made = ensure_secrets(file, identity, OF_A_ROLE)
    assert made.keys() == {"password", "pin", "plan_key", "ssh_host_ca"}  # the site provides the other
    assert len(made["password"]) == 32
    assert made["password"].isalnum()
    assert len(bytes.fromhex(made["pin"].decode())) == 20
    assert rotate_secret(file, identity, OF_A_ROLE, "password") != made["password"]
    with pytest.raises(SecretsError, match="provided by the site, not made"):
        rotate_secret(file, identity, OF_A_ROLE, "licence")


def test_a_key_has_a_least_size(tmp_path: Path) -> None:
    file, identity = tmp_path / "site.age", tmp_path / "age.key"
    with pytest.raises(SecretsError, match="key: 31 bytes"):
        set_secret(file, identity, kinds_of({"key": KEY}), "key", bytes(31))
    assert not file.exists()
    assert set_secret(file, identity, kinds_of({"key": KEY}), "key", bytes(32))


def test_what_the_site_provides_is_set_and_nothing_else(tmp_path: Path) -> None:
    file, identity = tmp_path / "site.age", tmp_path / "age.key"
    assert set_secret(file, identity, OF_A_ROLE, "licence", b"abc")
    before = file.read_bytes()
    assert not set_secret(file, identity, OF_A_ROLE, "licence", b"abc")
    for name, value, said in (
        ("password", b"abc", "hpcforge generates password"),
        ("license", b"abc", "'license' is not a secret that the site provides"),
        ("licence", b"", "0 bytes"),
        ("licence", bytes(65537), "65537 bytes"),
    ):
        with pytest.raises(SecretsError, match=said):
            set_secret(file, identity, OF_A_ROLE, name, value)
    assert file.read_bytes() == before
    assert read_secrets(file, identity) == {"licence": b"abc"}


@pytest.mark.parametrize(
    ("value", "inside", "why"),
    [
        (None, False, "is not set"),
        (b"a b", True, ""),
        (b"a\nb", True, "is not text in one line"),
        (b"a\nb", False, ""),
        ("a\u2028b".encode(), True, "is not text in one line"),
        (b"\xff", True, "is not text in one line"),
    ],
)
def test_what_cannot_stand_in_a_line_is_said(value: bytes | None, inside: bool, why: str) -> None:
    use = Use("licence", "app", "/etc/app", inside)
    secrets = {} if value is None else {"licence": value}
    assert list(unfit([use, use], secrets)) == ([(use, why)] if why else [])


def test_digests_say_nothing_without_the_sites_key() -> None:
    one, other = ({"plan_key": key * 32, "licence": b"1234"} for key in (b"a", b"b"))
    assert digests(one) == digests(dict(one))
    assert digests(one)["licence"] != digests(other)["licence"]
    assert digests({**one, "licence": b"1235"})["licence"] != digests(one)["licence"]


def test_in_a_rehearsal_what_a_site_provides_is_made_up(tmp_path: Path) -> None:
    file, identity, kinds = tmp_path / "lab.age", tmp_path / "age.key", kinds_of({"licence": LICENCE})
    assert "licence" not in ensure_secrets(file, identity, kinds)
    made = ensure_secrets(file, identity, made_up(kinds))
    assert made["licence"].isalnum() and len(made["licence"]) == 32
    assert ensure_secrets(file, identity, made_up(kinds)) == made
