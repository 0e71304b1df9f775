"""The cluster's secrets: generated once, kept in an age-encrypted file beside the blueprint.

The file holds a JSON object of name to base64. It is encrypted to the operator's own age identity, a key file of mode
0600 which is made on first use. Values live in memory and travel on standard input of the node program, nowhere else.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets as random_source
from collections.abc import Mapping
from pathlib import Path

import pyrage
from pyrage import x25519

from hpcforge.atomic import write_atomically

# munge 0.5.15 reads keys of 32 to 1024 bytes (MUNGE_MAXIMUM_SECRET_KEY_LEN in its src/libcommon/munge_defs.h).
_GENERATED_BYTES: Mapping[str, int] = {"munge_key": 1024}


class SecretsError(Exception):
    """The secrets file or the identity that opens it cannot be used; `hint` says what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def default_identity_path() -> Path:
    """The key file: $HPCFORGE_IDENTITY, or age.key in the user's configuration directory."""
    named = os.environ.get("HPCFORGE_IDENTITY")
    base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return Path(named) if named else base / "hpcforge" / "age.key"


def read_secrets(file: Path, identity_file: Path) -> dict[str, bytes]:
    """The secrets there are; none if the file is not there yet. Raises `SecretsError`."""
    if not file.exists():
        return {}
    if not identity_file.exists():
        raise SecretsError(
            f"{file} is there, but not the key that opens it: {identity_file}",
            "bring the key file of whoever made it and name it by --identity or HPCFORGE_IDENTITY",
        )
    try:
        plain = pyrage.decrypt(file.read_bytes(), [_read_identity(identity_file)])
        return {name: base64.b64decode(value) for name, value in json.loads(plain).items()}
    except (pyrage.DecryptError, ValueError) as error:
        # from None: the cause could quote what was decrypted
        raise SecretsError(
            f"{file} cannot be opened with {identity_file} ({type(error).__name__})",
            "it was made with another key, or is damaged: name the right key by --identity, or restore the file",
        ) from None


def ensure_secrets(file: Path, identity_file: Path) -> dict[str, bytes]:
    """The secrets, with the ones that are missing generated and written. Raises `SecretsError`."""
    known = read_secrets(file, identity_file)
    missing = {n: random_source.token_bytes(size) for n, size in _GENERATED_BYTES.items() if n not in known}
    if missing:
        if not identity_file.exists():
            identity_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(identity_file, f"{x25519.Identity.generate()}\n".encode())
        known |= missing
        plain = json.dumps({name: base64.b64encode(value).decode() for name, value in known.items()}).encode()
        _write(file, pyrage.encrypt(plain, [_read_identity(identity_file).to_public()]))
    return known


def digests(secrets: Mapping[str, bytes]) -> dict[str, str | None]:
    """SHA-256 by name; None for a secret that is not generated yet."""
    return {name: hashlib.sha256(secrets[name]).hexdigest() if name in secrets else None for name in _GENERATED_BYTES}


def _read_identity(file: Path) -> x25519.Identity:
    lines = [line.strip() for line in file.read_text().splitlines() if line.startswith("AGE-SECRET-KEY-")]
    try:
        return x25519.Identity.from_str(lines[0])
    except (IndexError, pyrage.IdentityError):
        raise SecretsError(
            f"{file} holds no age identity", "make one with `age-keygen`, or name the right file by --identity"
        ) from None


def _write(file: Path, content: bytes) -> None:
    try:
        write_atomically(file, content)
    except OSError as error:
        raise SecretsError(
            f"cannot write {file}: {error.strerror}", "make its directory writable, or set `secrets:` in the blueprint"
        ) from error
