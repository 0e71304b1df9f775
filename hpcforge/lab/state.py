"""The record of a lab: `lab.json` in its directory."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import TypeAdapter, ValidationError

from hpcforge.atomic import write_atomically
from hpcforge.blueprint.lab_kinds import LabKind
from hpcforge.lab.errors import LabError, UnknownKindError
from hpcforge.lab.names import lab_directory, lab_names, machine_name, segment_bridge
from hpcforge.rehearsal.lab_facts import Card

SCHEMA = 3  # raised with the second kind: versions before kinds treat every lab as nspawn


@dataclass(frozen=True)
class LabNode:
    """A requested node. `address` None: the lab chooses; `python` False: built without Python 3.

    A machine has these network `cards`, the first on the lab's bridge (none: one card), and a number of `drives` in
    addition to its disk. `release` None: the lab's.
    """

    name: str
    address: str | None = None
    python: bool = True
    cards: tuple[Card, ...] = ()
    drives: int = 0
    release: str | None = None


@dataclass(frozen=True)
class PlacedNode:
    """A node of a lab: its address on the lab's bridge, and the stack of its file system, highest first.

    `disks` are numbers of directories in `node_directory`: the first is the node's own and writable, the others belong
    to saves and never change; the last is the disk that the node was made on. `layers` are the base trees below all
    disks. `cards`, `drives` and `release` (None: the lab's) are from its creation.
    """

    name: str
    address: str
    python: bool
    layers: tuple[str, ...]
    disks: tuple[int, ...]
    cards: tuple[Card, ...] = ()
    drives: int = 0
    release: str | None = None


@dataclass(frozen=True)
class Save:
    """A saved state of the lab: `nodes` with their disks, and the running ones."""

    name: str
    saved_s: float  # seconds since 1970, UTC
    nodes: tuple[PlacedNode, ...]
    running: tuple[str, ...]
    in_blueprint: tuple[str, ...]
    blueprint: str
    network: str


@dataclass(frozen=True)
class UnderWay:
    """An unfinished save or restore: its step, and the nodes to start at its end."""

    step: Literal["saving", "saved", "restored"]
    save: str
    start: tuple[str, ...]


@dataclass(frozen=True)
class Lab:
    """A rehearsal cluster on this host. `in_blueprint` are the nodes of the last `up`."""

    name: str
    kind: LabKind
    tag: str  # prefix of all the lab's objects on the host
    cidr: str
    gateway: str  # the host's own address on the bridge
    packages_port: int  # port of the caching package proxy on that address
    packages_cache: str
    login_user: str
    release: str
    blueprint: str
    network: str
    nodes: tuple[PlacedNode, ...]
    in_blueprint: tuple[str, ...]
    disks_made: int  # the number of disks ever made; numbers are not reused
    saves: tuple[Save, ...] = ()
    under_way: UnderWay | None = None
    login_uid: int | None = None  # None: any free one
    # Package sources of roles, https://HOST or https://HOST:PORT, and whether this host reached them at the last `up`.
    sources: Mapping[str, bool] = field(default_factory=dict)

    @property
    def directory(self) -> Path:
        """The lab's directory on the host."""
        return lab_directory(self.name)

    @property
    def key(self) -> Path:
        """The private key of the login user on every node."""
        return self.directory / "key"

    @property
    def known_hosts(self) -> Path:
        """The nodes' host keys, for OpenSSH."""
        return self.directory / "known_hosts"

    @property
    def inventory(self) -> Path:
        """The inventory of this lab, for `--inventory`."""
        return self.directory / "inventory.yaml"

    @property
    def trees(self) -> set[Path]:
        """The base trees of the lab's nodes and saves."""
        nodes = (*self.nodes, *(node for save in self.saves for node in save.nodes))
        return {Path(layer) for node in nodes for layer in node.layers}

    @property
    def bridge(self) -> str:
        """The network interface that joins the nodes."""
        return self.tag

    @property
    def segments(self) -> dict[str, str]:
        """The bridges of nodes' further cards, by segment name."""
        names = sorted({card.segment for node in self.nodes for card in node.cards if card.segment})
        return {name: segment_bridge(self.tag, name) for name in names}

    @property
    def network_address(self) -> IPv4Network:
        """The lab's subnet."""
        return IPv4Network(self.cidr)

    def node(self, name: str) -> PlacedNode:
        """Return a node by name; `LabError` for an unknown one."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise LabError(
            f"lab {self.name} has no node {name!r}",
            f"its nodes: {', '.join(node.name for node in self.nodes)}; start a new node of the blueprint "
            f"with `hpcforge rehearse up {self.blueprint}`",
        )

    def save(self, name: str) -> Save:
        """Return a save by name; `LabError` for an unknown one."""
        for save in self.saves:
            if save.name == name:
                return save
        names = ", ".join(save.name for save in self.saves) or "none"
        raise LabError(
            f"lab {self.name} has no save {name!r} (there are: {names})", "make one: `hpcforge rehearse save NAME`"
        )

    def node_directory(self, node: str) -> Path:
        """Return the folder of a node's disks and console log."""
        return self.directory / "nodes" / node

    def machine(self, node: str) -> str:
        """Return a node's name on the host."""
        return machine_name(self.tag, node)


def save(lab: Lab) -> None:
    """Record a lab; from then on `load` finds it and `down` can remove it."""
    for directory in (lab.directory.parent.parent, lab.directory.parent, lab.directory):
        directory.mkdir(exist_ok=True)
        directory.chmod(0o700)
    text = json.dumps({"schema": SCHEMA, **asdict(lab)}, indent=2)
    write_atomically(lab.directory / "lab.json", text + "\n")


def read(name: str) -> Lab | None:
    """Return the lab of that name, or None; `LabError` if its record cannot be understood.

    Raise `UnknownKindError`, a subclass, for a kind of another version of hpcforge.
    """
    path = lab_directory(name) / "lab.json"
    try:
        data = json.loads(path.read_text())
        _check_kind(path, data)
        if data.pop("schema") != SCHEMA:
            raise ValueError("it was written by another version of hpcforge")
        return TypeAdapter(Lab).validate_python(data)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise LabError(
            f"{path} cannot be read: {_reason(error)}", f"remove the lab: `hpcforge rehearse down --lab {name}`"
        ) from None


def others(name: str) -> tuple[Lab, ...]:
    """Return all other labs of this host that can be read."""
    labs = []
    for lab_name in lab_names():
        if lab_name != name:
            try:
                labs.append(read(lab_name))
            except LabError:
                continue  # while it is up, the host's routes show its subnet
    return tuple(lab for lab in labs if lab is not None)


def lying_on(folder: Path) -> tuple[str, ...]:
    """Return the labs that use a file in a folder, also those recorded by another version of hpcforge."""
    prefix = json.dumps(f"{folder}/")[:-1]  # the beginning of a path in JSON
    records = ((name, lab_directory(name) / "lab.json") for name in lab_names())
    return tuple(name for name, path in records if path.is_file() and prefix in path.read_text(errors="replace"))


def _check_kind(path: Path, data: dict[str, Any]) -> None:
    kinds = get_args(LabKind)
    if "kind" not in data:
        raise ValueError("it does not say what kind of lab it is: an older version of hpcforge wrote it")
    if data["kind"] not in kinds:
        raise UnknownKindError(
            f"{path}: {data['kind']!r} is not a kind of lab that this hpcforge knows ({', '.join(kinds)})",
            "use the version of hpcforge that started it, also to take it down",
        )


def _reason(error: Exception) -> str:
    """Return the error as one line."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error)


# The state of a lab after a save, a restore or the loss of disks. Pure.
#
# A save moves nothing. A node writes to its own top disk above read-only disks. A save records the present disks, and
# the node gets a new top disk above them. A restore records the old list again.


MOST_DISKS = 100  # limit of a node: an overlay has a page (4096 bytes) for all paths


def check_save(lab: Lab, name: str, *, replacing: bool) -> None:
    """Raise `LabError` if the lab cannot be saved under this name."""
    if not replacing and any(save.name == name for save in lab.saves):
        raise LabError(f"lab {lab.name} has a save {name!r} already", "use another name, or replace it: `--replace`")
    if full := [node.name for node in lab.nodes if len(node.disks) >= MOST_DISKS]:
        raise LabError(
            f"node {full[0]} already uses the disks of {MOST_DISKS - 1} saves, the highest number",
            "go back to an older save (`hpcforge rehearse restore`), or take the lab down",
        )


def saved(lab: Lab, name: str, *, saved_s: float, running: Collection[str]) -> Lab:
    """Return the lab with its disks in a save of this name, and a new disk for each node."""
    ran = tuple(node.name for node in lab.nodes if node.name in running)
    save = Save(name, saved_s, lab.nodes, ran, lab.in_blueprint, lab.blueprint, lab.network)
    others = tuple(older for older in lab.saves if older.name != name)
    return replace(
        _on_new_disks(lab, lab.nodes), saves=(*others, save), under_way=UnderWay("saved", name, ran)
    )  # fmt: skip


def restored(lab: Lab, save: Save, names: Sequence[str] | None) -> Lab:
    """Return the lab restored to a save; or, with `names`, the present lab with only these nodes restored."""
    if names is None:
        back = replace(lab, in_blueprint=save.in_blueprint, blueprint=save.blueprint, network=save.network)
        return replace(_on_new_disks(back, save.nodes), under_way=UnderWay("restored", save.name, save.running))
    saved_nodes = {node.name: node for node in save.nodes}
    if strange := [name for name in names if name not in saved_nodes]:
        raise LabError(f"save {save.name} has no node {strange[0]!r}", f"its nodes: {', '.join(saved_nodes)}")
    back = _on_new_disks(lab, [saved_nodes[lab.node(name).name] for name in names])
    fresh = {node.name: node for node in back.nodes}
    nodes = tuple(fresh.get(node.name, node) for node in lab.nodes)
    start = tuple(name for name in save.running if name in names)
    return replace(back, nodes=nodes, under_way=UnderWay("restored", save.name, start))


def forgotten(lab: Lab, name: str) -> Lab:
    """Return the lab without a save, and without the disks that only it used."""
    lab.save(name)
    return replace(lab, saves=tuple(save for save in lab.saves if save.name != name))


def without_disks(lab: Lab, names: Collection[str]) -> Lab:
    """Return the lab with new, empty disks for these nodes, so that they are made again."""
    bare = [replace(node, disks=()) for node in lab.nodes if node.name in names]
    back = _on_new_disks(lab, bare)
    fresh = {node.name: node for node in back.nodes}
    return replace(back, nodes=tuple(fresh.get(node.name, node) for node in lab.nodes))


def ended(lab: Lab, not_started: Collection[str] = ()) -> Lab:
    """Return the lab without an unfinished step; or, with names, with a step that does not start these nodes."""
    if lab.under_way is None or not not_started:
        return replace(lab, under_way=None)
    start = tuple(name for name in lab.under_way.start if name not in not_started)
    return replace(lab, under_way=replace(lab.under_way, start=start))


def disks_of(nodes: Collection[PlacedNode]) -> set[tuple[str, int]]:
    """Return the disks of nodes: node and number."""
    return {(node.name, disk) for node in nodes for disk in node.disks}


def wanted_disks(lab: Lab) -> set[tuple[str, int]]:
    """Return all disks that the lab or one of its saves needs."""
    return disks_of(lab.nodes).union(*(disks_of(save.nodes) for save in lab.saves))


def _on_new_disks(lab: Lab, nodes: Sequence[PlacedNode]) -> Lab:
    """Return the lab with only these nodes, each with a new disk above its others."""
    fresh = (
        replace(node, disks=(disk, *node.disks)) for disk, node in enumerate(nodes, start=lab.disks_made + 1)
    )  # fmt: skip
    return replace(lab, nodes=tuple(fresh), disks_made=lab.disks_made + len(nodes))
