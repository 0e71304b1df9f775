"""The cluster's secrets: generated once or set by the site, kept in an age-encrypted file beside the blueprint.

Roles declare secrets (`hpcforge.plan.secrets`); hpcforge itself needs a few more. The file holds a JSON object of name
to base64. It is encrypted to the operator's own age identity, a key file of mode 0600 that the first use creates.
Values exist in memory and on standard input of the node program, nowhere else. Certificates of single nodes are derived
from them and never stored, see `hpcforge.secrets.host_certificates`.
"""

from __future__ import annotations

import base64
import json
import os
import secrets as random_source
import shlex
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pyrage
from pyrage import x25519

from hpcforge.atomic import sync_folder, write_atomically
from hpcforge.blueprint.untrusted_files import read_named
from hpcforge.errors import ExpectedError
from hpcforge.locks import folder_lock
from hpcforge.plan.secrets import LETTERS, PLAN_KEY, Secret, SecretSpec
from hpcforge.secrets.host_certificates import AUTHORITY, REVOKED, new_authority, with_revoked


@dataclass(frozen=True)
class SecretKind:
    """A declared secret. `rotated` tells the operator the effects of a new value on the cluster."""

    purpose: str
    make: Callable[[], bytes] | None  # None: the site provides it
    rotated: str
    binary: bool = False  # the site's value is kept byte for byte
    least: int = 1  # bytes of the site's value
    on_nodes: bool = True  # an apply brings a new value to the nodes; False: it never leaves the operator host


SecretKinds = Mapping[str, SecretKind]
KINDS: SecretKinds = {  # hpcforge's own
    PLAN_KEY: SecretKind(
        "seals plan files, so that an edited one is refused",
        lambda: random_source.token_bytes(32),
        "plan files made before are refused: make new ones",
        on_nodes=False,
    ),
    "ssh_host_ca": SecretKind(
        "certifies host keys, so that ssh between nodes does not ask about host keys",
        new_authority,
        "every node gets a new host certificate; until all have theirs, ssh between nodes may ask",
    ),
}

BMC_PASSWORD, BMC_PASSWORDS = "bmc_password", "bmc_passwords"
# Secrets that the site may provide for hpcforge itself: no role declares them, and no node gets them.
OF_SITE: SecretKinds = {
    BMC_PASSWORD: SecretKind(
        "the password of management controllers", None, "`hpcforge power` uses it from now on", on_nodes=False
    ),
    BMC_PASSWORDS: SecretKind(
        "passwords of management controllers that have their own: lines of NODE PASSWORD",
        None,
        "`hpcforge power` uses them from now on",
        on_nodes=False,
    ),
}
LARGEST = 64 * 1024  # bytes of a secret that a site provides


def kinds_of(declared: Mapping[str, Secret]) -> SecretKinds:
    """Return all declared secrets: those of roles, and hpcforge's own."""
    return {**{name: _kind(secret.spec) for name, secret in declared.items()}, **KINDS}


def made_up(kinds: SecretKinds) -> SecretKinds:
    """Return the kinds for a rehearsal: values of the site are made instead, of letters and digits."""
    return {name: kind if kind.make else replace(kind, make=_made_up) for name, kind in kinds.items()}


def _made_up() -> bytes:
    return random_source.token_hex(16).encode()


def _kind(spec: SecretSpec) -> SecretKind:
    def make() -> bytes:
        if spec.length is None:
            return random_source.token_bytes(spec.bytes)
        letters = LETTERS[spec.alphabet]
        return "".join(random_source.choice(letters) for _ in range(spec.length)).encode()

    return SecretKind(spec.description, None if spec.provided else make, spec.on_rotation, spec.binary, spec.min_bytes)


class SecretsError(ExpectedError):
    """The secrets file or the identity that opens it cannot be used; `hint` says what to do."""


def default_identity_path() -> Path:
    """Return the key file: $HPCFORGE_IDENTITY, or age.key in the user's configuration directory."""
    path = os.environ.get("HPCFORGE_IDENTITY")
    base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return Path(path) if path else base / "hpcforge" / "age.key"


def read_secrets(file: Path, identity_file: Path) -> dict[str, bytes]:
    """Read the secrets; none if the file does not exist yet. Raises `SecretsError`."""
    if not file.exists():
        return {}
    if not identity_file.exists():
        raise SecretsError(
            f"{file} exists, but its key file is missing: {identity_file}",
            "get the key file from its creator and give it with --identity or HPCFORGE_IDENTITY",
        )
    try:
        plain = pyrage.decrypt(read_named(file), [_read_identity(identity_file)])
        return {name: base64.b64decode(value) for name, value in json.loads(plain).items()}
    except (pyrage.DecryptError, ValueError) as error:
        # from None: the cause could quote the decrypted text
        raise SecretsError(
            f"{file} cannot be opened with {identity_file} ({type(error).__name__})",
            "it was made with another key, or is damaged: name the right key by --identity, or restore the file",
        ) from None


def ensure_secrets(file: Path, identity_file: Path, kinds: SecretKinds) -> dict[str, bytes]:
    """Return the secrets, with missing ones generated and written. Raises `SecretsError`."""
    secrets = read_secrets(file, identity_file)
    makers = {name: kind.make for name, kind in kinds.items() if kind.make}
    if secrets.keys() >= makers.keys():
        return secrets
    with _changing(file):
        secrets = read_secrets(file, identity_file)  # another run may have made them meanwhile
        missing = {name: make() for name, make in makers.items() if name not in secrets}
        if missing:
            _write_secrets(file, identity_file, secrets | missing)
        return secrets | missing


def rotate_secret(file: Path, identity_file: Path, kinds: SecretKinds, name: str) -> bytes:
    """Replace one secret by a new one, and return it. Raises `SecretsError`."""
    with _changing(file):
        secrets = read_secrets(file, identity_file)
        makers = {secret: kind.make for secret, kind in kinds.items() if kind.make}
        if name in kinds and name not in makers:
            raise SecretsError(f"{name} is provided by the site, not made", "give it a new value: hpcforge secrets set")
        if name not in secrets or name not in makers:
            raise SecretsError(
                f"{file} has no secret {name!r} to rotate",
                f"hpcforge's own secrets: {', '.join(secret for secret in makers if secret in secrets)}"
                if secrets
                else "make them first: hpcforge secrets init",
            )
        value = makers[name]()
        if name == AUTHORITY:
            secrets.pop(REVOKED, None)  # the new authority certifies present nodes only
        _write_secrets(file, identity_file, secrets | {name: value})
        return value


def set_secret(file: Path, identity_file: Path, kinds: SecretKinds, name: str, value: bytes) -> bool:
    """Store a value that the site provides; False if it is unchanged. Raises `SecretsError`."""
    provided = [secret for secret, kind in kinds.items() if kind.make is None]
    if name in kinds and name not in provided:
        raise SecretsError(f"hpcforge generates {name}", "for a new value: hpcforge secrets rotate")
    if name not in provided:
        hint = f"what roles want: {', '.join(provided)}" if provided else "no role wants one"
        raise SecretsError(f"{name!r} is not a secret that the site provides", hint)
    least = kinds[name].least
    if not least <= len(value) <= LARGEST:
        raise SecretsError(f"{name}: {len(value)} bytes", f"it has {least} to {LARGEST} bytes; nothing was changed")
    with _changing(file):
        secrets = read_secrets(file, identity_file)
        if secrets.get(name) == value:
            return False
        _write_secrets(file, identity_file, secrets | {name: value})
        return True


def store_revoked(file: Path, identity_file: Path, keys: Iterable[str]) -> None:
    """Add host keys to the revoked ones, for all later applies. Raises `SecretsError`."""
    with _changing(file):
        secrets = read_secrets(file, identity_file)
        more = with_revoked(secrets, keys)
        if more != secrets:
            _write_secrets(file, identity_file, more)


@contextmanager
def _changing(file: Path) -> Iterator[None]:
    """Allow one change at a time. Locks the folder, since each change replaces the file."""
    with ExitStack() as stack:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(folder_lock(file.parent))
        except OSError as error:
            raise _unwritable(file, error) from error
        yield


def _write_secrets(file: Path, identity_file: Path, secrets: Mapping[str, bytes]) -> None:
    if not identity_file.exists():
        _make_identity(identity_file)
    plain = json.dumps({name: base64.b64encode(value).decode() for name, value in secrets.items()}).encode()
    _write(file, pyrage.encrypt(plain, [_read_identity(identity_file).to_public()]))


def _make_identity(file: Path) -> None:
    """Make a new key file, or use that of another run, for any cluster, that makes one at the same time."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, prefix=f".{file.name}.") as new:  # of mode 0600
            new.write(f"{x25519.Identity.generate()}\n".encode())
            new.flush()
            os.fsync(new.fileno())
            with suppress(FileExistsError):
                os.link(new.name, file)
        sync_folder(file.parent)  # otherwise a crash could lose the key but not the secrets
    except OSError as error:
        raise _unwritable(file, error) from error


def _read_identity(file: Path) -> x25519.Identity:
    mode = file.stat().st_mode & 0o777
    if mode & 0o077:
        raise SecretsError(
            f"other users can access the key file {file} (mode {mode:04o})",
            f"chmod 600 {shlex.quote(str(file))}",
        )
    lines = [line.strip() for line in read_named(file).decode().splitlines() if line.startswith("AGE-SECRET-KEY-")]
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
