"""The target state of a lab, from the request and the present lab. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Network
from pathlib import Path

from hpcforge.blueprint.lab_kinds import DEFAULT, LabKind
from hpcforge.lab import network as subnets
from hpcforge.lab.errors import LabError
from hpcforge.lab.names import check_node_name, check_user_name
from hpcforge.lab.state import Lab, LabNode, PlacedNode


@dataclass(frozen=True)
class UpRequest:
    """The request of `up`.

    `cidr` is used if it is free on this host, else another subnet of its size in which every node keeps its host part.
    """

    name: str
    nodes: tuple[LabNode, ...]
    cidr: str
    login_user: str
    release: str
    blueprint: Path
    network: str = "cluster"  # the blueprint's name for it
    kind: LabKind = DEFAULT
    login_uid: int | None = None  # None: any
    avoid: tuple[IPv4Network, ...] = ()  # networks that the lab must not use


@dataclass(frozen=True)
class Trees:
    """The base trees of nodes with and without Python, highest first."""

    with_python: tuple[str, ...]
    without_python: tuple[str, ...]


def trees_of(image: Path) -> Trees:
    """Return the base of nodes from an image; it always has Python."""
    return Trees((str(image),), (str(image),))


def comes(existing: Lab | None, request: UpRequest) -> bool:
    """Return whether the request has a node that is new, or of another release."""
    present = {(node.name, node.release or existing.release) for node in existing.nodes} if existing else set()
    return not {(node.name, node.release or request.release) for node in request.nodes} <= present


def check(request: UpRequest) -> None:
    """Raise `LabError` for an invalid request."""
    check_user_name(request.login_user)
    names = [check_node_name(node.name) for node in request.nodes]
    if not names:
        raise LabError("a lab needs at least one node")
    if twins := {name for name in names if names.count(name) > 1}:
        raise LabError(f"node {min(twins)} is named twice")
    network = subnets.parse_cidr(request.cidr)
    subnets.place(network, network, _addresses(request.nodes))


def releases(request: UpRequest) -> tuple[str, ...]:
    """Return the releases of the requested nodes, each once."""
    return tuple(dict.fromkeys(node.release or request.release for node in request.nodes))


def new_lab(
    request: UpRequest, trees: Mapping[str, Trees], *, subnet: IPv4Network, tag: str, port: int, packages_cache: str
) -> Lab:
    """Return a new lab; `trees` are by release."""
    placed = subnets.place(subnets.parse_cidr(request.cidr), subnet, _addresses(request.nodes))
    return Lab(
        name=request.name,
        kind=request.kind,
        tag=tag,
        cidr=str(subnet),
        gateway=str(subnets.gateway(subnet, placed.values())),
        packages_port=port,
        packages_cache=packages_cache,
        login_user=request.login_user,
        release=request.release,
        blueprint=str(request.blueprint.absolute()),
        network=request.network,
        nodes=tuple(
            _placed(node, str(placed[node.name]), trees[node.release or request.release], disk)
            for disk, node in enumerate(request.nodes, start=1)
        ),
        in_blueprint=tuple(node.name for node in request.nodes),
        disks_made=len(request.nodes),
        login_uid=request.login_uid,
    )


def grown_lab(lab: Lab, request: UpRequest, trees: Mapping[str, Trees], bare: Collection[str] = ()) -> Lab:
    """Return an existing lab with the request added: present nodes keep their disk and address, new ones are added.

    `trees` are by release. A `bare` node, without a disk, may get another release than before.
    """
    _refuse_another_kind(lab, request)
    if any(network.overlaps(lab.network_address) for network in request.avoid):
        raise LabError(f"lab {lab.name} is on {lab.cidr}, where the blueprint has machines of its own", _AGAIN)
    have = {node.name: node for node in lab.nodes}
    addresses: dict[str, str | None] = {node.name: node.address for node in lab.nodes}
    desired, subnet = subnets.parse_cidr(request.cidr), lab.network_address
    for node in request.nodes:
        address = _moved(desired, subnet, node)
        if node.name in have and address not in (None, have[node.name].address):
            raise LabError(
                f"node {node.name} has {have[node.name].address} in lab {lab.name} and would now have {address}",
                _AGAIN,
            )
        if node.name in have and node.name not in bare and _release(lab, node) != _release(lab, have[node.name]):
            raise LabError(
                f"node {node.name} is Debian {_release(lab, have[node.name])}, not {_release(lab, node)}",
                f"build it again: `hpcforge rehearse down {lab.blueprint} {node.name} --disks`, then `rehearse up`",
            )
        addresses.setdefault(node.name, address)
    placed = subnets.place(subnet, subnet, addresses)
    if lab.gateway in map(str, placed.values()):
        raise LabError(f"address {lab.gateway} is the host's own in lab {lab.name}", _AGAIN)
    new = [
        _placed(node, str(placed[node.name]), trees[_release(lab, node)], disk)
        for disk, node in enumerate((n for n in request.nodes if n.name not in have), start=lab.disks_made + 1)
    ]
    changed = {
        node.name: replace(have[node.name], layers=_layers(node, trees[_release(lab, node)]), release=node.release)
        for node in request.nodes
        if node.name in have and _release(lab, node) != _release(lab, have[node.name])
    }
    return replace(
        lab,
        nodes=(*(changed.get(node.name, node) for node in lab.nodes), *new),
        blueprint=str(request.blueprint.absolute()),
        network=request.network,
        in_blueprint=tuple(node.name for node in request.nodes),
        disks_made=lab.disks_made + len(new),
        login_uid=request.login_uid,
    )


_AGAIN = "take the lab down first (`hpcforge rehearse down`), or give the other one a name of its own"


def _refuse_another_kind(lab: Lab, request: UpRequest) -> None:
    for label, current, requested in (
        ("nodes of the kind", lab.kind, request.kind),
        ("Debian", lab.release, request.release),
        ("login user", lab.login_user, request.login_user),
        ("prefix length", lab.network_address.prefixlen, subnets.parse_cidr(request.cidr).prefixlen),
    ):
        if current != requested:
            raise LabError(f"lab {lab.name} has {label} {current}, not {requested}", _AGAIN)


def _moved(desired: IPv4Network, subnet: IPv4Network, node: LabNode) -> str | None:
    """Return the address in the lab's subnet for a blueprint's address."""
    if node.address is None:
        return None
    return str(subnets.place(desired, subnet, {node.name: node.address})[node.name])


def _addresses(nodes: Sequence[LabNode]) -> dict[str, str | None]:
    return {node.name: node.address for node in nodes}


def _release(lab: Lab, node: LabNode | PlacedNode) -> str:
    return node.release or lab.release


def _layers(node: LabNode, trees: Trees) -> tuple[str, ...]:
    return trees.with_python if node.python else trees.without_python


def _placed(node: LabNode, address: str, trees: Trees, disk: int) -> PlacedNode:
    layers = _layers(node, trees)
    return PlacedNode(node.name, address, node.python, layers, (disk,), node.cards, node.drives, node.release)
