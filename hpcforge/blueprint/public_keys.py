"""OpenSSH public keys as blueprints and inventories hold them: users', a line or the path of a file, and hosts'."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Annotated

from hpcforge.blueprint import suggestions
from hpcforge.blueprint.diagnostics import quote
from hpcforge.blueprint.values import Checked, Matches, refusal

_HOST_KEY_TYPES = r"ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)"
_KEY_TYPES = rf"{_HOST_KEY_TYPES}|sk-(?:ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com"
_PUBLIC_KEY = rf"(?:{_KEY_TYPES}) [A-Za-z0-9+/]{{16,4096}}={{0,2}}(?: [A-Za-z0-9@._+:/ -]{{1,200}})?"
_HOST_KEY = rf"(?:{_HOST_KEY_TYPES}) [A-Za-z0-9+/]{{16,4096}}={{0,2}}(?: [!-~]{{1,200}})?"

_A_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"  # an example
_KEY_LINE = Matches(
    _PUBLIC_KEY, "an OpenSSH public key: type, base64, comment; no options", _A_KEY, guess=suggestions.plainer
)
_KEY_FILE = Matches(r"[\w ./~@+=,-]{1,1000}\.pub", "the path of a .pub file", "keys/ada.pub", guess=suggestions.plainer)


def is_path(key: str) -> bool:
    """Return whether an entry of a user's keys is the path of a file, not a key."""
    return key.endswith(".pub") and not re.match(_KEY_TYPES, key)


def _user_key(text: str) -> str:
    """Accept a public key, or the path of a file that holds some."""
    if is_path(text):
        return _KEY_FILE.check(text)
    if text.startswith(("/", "~", ".")):
        hint = f"a path ends in .pub, for example {_KEY_FILE.example}; never the private key's"
        raise refusal(f"{quote(text)} is neither a public key nor the path of a key file", hint)
    return _public_key(_KEY_LINE.check(text))


def public_key(text: str) -> str:
    """Return one line of a .pub file if it is a public key. Raises PydanticCustomError; never shows another line."""
    if not re.fullmatch(_PUBLIC_KEY, text):
        raise refusal("is not an OpenSSH public key", "one key a line: type, base64, comment; no options")
    return _public_key(text)


def _public_key(text: str) -> str:
    """Check that a key's body is base64 and begins with the type it claims (RFC 4253, section 6.6)."""
    kind, body = text.split(" ")[:2]
    try:
        blob = base64.b64decode(body, validate=True)
    except binascii.Error:
        blob = b""
    fields = list(_fields(blob))
    if len(fields) < 2 or fields[0] != kind.encode() or (kind == "ssh-ed25519" and len(fields[1]) != 32):
        raise refusal(f"{quote(text)} is cut off or damaged", "copy the whole line of the .pub file")
    return text


def _fields(blob: bytes) -> Iterator[bytes]:
    """Split a key's body at its 32-bit lengths; nothing if they do not add up (RFC 4251, section 5: string)."""
    fields = []
    while blob:
        end = 4 + int.from_bytes(blob[:4], "big")
        if len(blob) < end or end == 4:
            return
        fields.append(blob[4:end])
        blob = blob[end:]
    yield from fields


UserKey = Annotated[str, Checked(_user_key)]
HostKey = Annotated[
    str,
    Matches(
        _HOST_KEY, "a host key: ssh-ed25519, ssh-rsa or ecdsa type, then base64", _A_KEY, guess=suggestions.plainer
    ),
    Checked(_public_key),
]
