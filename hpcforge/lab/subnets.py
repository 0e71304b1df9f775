"""Which subnet a lab gets, and which address each node has in it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError

from hpcforge.lab.errors import LabError

POOL = IPv4Network("10.77.0.0/16")


def parse_cidr(text: str) -> IPv4Network:
    """An IPv4 network with room for nodes; `LabError` otherwise."""
    try:
        network = IPv4Network(text)
    except (AddressValueError, NetmaskValueError, ValueError) as error:
        raise LabError(f"{text!r} is not an IPv4 network: {error}", "write it as 10.77.0.0/24") from None
    if not POOL.prefixlen <= network.prefixlen <= 29:
        raise LabError(f"network {text} does not suit a lab", "use a prefix length between /16 and /29")
    return network


def choose_subnet(wanted: IPv4Network, taken: Sequence[IPv4Network]) -> IPv4Network:
    """The wanted network if nothing on the host overlaps it, else the first free one of its size in 10.77.0.0/16."""
    for network in (wanted, *POOL.subnets(new_prefix=wanted.prefixlen)):
        if not any(network.overlaps(other) for other in taken):
            return network
    raise LabError(
        f"no free /{wanted.prefixlen} in {POOL} for the lab; routes, interfaces and labs take "
        + ", ".join(str(other) for other in taken if other.overlaps(POOL)),
        "take a lab down (`hpcforge rehearse down`), or give the blueprint's network a cidr that is free on this host",
    )


def place(wanted: IPv4Network, subnet: IPv4Network, addresses: dict[str, str | None]) -> dict[str, IPv4Address]:
    """Every node's address in `subnet`: the host part it has in `wanted`, or the next free one from .10 on."""
    placed: dict[str, IPv4Address] = {}
    for name, text in addresses.items():
        if text is not None:
            offset = int(_inside(wanted, name, text)) - int(wanted.network_address)
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
    """The host's own address on the bridge: the first, or the last that no node has."""
    used = set(nodes)
    first, last = subnet.network_address + 1, subnet.broadcast_address - 1
    backwards = (last - offset for offset in range(subnet.num_addresses - 2))
    for candidate in (first, *backwards):
        if candidate not in used:
            return candidate
    raise LabError(f"no address left in {subnet} for the host itself", "use a larger network")


def _inside(wanted: IPv4Network, name: str, text: str) -> IPv4Address:
    try:
        address = IPv4Address(text)
    except AddressValueError:
        raise LabError(f"node {name}: {text!r} is not an IPv4 address") from None
    if address not in wanted or address in (wanted.network_address, wanted.broadcast_address):
        raise LabError(f"node {name}: {text} is not a host address in {wanted}", "give it one, or widen the network")
    return address


def _refuse_twins(placed: dict[str, IPv4Address]) -> None:
    by_address: dict[IPv4Address, str] = {}
    for name, address in placed.items():
        if address in by_address:
            raise LabError(f"nodes {by_address[address]} and {name} have the same address {address}")
        by_address[address] = name


def _free_hosts(subnet: IPv4Network, used: set[IPv4Address]) -> Iterator[IPv4Address]:
    """Unused host addresses from .10 on; the first and last stay free for the host itself."""
    for offset in range(min(10, subnet.num_addresses // 2), subnet.num_addresses - 2):
        if subnet.network_address + offset not in used:
            yield subnet.network_address + offset
