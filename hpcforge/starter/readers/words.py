"""What the readers of a site's files share: lines, names in ranges, addresses, numbers."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from itertools import islice

from hpcforge.blueprint.hostlist import HostlistError, expand
from hpcforge.starter.machines import MOST_MACHINES, SiteMachine, functions_by_name

Beside = Callable[[str], str | None]  # the text of a file in the same folder, by its name


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
    """Whether a text is an IPv4 address."""
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def whole(text: str | None) -> int | None:
    """Return the number that a text is, or None."""
    return int(text) if text and text.isdecimal() and len(text) < 12 else None


def at_most(machines: Iterator[SiteMachine]) -> tuple[SiteMachine, ...]:
    """Return the machines, and one more than are allowed at most, so that an endless range ends."""
    return tuple(islice(machines, MOST_MACHINES + 1))


def by_name(name: str, address: str | None, functions: tuple[str, ...] | None = None) -> SiteMachine:
    """Return a machine whose function follows from its name, else from its groups."""
    return SiteMachine(name, address, functions_by_name(name, "") or functions or ("worker",))
