"""The lab's private bridge. Nothing is forwarded or translated, so nothing else on the host changes."""

from __future__ import annotations

import json
from ipaddress import IPv4Interface, IPv4Network
from pathlib import Path

from hpcforge.lab.commands import run
from hpcforge.lab.errors import LabError
from hpcforge.lab.state import Lab


def taken_subnets() -> list[IPv4Network]:
    """Every IPv4 network that this host has an address in or a route to (default routes aside)."""
    addresses = json.loads(run("ip", "-json", "-4", "address") or "[]")
    routes = json.loads(run("ip", "-json", "-4", "route", "show", "table", "all") or "[]")
    texts = [f"{info['local']}/{info['prefixlen']}" for link in addresses for info in link.get("addr_info", [])]
    texts += [route["dst"] for route in routes if route["dst"] != "default"]
    return sorted({IPv4Interface(text).network for text in texts})


def ensure_bridge(lab: Lab) -> None:
    """The bridge, up, with the host's address on it."""
    alias = _alias_of(lab.name)
    if not bridge_exists(lab.bridge):
        run("ip", "link", "add", lab.bridge, "type", "bridge")
        run("ip", "link", "set", lab.bridge, "alias", alias)
    elif _alias(lab.bridge) not in (alias, ""):  # none: we were cut off between the two commands above
        raise LabError(
            f"interface {lab.bridge} is not lab {lab.name}'s: its alias is {_alias(lab.bridge)!r}",
            "give the lab another name",
        )
    run("ip", "address", "replace", f"{lab.gateway}/{lab.network_address.prefixlen}", "dev", lab.bridge)
    run("ip", "link", "set", lab.bridge, "up")


def remove_bridge(bridge: str) -> None:
    """Remove the bridge if it is there."""
    if bridge_exists(bridge):
        run("ip", "link", "delete", bridge, "type", "bridge")


def bridges_of(name: str) -> set[str]:
    """The bridges of a lab, by the alias that they carry."""
    return {path.name for path in Path("/sys/class/net").iterdir() if _alias(path.name) == _alias_of(name)}


def bridge_exists(bridge: str) -> bool:
    """Whether the host has such an interface."""
    return Path("/sys/class/net", bridge).exists()


def _alias_of(name: str) -> str:
    return f"hpcforge lab {name}"


def _alias(bridge: str) -> str:
    try:
        return Path("/sys/class/net", bridge, "ifalias").read_text().strip()
    except OSError:  # gone meanwhile, or not an interface
        return ""
