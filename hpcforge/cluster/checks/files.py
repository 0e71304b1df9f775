"""Check the files that a blueprint and its inventory name: keys of users, of repositories and of nodes, site roles."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from pydantic_core import PydanticCustomError

from hpcforge.blueprint.diagnostics import quote
from hpcforge.blueprint.inventory import InventoryAccess
from hpcforge.blueprint.public_keys import is_path, public_key
from hpcforge.blueprint.sections.access import UserSection
from hpcforge.blueprint.untrusted_files import OutsideError, files_inside
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.cluster.nvidia import wanted_fingerprint

# Check the public key file of a package repository, and read its fingerprint. Pure, but reads the file.
_BLOCK = re.compile(
    r"\A\s*(-----BEGIN PGP PUBLIC KEY BLOCK-----\n(?:[A-Za-z]+: [^\n]*\n)*\n((?:[A-Za-z0-9+/=]{1,76}\n)+)"
    r"-----END PGP PUBLIC KEY BLOCK-----)\s*\Z"
)
_CHECKSUM = re.compile(r"=[A-Za-z0-9+/]{4}\n?\Z")
_PUBLIC_KEY = 6  # the tag of a key's first packet (RFC 9580, 5)


def armoured(path: Path) -> str:
    """Return the key in a file, its lines unchanged. Raise ValueError where it is not one."""
    match = _BLOCK.match(_text(path))
    if match is None:
        raise ValueError(path.name)
    return f"{match[1]}\n"


def _repository_key_problems(path: Path, expected: str | None) -> Iterator[tuple[str, str | None]]:
    """Yield errors in the file of a key with the `expected` fingerprint; None: no fingerprint is set."""
    name = quote(path.name)
    try:
        if not path.exists():
            yield f"the file {name} does not exist", f"{_RELATIVE}; looked for as {path}"
            return
        actual = _fingerprint(armoured(path)) if path.is_file() and path.stat().st_size <= _MAX_BYTES else None
    except (OSError, ValueError) as error:
        if isinstance(error, OSError):
            yield f"{name} cannot be read: {error.strerror}", None
            return
        actual = None
    if actual is None:
        yield (
            f"{name} is not exactly one OpenPGP public key in ASCII armour",
            f"{_RELATIVE}; `gpg --export --armor FINGERPRINT` writes one",
        )
    elif expected is None:
        yield (
            f"the key in {name} is {actual}, and the expected fingerprint is missing",
            "add it as `fingerprint` here",
        )
    elif actual != expected:
        yield (
            f"the key in {name} is {actual}, not {expected}",
            "use the right file; or, if your mirror signs with its own key, add its `fingerprint` here",
        )


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii").replace("\r\n", "\n")


def _fingerprint(text: str) -> str | None:
    """Return the fingerprint of the first armoured key of version 4 (RFC 9580, 5.5.4.2), or None."""
    block = _BLOCK.match(text)
    try:
        data = base64.b64decode(_CHECKSUM.sub("", block[2]) if block else "", validate=False)
    except binascii.Error:
        return None
    body = _first_packet(data)
    if body is None or body[:1] != b"\x04":
        return None
    return hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body).hexdigest().upper()  # noqa: S324 - as OpenPGP has it


def _first_packet(data: bytes) -> bytes | None:
    """Return the body of the first packet, where it is a public key's of less than 64 KiB."""
    if len(data) < 6 or not data[0] & 0x80:
        return None
    if data[0] & 0x40:  # the newer format, with a length of one or two octets
        tag, first = data[0] & 0x3F, data[1]
        start, length = (2, first) if first < 192 else (3, (first - 192 << 8) + data[2] + 192)
        has_length = first < 224
    else:
        tag, octets = data[0] >> 2 & 0xF, 1 << (data[0] & 3)
        start, length = 1 + octets, int.from_bytes(data[1 : 1 + octets], "big")
        has_length = octets < 8
    body = data[start : start + length]
    return body if has_length and tag == _PUBLIC_KEY and 0 < length == len(body) < 1 << 16 else None


_MAX_BYTES = 64 << 10
RELATIVE = "a path is relative to the {}"
_RELATIVE = RELATIVE.format("blueprint")


def key_lines(user: UserSection, folder: Path) -> tuple[str, ...]:
    """Return a user's public key lines, those of files in place of their paths."""
    return tuple(line for key in user.keys for line in (_lines(folder / key) if is_path(key) else (key,)))


def _lines(path: Path) -> list[str]:
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _key_file_problems(path: Path) -> Iterator[tuple[str, str | None]]:
    """Yield errors of a file with public keys; never its content, which may be a private key."""
    name = quote(path.name)
    try:
        if not path.exists():
            yield (
                f"the file {name} does not exist",
                f"{_RELATIVE}; looked for as {path}; or write the key here",
            )
            return
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            yield f"{name} does not contain public keys", f"{_RELATIVE}; or write the key here"
            return
        lines = _lines(path)
    except (OSError, UnicodeDecodeError) as error:
        yield f"{name} cannot be read: {error.strerror if isinstance(error, OSError) else 'it is not text'}", None
        return
    if not lines:
        yield f"{name} has no key in it", None
    for line in lines:
        try:
            public_key(line)
        except PydanticCustomError as error:
            yield f"a line of {name} {error.message()}", (error.context or {}).get("hint")
            return


def user_key_findings(draft: Draft, folder: Path) -> Iterator[Finding]:
    """Yield files of public keys of users that cannot be used; paths start in `folder`."""
    for name, user in (draft.sections["users"] or {}).items():
        for index, key in enumerate(user.keys):
            if is_path(key) and draft.intact("users", name, "keys"):
                for message, hint in _key_file_problems(folder / key):
                    yield Finding(("users", name, "keys", index), message, hint)


def site_role_folder_findings(draft: Draft, folder: Path) -> Iterator[Finding]:
    """Yield folders of a site's Ansible roles that cannot be used."""
    software = draft.sections["software"]
    if software and draft.intact("software", "site_roles"):
        for index, role in enumerate(software.site_roles):
            for message, hint in _role_problems(folder / role.path, role.path):
                yield Finding(("software", "site_roles", index, "path"), message, hint)


def repository_key_findings(draft: Draft, folder: Path) -> Iterator[Finding]:
    """Yield a file of the key of NVIDIA's repository that cannot be used, or has another fingerprint."""
    software = draft.sections["software"]
    if software and software.sources.nvidia and all(draft.intact("software", key) for key in ("os", "sources")):
        source = software.sources.nvidia
        for message, hint in _repository_key_problems(folder / source.key, wanted_fingerprint(software)):
            yield Finding(("software", "sources", "nvidia", "key"), message, hint)


def private_key_findings(machines: Draft, inventory_path: Path) -> Iterator[Finding]:
    """Yield that the private key an inventory names is not there."""
    key = private_key(machines.sections["access"], inventory_path)
    if key and not (is_there(key) and key.is_file()) and machines.intact("access", "key"):
        yield Finding(("access", "key"), f"the key {quote(key.name)} does not exist", RELATIVE.format("inventory"))


def private_key(access: InventoryAccess | None, inventory_path: Path | None) -> Path | None:
    """Return the path of the private key that an inventory names; None for none."""
    if inventory_path is None or access is None or access.key is None:
        return None
    return inventory_path.absolute().parent / _own(Path(access.key))


def _own(path: Path) -> Path:
    """Return the path with `~` expanded; a path with an unknown user stays unchanged."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def is_there(path: Path) -> bool:
    """Return whether a path leads to something; not if a part of it is too long, or may not be entered."""
    try:
        return path.exists()
    except OSError:
        return False


def _role_problems(path: Path, written: str) -> Iterator[tuple[str, str | None]]:
    """Yield errors of the folder of a site's Ansible role."""
    if not is_there(path) or not path.is_dir():
        yield f"the folder {quote(written)} does not exist", _RELATIVE
    elif not any((path / "tasks" / name).is_file() for name in ("main.yml", "main.yaml")):
        yield f"{quote(path.name)} is not an Ansible role: it has no tasks/main.yml", None
    elif not re.fullmatch("[A-Za-z0-9][A-Za-z0-9_-]{0,63}", path.name):
        yield f"{quote(path.name)} is not a role name", "letters, digits, _ and -"
    else:
        try:
            files_inside(path)
        except OutsideError as error:
            yield str(error), "a role is planned by its content: copy the target of a link"
        except OSError as error:
            yield f"{quote(path.name)} cannot be read: {error.strerror}", None
