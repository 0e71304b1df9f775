"""Default routes of nodes whose interfaces hpcforge configures: none where one is needed, and two on one node. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping

from hpcforge.blueprint.hostlist import fold
from hpcforge.blueprint.validate import Finding
from hpcforge.cluster.interfaces import carried
from hpcforge.cluster.model import Cluster, Network, Node


def route_findings(cluster: Cluster) -> Iterator[Finding]:
    """Yield nodes that would have two default routes, and nodes without one whose services are on other networks."""
    networks = {node.name: [each for them in carried(cluster, node).values() for each in them if not each.bmc]
                for node in cluster.nodes}  # fmt: skip
    yield from _two(cluster, networks)
    yield from _none(cluster, networks)


def _two(cluster: Cluster, networks: Mapping[str, list[Network]]) -> Iterator[Finding]:
    """Two networks with a gateway: only the route with the lowest metric is used, that of the first network.

    A network of the site beside one of the nodes' own is no mistake: the way through a node waits behind the site's.
    """
    several: dict[tuple[str, ...], list[str]] = {}
    for node in cluster.nodes:
        routed = [each for each in networks[node.name] if each.configure and _is_routed(node, each)]
        for external in (True, False):
            names = tuple(each.name for each in routed if each.external == external)
            if len(names) > 1:
                several.setdefault(names, []).append(node.name)
    for names, nodes in several.items():
        message = f"{fold(nodes)}: default routes on {' and '.join(f'`{name}`' for name in names)}"
        hint = f"only that of `{names[0]}` is used; leave out `gateway` here"
        yield Finding(("networks", names[1], "gateway"), message, hint, severity="warning")


def _none(cluster: Cluster, networks: Mapping[str, list[Network]]) -> Iterator[Finding]:
    """No gateway although a service is reached through one. Networks that hpcforge leaves alone may have a route."""
    lacking: dict[str, list[str]] = {}
    outside = list(_outside(cluster))
    for node in cluster.nodes:
        mine = networks[node.name]
        if not mine or any(not each.configure or each.gateway for each in mine):
            continue
        for service, address, users in outside:
            if users is None or node.name in users:
                lacking.setdefault(f"{address} ({service})", []).append(node.name)
    if lacking:
        nodes = sorted({name for names in lacking.values() for name in names})
        several = ", ".join(list(lacking)[:4]) + ", ..." * (len(lacking) > 4)
        message = f"{fold(nodes)}: no gateway, and not on their networks: {several}"
        hint = "gateway: an address of this network, or the node on it that routes"
        yield Finding(("networks", cluster.network.name), message, hint, severity="warning", key=True)


def _outside(cluster: Cluster) -> Iterator[tuple[str, str, tuple[str, ...] | None]]:
    """Yield services with addresses that are on no network of the blueprint, and the nodes that use it; None: all."""
    subnets = [ipaddress.IPv4Network(network.cidr) for network in cluster.networks]
    for name, service in cluster.services.items():
        used: list[tuple[str, tuple[str, ...] | None]] = [(address, None) for address in service.external]
        used += [(address, service.on) for address in service.options.get("forward", ())]
        for address, users in used:
            if not address[:1].isdigit():
                continue  # a name may be of a host on these networks
            if not any(ipaddress.IPv4Address(address) in subnet for subnet in subnets):
                yield name, address, users


def _is_routed(node: Node, network: Network) -> bool:
    own = node.addresses.get(network.name, node.address)
    return network.gateway is not None and network.gateway != own
