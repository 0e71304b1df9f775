"""Entries of /etc/nsswitch.conf that prevent lookups of names or accounts that the roles need.

/etc/hosts and /etc/hostname are files of a role, which replaces errors there. This file is the site's own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from hpcforge.kinds import KINDS
from hpcforge.node import files
from hpcforge.node.inspection import Conflict, Inspection
from hpcforge.node.kinds import resources

if TYPE_CHECKING:
    from hpcforge.node.requests import DesiredRoleRequest

PATH = "/etc/nsswitch.conf"
_RESOLVED = "/run/systemd/resolve/io.systemd.Resolve"  # the socket of the service "resolve"
# They end a search only for their own names: nss-mdns and nss-resolve document these actions before dns.
_SELECTIVE = re.compile(r"mdns[46]?_minimal|resolve|mymachines")
_ENDS = re.compile(r"\[[^]]*(?:NOTFOUND=return|!SUCCESS=return|!UNAVAIL=return)", re.IGNORECASE)
_WORD = re.compile(r"\[[^][]*\]|[^\s\[]+")
_PLAIN = re.compile(r"[\w \[\]!=.-]*")


class _Database(NamedTuple):
    """A database, which needs one of these services, and none before it that ends every search."""

    name: str
    services: tuple[str, ...]
    why: str


def search(inspection: Inspection) -> Iterator[Conflict]:
    """Yield lines without DNS if a role sets resolv.conf, or without the node's accounts if a role makes some."""
    lines = (files.read_text(PATH) or "").splitlines()
    for role in inspection.roles:
        for database in _needed(role, inspection):
            for number, line in enumerate(lines, 1):
                name, _, rest = line.split("#", 1)[0].partition(":")
                if name.strip() == database.name:
                    yield from _conflict(role["role"], database, number, _WORD.findall(rest))


def _needed(role: DesiredRoleRequest, inspection: Inspection) -> Iterator[_Database]:
    """Yield the databases that a role relies on."""
    if "/etc/resolv.conf" in [file.path for file in resources(role, KINDS["files"])]:
        yield _Database("hosts", ("dns", "resolve"), "names are not looked up in DNS")
    if any(kind.name in ("accounts", "groups") for kind, _ in inspection.resources(role)):
        for name in ("passwd", "group"):
            yield _Database(name, ("files", "compat"), "accounts of this host are not looked up")


def _conflict(role: str, database: _Database, number: int, words: list[str]) -> Iterator[Conflict]:
    before = words
    for at, word in enumerate(words):
        if word in database.services and (word != "resolve" or os.path.exists(_RESOLVED)):  # noqa: PTH110
            before = words[:at]
            break
    else:
        reason = f"line {number} names none of {' and '.join(database.services)}: {database.why}"
        yield _with_line(role, database, number, reason, [*words, database.services[0]])
        return
    stops = [at for at, word in enumerate(before) if _ENDS.match(word) and not _SELECTIVE.fullmatch(words[at - 1])]
    if stops:
        reason = f"line {number} ends each search at {words[stops[0] - 1]} {words[stops[0]]}: {database.why}"
        remaining = [word for at, word in enumerate(words) if at not in stops]
        yield _with_line(role, database, number, reason, remaining)


def _with_line(role: str, database: _Database, number: int, reason: str, words: list[str]) -> Conflict:
    """Return a conflict with the command that writes the line with these words."""
    services = " ".join(words)
    if not _PLAIN.fullmatch(services):
        services = f"files {database.services[0]}"
    return Conflict(role, "file", PATH, reason, (f"sed -i '{number}s/.*/{database.name}: {services}/' {PATH}",))
