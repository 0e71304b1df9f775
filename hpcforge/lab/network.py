"""The network of a lab: its subnet, the address of each node, bridges, and forwarding."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv4Interface, IPv4Network, NetmaskValueError
from pathlib import Path

from hpcforge.host.commands import run
from hpcforge.lab.errors import LabError
from hpcforge.lab.state import Lab

# The lab's private bridges. Nothing is forwarded or translated, so the rest of the host is unchanged.
#
# A host may forward for other programs (Docker, libvirt), but forwards nothing from a lab's bridge.
SEGMENT_MTU = 9_216  # jumbo frames, as in data centres
_KERNEL = Path("/proc/sys/net")


def taken_subnets() -> list[IPv4Network]:
    """Return every IPv4 network with an address or a route of this host (except default routes)."""
    addresses = json.loads(run("ip", "-json", "-4", "address") or "[]")
    routes = json.loads(run("ip", "-json", "-4", "route", "show", "table", "all") or "[]")
    texts = [f"{info['local']}/{info['prefixlen']}" for link in addresses for info in link.get("addr_info", [])]
    texts += [route["dst"] for route in routes if route["dst"] != "default"]
    return sorted({IPv4Interface(text).network for text in texts})


def ensure_bridges(lab: Lab) -> None:
    """Set up the bridge with the host's address, and the bridges of further segments without one."""
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
    elif _alias(bridge) not in (alias, ""):  # none: interrupted between the two commands above
        raise LabError(
            f"interface {bridge} is not lab {lab.name}'s: its alias is {_alias(bridge)!r}",
            "give the lab another name",
        )
    _forward_nothing(bridge)


def _forward_nothing(bridge: str) -> None:
    """Disable forwarding from a bridge: a node could reach other networks of the host."""
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
    """Remove the bridge if it exists."""
    if bridge_exists(bridge):
        run("ip", "link", "delete", bridge, "type", "bridge")


def bridges_of(name: str) -> set[str]:
    """Return the bridges of a lab, by their alias."""
    return {path.name for path in Path("/sys/class/net").iterdir() if _alias(path.name) == _alias_of(name)}


def bridge_exists(bridge: str) -> bool:
    """Return whether the host has such an interface."""
    return Path("/sys/class/net", bridge).exists()


def _alias_of(name: str) -> str:
    return f"hpcforge lab {name}"


def _alias(bridge: str) -> str:
    try:
        return Path("/sys/class/net", bridge, "ifalias").read_text().strip()
    except OSError:  # removed meanwhile, or not an interface
        return ""


POOL = IPv4Network("10.77.0.0/16")


def parse_cidr(text: str) -> IPv4Network:
    """Parse an IPv4 network with room for nodes; `LabError` otherwise."""
    try:
        network = IPv4Network(text)
    except (AddressValueError, NetmaskValueError, ValueError) as error:
        raise LabError(f"{text!r} is not an IPv4 network: {error}", "write it as 10.77.0.0/24") from None
    if not POOL.prefixlen <= network.prefixlen <= 29:
        raise LabError(f"network {text} does not suit a lab", "use a prefix length between /16 and /29")
    return network


def choose_subnet(desired: IPv4Network, used: Sequence[IPv4Network]) -> IPv4Network:
    """Return the desired network if it is free on the host, else the first free one of its size in 10.77.0.0/16."""
    for network in (desired, *POOL.subnets(new_prefix=desired.prefixlen)):
        if not any(network.overlaps(neighbour) for neighbour in used):
            return network
    raise LabError(
        f"no free /{desired.prefixlen} in {POOL} for the lab; routes, interfaces and labs take "
        + ", ".join(str(neighbour) for neighbour in used if neighbour.overlaps(POOL)),
        "take a lab down (`hpcforge rehearse down`), or give the blueprint's network a cidr that is free on this host",
    )


def place(desired: IPv4Network, subnet: IPv4Network, addresses: dict[str, str | None]) -> dict[str, IPv4Address]:
    """Return every node's address in `subnet`: with its host part in `desired`, or the next free one from .10 on."""
    placed: dict[str, IPv4Address] = {}
    for name, text in addresses.items():
        if text is not None:
            offset = int(_inside(desired, name, text)) - int(desired.network_address)
            placed[name] = subnet.network_address + offset
    _refuse_twins(placed)
    free = _free_hosts(subnet, set(placed.values()))
    for name in (name for name, text in addresses.items() if text is None):
        try:
            placed[name] = next(free)
        except StopIteration:
            raise LabError(f"no address left in {subnet} for node {name}", "use a larger network") from None
    return {name: placed[name] for name in addresses}


def gateway(subnet: IPv4Network, nodes: Iterable[IPv4Address]) -> IPv4Address:
    """Return the host's own address on the bridge: the first, or the last unused one."""
    used = set(nodes)
    first, last = subnet.network_address + 1, subnet.broadcast_address - 1
    backwards = (last - offset for offset in range(subnet.num_addresses - 2))
    for candidate in (first, *backwards):
        if candidate not in used:
            return candidate
    raise LabError(f"no address left in {subnet} for the host itself", "use a larger network")


def _inside(desired: IPv4Network, name: str, text: str) -> IPv4Address:
    try:
        address = IPv4Address(text)
    except AddressValueError:
        raise LabError(f"node {name}: {text!r} is not an IPv4 address") from None
    if address not in desired or address in (desired.network_address, desired.broadcast_address):
        raise LabError(f"node {name}: {text} is not a host address in {desired}", "give it one, or widen the network")
    return address


def _refuse_twins(placed: dict[str, IPv4Address]) -> None:
    by_address: dict[IPv4Address, str] = {}
    for name, address in placed.items():
        if address in by_address:
            raise LabError(f"nodes {by_address[address]} and {name} have the same address {address}")
        by_address[address] = name


def _free_hosts(subnet: IPv4Network, used: set[IPv4Address]) -> Iterator[IPv4Address]:
    """Yield unused host addresses from .10 on; the first and last stay free for the host itself."""
    for offset in range(min(10, subnet.num_addresses // 2), subnet.num_addresses - 2):
        if subnet.network_address + offset not in used:
            yield subnet.network_address + offset
