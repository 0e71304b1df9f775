"""The cluster's secrets: generated once, kept in an age-encrypted file beside the blueprint.

The file holds a JSON object of name to base64. It is encrypted to the operator's own age identity, a key file of mode
0600 which is made on first use. Values live in memory and travel on standard input of the node program, nowhere else.
What is derived from them for single nodes (certificates) is never stored, see `hpcforge.run.host_certificates`.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import secrets as random_source
import shlex
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyrage
from pyrage import x25519

from hpcforge.atomic import write_atomically
from hpcforge.errors import ExpectedError
from hpcforge.run.host_certificates import AUTHORITY, REVOKED, new_authority, with_revoked


@dataclass(frozen=True)
class Kind:
    """A secret that hpcforge makes. `rotated` says, for people, what a new value means for the cluster."""

    purpose: str
    make: Callable[[], bytes]
    rotated: str
    on_nodes: bool = True  # an apply brings a new value to the nodes; False: it never leaves the operator host


# Passwords of a database or of monitoring are not here: nothing that hpcforge installs uses one yet.
KINDS: Mapping[str, Kind] = {
    # munge 0.5.15 reads keys of 32 to 1024 bytes (MUNGE_MAXIMUM_SECRET_KEY_LEN in its src/libcommon/munge_defs.h).
    "munge_key": Kind(
        "by which Slurm's daemons and commands know each other",
        lambda: random_source.token_bytes(1024),
        "munge restarts on all nodes together: jobs go on, Slurm's commands fail for some seconds",
    ),
    "plan_key": Kind(
        "seals plan files, so that an edited one is refused",
        lambda: random_source.token_bytes(32),
        "plan files made before are refused: make new ones",
        on_nodes=False,
    ),
    "ssh_host_ca": Kind(
        "certifies host keys, so that ssh from node to node asks nobody whether the other is who it says",
        new_authority,
        "every node gets a new host certificate; until all have theirs, ssh between nodes may ask",
    ),
}


class SecretsError(ExpectedError):
    """The secrets file or the identity that opens it cannot be used; `hint` says what to do."""


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
    if known.keys() >= KINDS.keys():
        return known
    with _changing(file):
        known = read_secrets(file, identity_file)  # another run may have made them meanwhile
        missing = {name: kind.make() for name, kind in KINDS.items() if name not in known}
        if missing:
            _write_secrets(file, identity_file, known | missing)
        return known | missing


def rotate_secret(file: Path, identity_file: Path, name: str) -> bytes:
    """Replace one secret by a new one, which is given back. Raises `SecretsError`."""
    with _changing(file):
        known = read_secrets(file, identity_file)
        if name not in known or name not in KINDS:
            raise SecretsError(
                f"there is no secret {name!r} to rotate in {file}",
                f"those that hpcforge makes: {', '.join(KINDS)}" if known else "make them first: hpcforge secrets init",
            )
        value = KINDS[name].make()
        if name == AUTHORITY:
            known.pop(REVOKED, None)  # nobody has a certificate of the new one's but the nodes
        _write_secrets(file, identity_file, known | {name: value})
        return value


def store_revoked(file: Path, identity_file: Path, keys: Iterable[str]) -> None:
    """Keep host keys among those that are revoked, for all applies to come. Raises `SecretsError`."""
    with _changing(file):
        known = read_secrets(file, identity_file)
        more = with_revoked(known, keys)
        if more != known:
            _write_secrets(file, identity_file, more)


def digests(secrets: Mapping[str, bytes]) -> dict[str, str | None]:
    """SHA-256 by name, of derived ones too; None for one that is not generated yet."""
    unknown: dict[str, str | None] = dict.fromkeys(KINDS)
    return unknown | {name: hashlib.sha256(value).hexdigest() for name, value in secrets.items()}


@contextmanager
def _changing(file: Path) -> Iterator[None]:
    """One change at a time. It is the folder that is locked: the file itself is replaced by each change."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise _unwritable(file, error) from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _write_secrets(file: Path, identity_file: Path, secrets: Mapping[str, bytes]) -> None:
    if not identity_file.exists():
        _make_identity(identity_file)
    plain = json.dumps({name: base64.b64encode(value).decode() for name, value in secrets.items()}).encode()
    _write(file, pyrage.encrypt(plain, [_read_identity(identity_file).to_public()]))


def _make_identity(file: Path) -> None:
    """A new key file, unless another run makes one at the same time, for whatever cluster: then that one is used."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, prefix=f".{file.name}.") as new:  # of mode 0600
            new.write(f"{x25519.Identity.generate()}\n".encode())
            new.flush()
            os.fsync(new.fileno())
            with suppress(FileExistsError):
                os.link(new.name, file)
    except OSError as error:
        raise _unwritable(file, error) from error


def _read_identity(file: Path) -> x25519.Identity:
    mode = file.stat().st_mode & 0o777
    if mode & 0o077:
        raise SecretsError(
            f"the key file {file} is open to others than its owner (mode {mode:04o})",
            f"chmod 600 {shlex.quote(str(file))}",
        )
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
        raise _unwritable(file, error) from error


def _unwritable(file: Path, error: OSError) -> SecretsError:
    return SecretsError(
        f"cannot write {file}: {error.strerror}", "make its directory writable, or set `secrets:` in the blueprint"
    )
