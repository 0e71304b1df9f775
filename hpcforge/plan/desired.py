"""The desired state of each node: typed resources, rendered, content stored once per distinct text.

The node program gets the JSON form (`DesiredRole.plain`), see `hpcforge.node`.
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
    """A path that a role's own code creates. It is removed with the role, with all its content."""

    path: Annotated[str, LocalName.PATH]


@dataclass(frozen=True)
class KeptPath:
    """A path that stays when the role is removed, and the reason."""

    path: Annotated[str, LocalName.PATH]
    why: str


@dataclass(frozen=True, slots=True)
class OldState:
    """The state that another cluster may have left at a path, and that the role would take for its own."""

    path: Annotated[str, LocalName.PATH]
    cluster: str  # the present one
    why: str  # the effect of the old state
    name_in: str = ""  # the file below the path with the cluster's name; "": the path is a file with ClusterName=
    beside: Annotated[tuple[str, ...], LocalName.PATH] = ()  # paths renamed with it
    unit: Annotated[str, LocalName.UNIT] = ""  # the unit stopped before


@dataclass(frozen=True, slots=True)
class Reread:
    """A file that needs only a refresh; with `lines`, only if every changed line matches that expression."""

    path: Annotated[str, LocalName.PATH]
    lines: str | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """A systemd unit, enabled and running; restarted or refreshed when one of `watches` (paths) changes."""

    name: Annotated[str, LocalName.UNIT]
    watches: Annotated[tuple[str, ...], LocalName.PATH]
    # commands in place of a restart, in order, if it runs already
    refresh: Annotated[tuple[tuple[str, ...], ...], LocalName.COMMAND] = ()
    rereads: tuple[Reread, ...] = ()  # the files that need only a refresh; none: all of `watches`


@dataclass(frozen=True, slots=True)
class Listen:
    """A port that a daemon of the role listens on; `address` is empty for all addresses of the node."""

    port: int
    protocol: Literal["tcp", "udp"]
    address: str


@dataclass(frozen=True, slots=True)
class Restart:
    """A unit of another role, restarted when one of `watches` (paths of this role) changes."""

    unit: Annotated[str, LocalName.UNIT]
    watches: Annotated[tuple[str, ...], LocalName.PATH]


@dataclass(frozen=True, slots=True)
class Artifact:
    """A pinned file that the operator host fetches for the depot."""

    name: str  # FOLDER/FILE below the depot's folder, also in its URL
    source: str  # an address, or "pip"
    sha256: str
    size_bytes: int | None = None

    @property
    def folder(self) -> str:
        """The first part of its name."""
        return self.name.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection of Ansible, and its archive that the operator host fetches: a wheel or a tarball."""

    name: str  # NAMESPACE.NAME
    version: str
    archive: Artifact

    @property
    def folder(self) -> str:
        """The folder, below the artifacts, where the operator host unpacks it."""
        return f"{self.archive.sha256}.unpacked/{self.name}"


@dataclass(frozen=True, slots=True)
class Check:
    """A command with an expected outcome. After the role's work it runs until it passes, for `wait_s` at most.

    An observation runs it once; with a `wait_s` it fails only if it fails twice. `first`: if it fails in an
    observation, hpcforge changes nothing on the node.
    """

    name: str
    command: Annotated[tuple[str, ...], LocalName.COMMAND]
    stdout: str | None  # regular expression that must match somewhere in the output
    wait_s: float
    first: bool = False


@dataclass(frozen=True, slots=True)
class Opaque:
    """Work of a role's own code: listed in plans by digest, run when the digest changes or a check fails."""

    engine: Literal["pyinfra", "ansible"]
    source: str  # deploy.py, or the Ansible role's folder, on the operator host
    inputs: Mapping[str, Any]  # plain data for the code
    digest: str  # SHA-256 over code and inputs
    collections: tuple[Collection, ...] = ()  # collections of the Ansible role
    rerun_on: Annotated[tuple[str, ...], LocalName.PATH] = ()  # paths of its role: it runs again when one changes


@dataclass(frozen=True, slots=True)
class RoleNeed:
    """A role that must run before, and its nodes. No nodes: the same node."""

    role: str
    nodes: tuple[str, ...] = ()

    def providers(self, node: str) -> tuple[str, ...]:
        """Return the nodes that run it, for a role of this node."""
        return self.nodes or (node,)


@dataclass(frozen=True, slots=True)
class DesiredRole:
    """One role on one node, or on several equal nodes: then all of them share one object."""

    role: str
    needs: tuple[RoleNeed, ...] = ()
    packages: Annotated[tuple[str, ...], LocalName.PACKAGE] = ()
    replaces: Annotated[tuple[str, ...], LocalName.PACKAGE] = ()  # packages removed for these, if installed
    programs: tuple[str, ...] = ()  # programs and libraries of its packages; others of these names must not come first
    listens: tuple[Listen, ...] = ()
    resources: tuple[Resource, ...] = ()  # in the order of the table of kinds
    units: tuple[Unit, ...] = ()
    restarts: tuple[Restart, ...] = ()  # disturbed units of other roles
    checks: tuple[Check, ...] = ()
    opaque: Opaque | None = None
    trees: tuple[Tree, ...] = ()  # paths that only the opaque work creates
    leaves: tuple[KeptPath, ...] = ()  # paths that stay when the role is removed
    old_state: tuple[OldState, ...] = ()
    on_remove: OnRemove = "stop"  # keep: remove nothing; purge: also remove packages that hpcforge installed
    guard: bool = False  # it could lock hpcforge out: the node reverts it unless a new connection confirms it
    shape: Shape = "free"  # together: units wait until every node has the files, for a new munge key
    sets_clock: bool = False  # it corrects the node's clock
    jobs_feel: bool = True  # it may affect jobs
    disrupts: Mapping[str, Disruption] = field(default_factory=dict)  # by "packages", a kind, "units", "opaque"

    def of(self, kind: type[R]) -> tuple[R, ...]:
        """Return its resources of one kind."""
        return tuple(resource for resource in self.resources if isinstance(resource, kind))

    def plain(self) -> dict[str, Any]:
        """Return the plain data for the node program."""
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
    """The roles of every node in their order, and the text of every file by digest."""

    roles: tuple[str, ...]  # all roles, each after its needs
    nodes: Mapping[str, tuple[DesiredRole, ...]]
    texts: Mapping[str, str]
    scheduler: str | None = None  # the role that installs Slurm's controller
    depot: str | None = None  # the role that serves artifacts
    artifacts: tuple[Artifact, ...] = ()  # the contents of the depot, by name

    @cached_property
    def distinct(self) -> tuple[DesiredRole, ...]:
        """The roles of all nodes in that order, each object once; equal nodes share one."""
        return tuple({id(role): role for roles in self.nodes.values() for role in roles}.values())

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the desired state of all nodes; texts count by their digests."""
        digests = {id(role): hashlib.sha256(json.dumps(role.plain()).encode()).hexdigest() for role in self.distinct}
        plain = json.dumps({name: [digests[id(role)] for role in roles] for name, roles in self.nodes.items()})
        return hashlib.sha256(plain.encode()).hexdigest()
