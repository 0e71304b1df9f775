"""The desired state of each node: typed resources, rendered, content stored once per distinct text.

The JSON form of these (`Wanted.plain`) is what the node program is sent, see `hpcforge.node`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar

from hpcforge.kinds.resource import LocalName, Resource

Disruption = Literal["none", "restart", "drain", "reboot", "destroys-data"]  # from the mildest to the worst
DISRUPTIONS: tuple[Disruption, ...] = ("none", "restart", "drain", "reboot", "destroys-data")
OnRemove = Literal["keep", "stop", "purge"]
Shape = Literal["free", "together"]
R = TypeVar("R", bound=Resource)
T = TypeVar("T")


@dataclass(frozen=True)
class Tree:
    """What a role's own code makes at a path: with the role it goes, and all that is in it."""

    path: Annotated[str, LocalName.PATH]


@dataclass(frozen=True)
class KeptPath:
    """A path that stays when the role goes, and why."""

    path: Annotated[str, LocalName.PATH]
    why: str


@dataclass(frozen=True, slots=True)
class OldState:
    """What another cluster than this one may have left at a path, and the role would take for its own."""

    path: Annotated[str, LocalName.PATH]
    cluster: str  # this one
    why: str  # what it would do
    name_in: str = ""  # the file below the path with the cluster's name; "": the file itself has ClusterName=
    beside: Annotated[tuple[str, ...], LocalName.PATH] = ()  # renamed with it
    unit: Annotated[str, LocalName.UNIT] = ""  # stopped before


@dataclass(frozen=True, slots=True)
class Reread:
    """A file that a refresh is enough for; with `lines`, where it changes in lines alone that match that expression."""

    path: Annotated[str, LocalName.PATH]
    lines: str | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """A systemd unit that is enabled and running; restarted (or refreshed) when one of `watches` (paths) changes."""

    name: Annotated[str, LocalName.UNIT]
    watches: Annotated[tuple[str, ...], LocalName.PATH]
    # commands in place of a restart, in order, where it runs already
    refresh: Annotated[tuple[tuple[str, ...], ...], LocalName.COMMAND] = ()
    rereads: tuple[Reread, ...] = ()  # the files that a refresh is enough for; none: all of `watches`


@dataclass(frozen=True, slots=True)
class Listen:
    """A port that a daemon of the role listens on; `address` is empty for all of the node's."""

    port: int
    protocol: Literal["tcp", "udp"]
    address: str


@dataclass(frozen=True, slots=True)
class Restart:
    """A unit of another role's, restarted when one of `watches` (paths of this role) changes."""

    unit: Annotated[str, LocalName.UNIT]
    watches: Annotated[tuple[str, ...], LocalName.PATH]


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file from outside, pinned, that the operator host fetches for the depot."""

    name: str  # FOLDER/FILE below the depot's folder, and its address there
    source: str  # an address, or "pip"
    sha256: str
    size_bytes: int | None = None

    @property
    def folder(self) -> str:
        """The first part of its name."""
        return self.name.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection of Ansible, and the archive of it that the operator host fetches: a wheel or a tarball."""

    name: str  # NAMESPACE.NAME
    version: str
    archive: Artifact

    @property
    def folder(self) -> str:
        """Where the operator host unpacks it, below its folder of artifacts."""
        return f"{self.archive.sha256}.unpacked/{self.name}"


@dataclass(frozen=True, slots=True)
class Check:
    """A command with an expected outcome. Run after the role's work until it passes, for `wait_s` at most.

    Observe runs it once; where it may be waited for it fails only if it fails twice. `first`: where it then fails, the
    node is left out, before anything is done there.
    """

    name: str
    command: Annotated[tuple[str, ...], LocalName.COMMAND]
    stdout: str | None  # regular expression that must match somewhere in the output
    wait_s: float
    first: bool = False


@dataclass(frozen=True, slots=True)
class Opaque:
    """Work that data cannot say: listed in plans by digest, run when the digest changes or a check fails."""

    engine: Literal["pyinfra", "ansible"]
    source: str  # deploy.py, or the Ansible role's folder, on the operator host
    inputs: Mapping[str, Any]  # plain data handed to it
    digest: str  # SHA-256 over code and inputs
    collections: tuple[Collection, ...] = ()  # that the Ansible role uses
    rerun_on: Annotated[tuple[str, ...], LocalName.PATH] = ()  # paths of its role: where one changes, it runs again


@dataclass(frozen=True, slots=True)
class RoleNeed:
    """Another role that must be done first, and on which nodes. None: on the same one, whichever that is."""

    role: str
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DesiredRole:
    """One role on one node, or on several that are alike: then all of them have one object."""

    role: str
    needs: tuple[RoleNeed, ...] = ()
    packages: Annotated[tuple[str, ...], LocalName.PACKAGE] = ()
    replaces: Annotated[tuple[str, ...], LocalName.PACKAGE] = ()  # packages that go for these, where they are there
    programs: tuple[str, ...] = ()  # and libraries of its packages, which nothing else may stand before
    listens: tuple[Listen, ...] = ()
    resources: tuple[Resource, ...] = ()  # in the order of the table of kinds
    units: tuple[Unit, ...] = ()
    restarts: tuple[Restart, ...] = ()  # units of other roles that it disturbs
    checks: tuple[Check, ...] = ()
    opaque: Opaque | None = None
    trees: tuple[Tree, ...] = ()  # what the opaque work makes, and nobody else
    leaves: tuple[KeptPath, ...] = ()  # what stays when the role goes
    old_state: tuple[OldState, ...] = ()
    on_remove: OnRemove = "stop"  # keep: leave all of it; purge: packages that we brought go, too
    guard: bool = False  # it could lock hpcforge out: reverts by itself unless a new connection confirms it
    shape: Shape = "free"  # together: units wait until every node has the files, as a new munge key needs
    sets_clock: bool = False  # it makes the node's clock right
    jobs_feel: bool = True  # a job's outcome may depend on it
    disrupts: Mapping[str, Disruption] = field(default_factory=dict)  # by "packages", a kind, "units", "opaque"

    def of(self, kind: type[R]) -> tuple[R, ...]:
        """Its resources of one kind."""
        return tuple(resource for resource in self.resources if isinstance(resource, kind))

    def plain(self) -> dict[str, Any]:
        """As the node program is sent it."""
        data = asdict(self)
        resources = by_kind(self.resources, data.pop("resources"))
        return {**data, **resources}


def by_kind(resources: Iterable[Resource], items: Iterable[T]) -> dict[str, list[T]]:
    """Group items that belong to resources, by the resources' kind."""
    groups: dict[str, list[T]] = {}
    for resource, item in zip(resources, items, strict=True):
        groups.setdefault(resource.kind, []).append(item)
    return groups


@dataclass(frozen=True)
class Desired:
    """Every node's roles in the order they are done, and the text of every file by digest."""

    roles: tuple[str, ...]  # all, in an order that agrees with every need
    nodes: Mapping[str, tuple[DesiredRole, ...]]
    texts: Mapping[str, str]
    scheduler: str | None = None  # the role that brings Slurm's controller
    depot: str | None = None  # the role that serves artifacts
    artifacts: tuple[Artifact, ...] = ()  # all that it serves, by name

    @cached_property
    def distinct(self) -> tuple[DesiredRole, ...]:
        """The roles of all nodes, in that order; each object once, of which nodes that are alike share one."""
        return tuple({id(role): role for roles in self.nodes.values() for role in roles}.values())

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the desired state of all nodes; texts count by their digests."""
        digests = {id(role): hashlib.sha256(json.dumps(role.plain()).encode()).hexdigest() for role in self.distinct}
        plain = json.dumps({name: [digests[id(role)] for role in roles] for name, roles in self.nodes.items()})
        return hashlib.sha256(plain.encode()).hexdigest()
