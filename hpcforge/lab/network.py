"""The lab's private bridges. Nothing is forwarded or translated, so nothing else on the host changes.

A host may forward for others (Docker, libvirt); it forwards nothing that comes from a lab's bridge.
"""

from __future__ import annotations

import json
from ipaddress import IPv4Interface, IPv4Network
from pathlib import Path

from hpcforge.lab.commands import run
from hpcforge.lab.errors import LabError
from hpcforge.lab.state import Lab

SEGMENT_MTU = 9_216  # jumbo frames, as switches of data centres carry them
_KERNEL = Path("/proc/sys/net")


def taken_subnets() -> list[IPv4Network]:
    """Every IPv4 network that this host has an address in or a route to (default routes aside)."""
    addresses = json.loads(run("ip", "-json", "-4", "address") or "[]")
    routes = json.loads(run("ip", "-json", "-4", "route", "show", "table", "all") or "[]")
    texts = [f"{info['local']}/{info['prefixlen']}" for link in addresses for info in link.get("addr_info", [])]
    texts += [route["dst"] for route in routes if route["dst"] != "default"]
    return sorted({IPv4Interface(text).network for text in texts})


def ensure_bridges(lab: Lab) -> None:
    """The bridge, up, with the host's address on it; those of further segments, up, on which the host is not."""
    _ensure(lab, lab.bridge)
    run("ip", "address", "replace", f"{lab.gateway}/{lab.network_address.prefixlen}", "dev", lab.bridge)
    run("ip", "link", "set", lab.bridge, "up")
    for bridge in lab.segments.values():
        _ensure(lab, bridge)
        run("ip", "link", "set", bridge, "addrgenmode", "none")
        run("ip", "link", "set", bridge, "mtu", str(SEGMENT_MTU), "up")


def _ensure(lab: Lab, bridge: str) -> None:
    alias = _alias_of(lab.name)
    if not bridge_exists(bridge):
        run("ip", "link", "add", bridge, "type", "bridge")
        run("ip", "link", "set", bridge, "alias", alias)
    elif _alias(bridge) not in (alias, ""):  # none: we were cut off between the two commands above
        raise LabError(
            f"interface {bridge} is not lab {lab.name}'s: its alias is {_alias(bridge)!r}",
            "give the lab another name",
        )
    _forward_nothing(bridge)


def _forward_nothing(bridge: str) -> None:
    """Have the host forward nothing from a bridge, over which a node could reach other networks of the host."""
    for version in ("ipv4", "ipv6"):  # a host may have no IPv6
        path = _KERNEL / version / "conf" / bridge / "forwarding"
        try:
            if path.exists() and path.read_text().strip() != "0":
                path.write_text("0")
        except OSError as error:
            raise LabError(
                f"{path} cannot be set to 0: {error.strerror}; nodes could reach other networks of this host",
                "make /proc/sys writable, or set net.ipv4.ip_forward and net.ipv6.conf.all.forwarding to 0",
            ) from error


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
