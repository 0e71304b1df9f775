"""Addresses that nobody gave: functions of a node's own name, so that inserting a node never moves another. Pure.

On the network of node addresses: what stands before the number in a name chooses where its range begins, by a digest;
the number counts from there. gpu001 to gpu032 follow each other. The lowest sixteenth of a subnet is left for gateways
and services. On every other network a node keeps its host part, the distance from the subnet's first address, if that
subnet is at least as large; on a smaller one its name chooses again.

Two names may be given the same address; that is found, and said, never mended by moving one of them.
"""

from __future__ import annotations

import hashlib
import re
from ipaddress import IPv4Address, IPv4Network

_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})([^0-9]*)")


def by_name(name: str, cidr: str) -> str:
    """Return the address of a node on a subnet."""
    subnet = IPv4Network(cidr)
    lowest = max(1, subnet.num_addresses // 16)
    room = subnet.num_addresses - 1 - lowest  # without the broadcast address
    found = _NUMBERED.fullmatch(name)
    stem, number = (f"{found[1]}#{found[3]}", int(found[2])) if found else (name, 0)
    start = int.from_bytes(hashlib.sha256(stem.encode()).digest()[:8], "big")
    return str(subnet.network_address + lowest + (start + number) % room)


def alike(address: str, cidr: str, other_cidr: str) -> str | None:
    """Return the address of the same host part on another subnet, None if that is smaller."""
    subnet, other = IPv4Network(cidr), IPv4Network(other_cidr)
    if other.prefixlen > subnet.prefixlen:
        return None
    return str(other.network_address + (int(IPv4Address(address)) - int(subnet.network_address)))
