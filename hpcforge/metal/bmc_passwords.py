"""Passwords of management controllers, as the site's secrets have them. No error has a word of them."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence

from hpcforge.cluster.model import Node
from hpcforge.secrets.secrets import BMC_PASSWORD, BMC_PASSWORDS, SecretsError


def read_passwords(secrets: Mapping[str, bytes], nodes: Sequence[Node]) -> tuple[str, dict[str, str]]:
    """Return the common password, or "", and the passwords by node, or by address without a node.

    Raises `SecretsError` for a wrong line: its controller would get the common password.
    """
    common = _text(BMC_PASSWORD, secrets.get(BMC_PASSWORD, b""))
    if not common.isprintable():
        raise _wrong_secret(BMC_PASSWORD, "a line break, a tab or another character that is not printed")
    names = {node.name: node.name for node in nodes}
    names |= {node.bmc.address: node.name for node in nodes if node.bmc and node.bmc.address}
    own: dict[str, str] = {}
    for number, line in enumerate(_text(BMC_PASSWORDS, secrets.get(BMC_PASSWORDS, b"")).split("\n"), 1):
        text = line.removesuffix("\r").strip(" ")
        if not text:
            continue
        name, _, password = text.partition(" ")
        node = names.get(name, name)
        if wrong := _wrong(text, password, node in own, name in names or _is_address(name)):
            raise _wrong_secret(BMC_PASSWORDS, f"line {number}: {wrong}")
        own[node] = password.lstrip(" ")
    return common, own


def _wrong(text: str, password: str, doubled: bool, is_known: bool) -> str:
    if not text.isprintable():
        return "a tab or another character that is not printed; a space stands between node and password"
    if not password:
        return "no password after the node, or no node before it"
    if not is_known:
        return "its first word is neither a node of the blueprint nor an IPv4 address"
    return "an earlier line is for the same controller" if doubled else ""


def _text(name: str, value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise _wrong_secret(name, "not UTF-8 text") from None


def _wrong_secret(name: str, problem: str) -> SecretsError:
    form = "lines of NODE PASSWORD" if name == BMC_PASSWORDS else "one line"
    return SecretsError(f"{name}: {problem}", f"{form}: hpcforge secrets set BLUEPRINT {name}")


def _is_address(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True
