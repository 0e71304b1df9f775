"""The networks of a draft: one for all nodes, and others by the addresses that a site's files have on them. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from hpcforge.blueprint.edit import quoted
from hpcforge.blueprint.hostlist import fold
from hpcforge.starter.machines import SiteAccess, SiteMachine, note_of

NODES = "mgmt"  # the templates' name for the network of node addresses
_SHORTEST, _LONGEST = 8, 24  # prefixes
_LONGEST_OF_NODES = 29
USUAL = "10.20.0.0/22"  # default without known addresses
_OUTSIDE = re.compile(r"pub|public|ext|external|wan|campus|inet|internet")  # names for a network of the site
_TAKEN = (NODES, "bmc", "default")  # names with another meaning in a blueprint


def around(addresses: Iterable[str]) -> ipaddress.IPv4Network | None:
    """Return the smallest network of 256 addresses or more that has all of these as hosts, or None."""
    parsed = sorted(map(ipaddress.IPv4Address, addresses))
    for prefix in range(_LONGEST, _SHORTEST - 1, -1):
        network = ipaddress.IPv4Network((parsed[0], prefix), strict=False)
        if network.network_address < parsed[0] and parsed[-1] < network.broadcast_address:
            return network
    return None


def network_of(machines: Sequence[SiteMachine]) -> tuple[str, bool]:
    """Return the network that all machines are in, else the smallest of 256 addresses or more; and whether it is sure.

    A network of a few addresses is a cloud's, which has one for each machine.
    """
    [shared, *others] = {machine.network for machine in machines} or {None}
    if shared and not others and ipaddress.IPv4Network(shared).prefixlen <= _LONGEST_OF_NODES:
        return shared, True
    addresses = [ipaddress.IPv4Address(machine.address) for machine in machines if machine.address]
    if not addresses:
        return USUAL, False
    return str(around(map(str, addresses)) or ipaddress.IPv4Network((min(addresses), 8), strict=False)), False


def on_one_network(machines: Sequence[SiteMachine]) -> tuple[SiteMachine, ...]:
    """Return machines whose own addresses fit into one network of a blueprint.

    If no network has all of them, those of the
    8 with most machines stay; others become addresses on other networks.
    """
    own = [machine.address for machine in machines if machine.address]
    if not own or around(own):
        return tuple(machines)
    [(most, _)] = Counter(address.partition(".")[0] for address in own).most_common(1)
    return tuple(
        replace(machine, address=None, addresses={**machine.addresses, _network_name(machine.address): machine.address})
        if machine.address and machine.address.partition(".")[0] != most
        else machine
        for machine in machines
    )


def _network_name(address: str) -> str:
    return f"net-{address.rpartition('.')[0].replace('.', '-')}"


def with_networks(machines: Sequence[SiteMachine], nodes: str) -> tuple[list[str], list[SiteMachine]]:
    """Return lines for a blueprint's networks beside `nodes`, a CIDR, and the machines with addresses that are in them.

    The prefix is a guess from the addresses. Addresses of no network of their own go into the machines' notes.
    """
    by_word: dict[str, dict[str, str]] = {}
    for machine in machines:
        for word, address in machine.addresses.items():
            by_word.setdefault(word, {})[machine.name] = address
    used = [ipaddress.IPv4Network(nodes)]
    lines: list[str] = []
    names: dict[str, str] = {}
    for word, addresses in by_word.items():
        network = around(addresses.values())
        if network is None or any(network.overlaps(earlier) for earlier in used):
            continue
        used.append(network)
        names[word] = _free_name(word, {*names.values()})
        public = _OUTSIDE.fullmatch(word) or not network.is_private  # the nodes' firewalls must not trust it
        outside = ", external: true" if public else ""
        on = fold(addresses)
        lines.append(f"{names[word]}: {{cidr: {network}, nodes: {quoted(on)}{outside}}}   # guess: the prefix")
    return lines, [_fitted(machine, names) for machine in machines]


def _free_name(word: str, names: set[str]) -> str:
    """Derive an unused section name from a word of the site."""
    name = re.sub(r"[^a-z0-9_-]+", "-", word.lower()).strip("-") or "net"
    name = (name if name[0].isalpha() else f"net-{name}")[:28]
    number = 2
    free = name
    while free in names or free in _TAKEN:
        free, number = f"{name}-{number}", number + 1
    return free


def _fitted(machine: SiteMachine, names: dict[str, str]) -> SiteMachine:
    inside = {names[word]: address for word, address in machine.addresses.items() if word in names}
    rest = [f"{word} {address}" for word, address in machine.addresses.items() if word not in names]
    return replace(machine, addresses=inside, note=note_of([*rest, machine.note or ""]))


def way_in(access: SiteAccess, user: str, machines: Sequence[SiteMachine]) -> str:
    """Return `via` of a blueprint's access, with a comma before it; "" without a jump host.

    A jump host that is one of the machines stands there by its name, and has their account.
    """
    account, _, host = (access.via or "").rpartition("@")
    if not host:
        return ""
    node = next((machine.name for machine in machines if host in (machine.name, machine.address)), None)
    if node or account in ("", user):
        return f", via: {node or host}"
    return f", via: {{host: {host}, user: {account}}}"


def inventory_parts(machine: SiteMachine) -> str:
    """Return what an inventory has of a machine beside its address, with a comma before it."""
    parts = {
        "mac": machine.mac,
        "serial": machine.serial,
        "addresses": dict(machine.addresses),
        "bmc": {"address": machine.bmc} if machine.bmc else {},
        "note": machine.note,
    }
    return "".join(f", {name}: {quoted(value)}" for name, value in parts.items() if value)
