"""OpenSSH public keys: which lines and paths are accepted."""

from __future__ import annotations

import base64

import pytest
from pydantic import TypeAdapter, ValidationError

from hpcforge.blueprint.public_keys import HostKey, UserKey, is_path, public_key


def key(kind: str, *fields: bytes) -> str:
    """A key with these fields, each behind its length."""
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in (kind.encode(), *fields))
    return f"{kind} {base64.b64encode(blob).decode()}"


ED25519 = key("ssh-ed25519", bytes(32))
RSA = key("ssh-rsa", b"\x01\x00\x01", bytes(256))
ECDSA = key("ecdsa-sha2-nistp256", b"nistp256", bytes(65))
SK = key("sk-ssh-ed25519@openssh.com", bytes(32), b"ssh:")


@pytest.mark.parametrize("line", [ED25519, RSA, ECDSA])
def test_keys_of_hosts_and_users(line: str) -> None:
    assert public_key(f"{line} ada@desk") == f"{line} ada@desk"
    assert TypeAdapter(UserKey).validate_python(line) == TypeAdapter(HostKey).validate_python(line) == line


def test_a_key_on_a_token_is_a_users_and_no_hosts() -> None:
    assert TypeAdapter(UserKey).validate_python(SK) == SK
    with pytest.raises(ValidationError):
        TypeAdapter(HostKey).validate_python(SK)


@pytest.mark.parametrize(
    "line",
    [
        ED25519[:-8],  # cut off
        ED25519.replace("ssh-ed25519", "ssh-rsa"),  # another type than its body has
        key("ssh-ed25519", bytes(31)),
        key("ssh-ed25519"),
        f"ssh-ed25519 {base64.b64encode(bytes(20)).decode()}",
        f'command="id" {ED25519}',  # options
        f"{ED25519}\n{ED25519}",
        ED25519.replace(" ", "  "),
    ],
)
def test_a_damaged_line_or_one_with_options_is_refused(line: str) -> None:
    for check in (public_key, TypeAdapter(UserKey).validate_python, TypeAdapter(HostKey).validate_python):
        with pytest.raises(ValueError):
            check(line)


@pytest.mark.parametrize(("text", "path"), [("keys/ada.pub", True), (f"{ED25519} a.pub", False), ("keys/ada", False)])
def test_the_path_of_a_file_ends_in_pub(text: str, path: bool) -> None:
    assert is_path(text) is path


@pytest.mark.parametrize(("text", "right"), [("keys/ada.pub", True), ("~/.ssh/id_ed25519", False), ("k$.pub", False)])
def test_a_private_key_is_never_named(text: str, right: bool) -> None:
    if right:
        assert TypeAdapter(UserKey).validate_python(text) == text
        return
    with pytest.raises(ValidationError):
        TypeAdapter(UserKey).validate_python(text)


def test_what_is_no_key_is_not_shown() -> None:
    with pytest.raises(ValueError) as refused:
        public_key("-----BEGIN OPENSSH PRIVATE KEY-----")
    assert "PRIVATE" not in str(refused.value)
