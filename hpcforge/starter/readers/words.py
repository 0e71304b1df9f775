"""Common parts of the readers of a site's files: lines, names in ranges, addresses, numbers."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import islice

from pydantic import TypeAdapter, ValidationError

from hpcforge.blueprint.hostlist import HostlistError, expand
from hpcforge.starter.machines import MOST_MACHINES, LeftOut, SiteMachine, functions_by_name

# Names and remarks with a secret, or beside one.
SECRET = re.compile(
    r"pass(?!ive)|secret|token|vault|kennwort|credential|(?<![a-z])pwd?(?![a-z])|(?<![a-z])(?:api|private)?_?keys?(?![a-z])",
    re.IGNORECASE,
)
# The text of a file in the same folder, by its name; or the names of a folder's files, by the folder's name with /.
Beside = Callable[[str], str | None]
NO_NAME = "is not a host name that a blueprint accepts: lower-case letters, digits, -"
_NOT_PLAIN = re.compile(r"(?:0|127|22[4-9]|2[345]\d)\..*|169\.254\..*|.*\.(?:0\.0\.0|255\.255\.255)")
_MOST_DOMAINS = 20


def lines(text: str, comments: str = "#") -> Iterator[tuple[int, str]]:
    """Yield the lines that are not empty without their comments, stripped, each with its number from 1."""
    for number, line in enumerate(text.splitlines(), 1):
        if stripped := re.split(f"[{comments}]", line, maxsplit=1)[0].strip():
            yield number, stripped


def expanded(name: str) -> list[str]:
    """Return the names of a hostlist. `w[01:04]` is Ansible's way to write `w[01-04]`."""
    try:
        return list(expand(re.sub(r"\[(\d{1,9}):(\d{1,9})\]", r"[\1-\2]", name)))
    except HostlistError:
        return [name]


def is_address(text: str) -> bool:
    """Return whether a text is an IPv4 address."""
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def is_ipv6(text: str) -> bool:
    """Return whether a text is an IPv6 address, maybe with an interface after %."""
    try:
        ipaddress.IPv6Address(text.partition("%")[0])
    except ValueError:
        return False
    return True


def is_plain(text: str) -> bool:
    """Return whether a text is the IPv4 address of one machine: not loopback, link-local, multicast or broadcast."""
    return is_address(text) and not _NOT_PLAIN.fullmatch(text)


@cache
def _adapter(kind: type[str]) -> TypeAdapter[str]:
    return TypeAdapter(kind)


def accepts(kind: type[str], text: str) -> bool:
    """Return whether a blueprint's type accepts a text."""
    try:
        _adapter(kind).validate_python(text)
    except ValidationError:
        return False
    return True


def whole(text: str | None) -> int | None:
    """Return the number that a text is, or None."""
    return int(text) if text and text.isdecimal() and len(text) < 12 else None


def at_most(machines: Iterator[SiteMachine]) -> tuple[SiteMachine, ...]:
    """Return the machines, and one more than are allowed at most, so that an endless range ends."""
    return tuple(islice(machines, MOST_MACHINES + 1))


def by_name(
    name: str,
    address: str | None,
    functions: tuple[str, ...] | None = None,
    addresses: Mapping[str, str] | None = None,
    bmc: str | None = None,
    note: str | None = None,
) -> SiteMachine:
    """Return a machine whose functions follow from its name, or are the given ones."""
    functions = functions_by_name(name, "") or functions or ("worker",)
    return SiteMachine(name, address, functions, addresses=addresses or {}, bmc=bmc, note=note)


def domains(names: Iterable[tuple[int, str]]) -> list[LeftOut]:
    """Return the domains that the names of machines are in, each with its first line, as left out."""
    lines: dict[str, int] = {}
    for line, name in names:
        if not is_address(name):
            lines.setdefault(name.partition(".")[2].lower(), line)
    return [
        LeftOut(line, domain, "a domain of machines: --domain names the cluster's")
        for domain, line in lines.items()
        if domain and "." in domain
    ][:_MOST_DOMAINS]
