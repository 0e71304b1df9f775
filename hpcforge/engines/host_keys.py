"""The targets of connections: only nodes with a host key in the inventory. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hpcforge.engines.tasks import Target
from hpcforge.errors import ExpectedError

_KEY = re.compile(r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)) ([A-Za-z0-9+/]+=*)(?:[ \t].*)?")
_ADDRESS = re.compile(r"[0-9A-Za-z.:-]+")


class UnreachableError(ExpectedError):
    """A node cannot be worked on. `reason` is a word for programs (see `Event`), the text is for people."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def host_keys(target: Target) -> list[tuple[str, str]]:
    """Type and base64 of each host key that the inventory has.

    Raises:
        UnreachableError: there is none, or one is not an OpenSSH public key. Its text names no node, so that what is
            true of many is printed once.
    """
    if not target.host_keys and target.start:
        raise UnreachableError("no-route", f"not started yet: {target.start}")
    if not target.host_keys:
        raise UnreachableError(
            "no-host-key",
            "the inventory has no host key: compare the output of `ssh-keyscan` with the node's console and add it "
            "as `host_keys`; or run `hpcforge apply` with --trust-new, which accepts and records the present key",
        )
    found = [_KEY.fullmatch(line.strip()) for line in target.host_keys]
    if not all(found) or not _ADDRESS.fullmatch(target.address):
        raise UnreachableError(
            "no-host-key",
            "invalid address or host key in the inventory; a key looks like `ssh-ed25519 AAAA...`",
        )
    return [(match[1], match[2]) for match in found if match]


def known_hosts(targets: Iterable[Target]) -> str:
    """The text of an OpenSSH known_hosts file; nodes without usable keys are left out, so they are refused."""
    lines = []
    for target in targets:
        try:
            keys = host_keys(target)
        except UnreachableError:
            continue  # said when the node is first used
        lines += [f"{target.address} {kind} {text}\n" for kind, text in keys]
    return "".join(lines)
