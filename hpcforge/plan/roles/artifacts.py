"""Artifacts of roles: files from outside that the depot serves, and the downloads of nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import quote

from hpcforge.cluster.model import Cluster
from hpcforge.errors import ExpectedError
from hpcforge.kinds.downloads import Download
from hpcforge.plan.desired import Artifact
from hpcforge.plan.roles.render import Template
from hpcforge.plan.roles.role import Role
from hpcforge.plan.roles.spec import ArtifactSpec

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*/[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_SOURCE = re.compile(r"(?:https?://[^\s/@]+/|file:///)\S+")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MODE = re.compile(r"[0-7]{3,4}")


class NoDepotError(ExpectedError):
    """A role has artifacts, but no node of the blueprint serves them."""

    kind = "invalid"

    def __init__(self, role: str, service: str) -> None:
        super().__init__(f"the artifacts of role {role} need the service `{service}`, which no node provides")
        self.hint = f"under `services`:  {service}: {{on: NODE}}"


@dataclass(frozen=True)
class DepotContents:
    """The contents of the depot, and its address; None: no depot."""

    artifacts: tuple[Artifact, ...] = ()  # by name
    address: str | None = None


def served(cluster: Cluster, depot: Role | None, by_role: Iterable[tuple[Role, Iterable[Artifact]]]) -> DepotContents:
    """Return the contents of the depot for these roles.

    Raises:
        NoDepotError: the blueprint has no node for the depot.
        RoleError: two roles use one name for different files.
    """
    by_name: dict[str, tuple[Role, Artifact]] = {}
    for role, artifacts in by_role:
        for artifact in artifacts:
            first, same = by_name.setdefault(artifact.name, (role, artifact))
            if same != artifact:
                raise role.wrong(f"artifact {artifact.name} differs from the one of role {first.name}", ("artifacts",))
    if not by_name or depot is None:  # a role with artifacts needs a depot, see `hpcforge.plan.roles.contributions`
        return DepotContents()
    service = service_of(depot)
    host = cluster.services[service].host if service in cluster.services else None
    if host is None:
        raise NoDepotError(next(iter(by_name.values()))[0].name, service)
    return DepotContents(tuple(by_name[name][1] for name in sorted(by_name)), cluster.by_name[host].address)


def service_of(depot: Role) -> str:
    """Return the service that serves artifacts."""
    return next(name for name, offer in depot.spec.services.items() if offer.serves_artifacts)


def artifact(spec: ArtifactSpec, render: Callable[[Template], str]) -> Artifact:
    """Return an artifact from its rendered fields. Raises ValueError for invalid fields."""
    name, source, digest = render(spec.name), render(spec.source), render(spec.sha256)
    if not _NAME.fullmatch(name):
        raise ValueError(f"name {name!r} is not FOLDER/FILE, of letters, digits and _ . + -")
    if not _SOURCE.fullmatch(source) and not (source == "pip" and name.endswith(".whl")):
        raise ValueError(f"source {source!r} is not an address (https, http, file); `pip` is only for wheels")
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"sha256 {digest!r} is not 64 digits of 0-9 and a-f")
    size = None if spec.size_bytes is None else int(render(spec.size_bytes))
    if size is not None and size < 0:
        raise ValueError(f"size_bytes {size} is not a size")
    return Artifact(name, source, digest, size)


def download(spec: ArtifactSpec, render: Callable[[Template], str], address: str | None) -> Download:
    """Return a node's download of an artifact. Raise ValueError for invalid fields."""
    file, mode = artifact(spec, render), render(spec.mode)
    if not _MODE.fullmatch(mode):
        raise ValueError(f"mode {mode!r} is not octal")
    url = f"http://{address}/{quote(file.name)}"
    return Download("" if spec.path is None else render(spec.path), url, file.sha256, file.size_bytes, mode.zfill(4))
