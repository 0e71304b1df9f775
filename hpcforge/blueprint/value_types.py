"""The types of values that roles may ask blueprints for: one closed table, for services and for roles' variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import GenericAlias
from typing import Annotated, Any, Literal

from hpcforge.blueprint import suggestions
from hpcforge.blueprint import values as v
from hpcforge.blueprint.diagnostics import quote


def _unchanged(value: Any) -> Any:
    return value


_NODE_PATH = v.Matches(
    r"(?!.*/\.\.?(?:/|$))/[A-Za-z0-9_./@+=,-]{0,999}",
    "a path on a node: it begins with /, has letters, digits and ./_@+=,-, and no .. in it",
    "/srv/data",
    guess=suggestions.plainer,
)


@dataclass(frozen=True)
class ValueType:
    """A type of values: how the blueprint's text is checked, and what templates and code get of it."""

    written: Any  # a pydantic annotation
    given: Callable[[Any], Any] = _unchanged


_CERTIFICATES = v.Matches(
    r"(?:-----BEGIN CERTIFICATE-----\n(?:[A-Za-z0-9+/=]{1,76}\n){1,200}-----END CERTIFICATE-----\n){0,20}",
    "certificates in PEM: lines from -----BEGIN CERTIFICATE----- to -----END CERTIFICATE-----, and nothing else",
    "`ca: |` and the lines of the file below it, indented",
    guess=suggestions.plainer,
)

_PGP_KEY = v.Matches(
    r"-----BEGIN PGP PUBLIC KEY BLOCK-----\n(?:[A-Za-z0-9+/=:. ]{0,80}\n){1,400}-----END PGP PUBLIC KEY BLOCK-----\n",
    "a public key in ASCII armour: lines from -----BEGIN PGP PUBLIC KEY BLOCK----- to its END, and nothing else",
    "`key: |` and the lines of the file below it, indented",
    guess=suggestions.plainer,
)

# Excluded: arguments that locate the root file system or the first program, or that would lock hpcforge out.
_KERNEL_ARGUMENT = v.Matches(
    r"(?!(?:root|rootflags|rootfstype|init|rdinit|initrd|ro|rw|single|emergency|rescue|break|systemd[.]unit|BOOT_IMAGE)"
    r"(?:=|$))[A-Za-z][A-Za-z0-9_.:/=,-]{1,199}",
    "a word for the kernel's command line: it begins with a letter, has letters, digits and _.-=,:/, and is not a "
    "start-up argument such as root=, init=, ro or single",
    "iommu=pt",
    guess=suggestions.plainer,
)


_MAIL_ADDRESS = v.Matches(
    r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9][A-Za-z0-9.-]{0,253}",
    "a mail address, NAME@HOST",
    "ops@example.org",
    guess=suggestions.mail_address,
)
_URL = v.Matches(
    r"https?://[A-Za-z0-9\[][!-~]{0,900}",
    "an address (URL) that begins with http:// or https://",
    "https://hooks.example.org/alerts",
    guess=suggestions.url,
)

_LAST_PORT = 65535


def _ports(text: str) -> str:
    """Check a port, or a range FIRST-LAST of ports."""
    match = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 0 < first <= last <= _LAST_PORT:
        raise v.refusal(f"{quote(text)} is neither a port nor a range FIRST-LAST of ports from 1 to {_LAST_PORT}")
    return text


def _host_port(text: str) -> str:
    """Return a host and a port, HOST:PORT, as they are. Raises ValueError for anything else."""
    host, _, port = text.rpartition(":")
    if not host and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]{0,253}", text) and not text.isdecimal():
        raise v.refusal(f"{quote(text)} has no port", f"write it after a colon: {text}:PORT")
    number = int(port) if re.fullmatch("[0-9]{1,5}", port) else 0
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]{0,253}", host) or not 0 < number <= _LAST_PORT:
        example = "for example mail.example.org:587"
        raise v.refusal(f"{quote(text)} is not a host and a port from 1 to {_LAST_PORT}, HOST:PORT", example)
    return text


_KEY = v.Matches(
    r"[A-Za-z][A-Za-z0-9_.-]{0,99}",
    "a key of a configuration file: a letter, then letters, digits and _.-",
    "PrologFlags",
    guess=suggestions.plainer,
)
_SETTING = v.Matches(
    r"[^#\x00-\x1f\x7f-\x9f\u2028\u2029]{1,1000}",
    "one line of up to 1,000 characters without #",
    "associations,limits",
    guess=suggestions.plainer,
)
_COMMENT = v.Matches(
    r"[ !#-\[\]-~]{0,100}",
    'one line of up to 100 ASCII characters, without " and backslash',
    "metrics for the site",
    guess=suggestions.plainer,
)

TypeName = Literal[
    "text",
    "name",
    "whole",
    "number",
    "truth",
    "path",
    "host",
    "ipv4",
    "cidr",
    "duration",
    "certificates",
    "pgp_key",
    "kernel_argument",
    "ports",
    "key",
    "setting",
    "comment",
    "mail_address",
    "host_port",
    "url",
]
MAY_BE_EMPTY: tuple[TypeName, ...] = ("mail_address", "host_port", "url")  # an empty default means no value
TYPES: Mapping[TypeName, ValueType] = {
    "text": ValueType(v.Text),
    "name": ValueType(v.SectionName),
    "whole": ValueType(v.Whole),
    "number": ValueType(v.Number),
    "truth": ValueType(v.Truth),
    "path": ValueType(Annotated[str, _NODE_PATH]),
    "host": ValueType(v.HostOrAddress),
    "ipv4": ValueType(v.Ipv4),
    "cidr": ValueType(v.Cidr),
    "certificates": ValueType(Annotated[str, _CERTIFICATES]),
    "pgp_key": ValueType(Annotated[str, _PGP_KEY]),
    "kernel_argument": ValueType(Annotated[str, _KERNEL_ARGUMENT]),
    "ports": ValueType(Annotated[str, v.Checked(_ports)]),
    "key": ValueType(Annotated[str, _KEY]),
    "setting": ValueType(Annotated[str, _SETTING]),
    "comment": ValueType(Annotated[str, _COMMENT]),
    "mail_address": ValueType(Annotated[str, _MAIL_ADDRESS]),
    "host_port": ValueType(Annotated[str, v.Checked(_host_port)]),
    "url": ValueType(Annotated[str, _URL]),
    "duration": ValueType(v.Duration, lambda text: round(v.minutes(text) * 60)),  # seconds
}


def list_of(written: Any) -> Any:
    """Return the annotation of a list of such values."""
    return GenericAlias(tuple, (written, ...))
