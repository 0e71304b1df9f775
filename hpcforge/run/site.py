"""A site that is worked on: its blueprint resolved, its roles compiled, its secrets, and the ways to its nodes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hpcforge.cluster import Loaded
from hpcforge.cluster.model import Cluster, Node
from hpcforge.engines import Engines
from hpcforge.engines.private import private_folder
from hpcforge.engines.tasks import Target
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.desired import Desired
from hpcforge.plan.role import load_roles, site_role_code
from hpcforge.plan.roster import Enrolled
from hpcforge.run.host_certificates import AUTHORITY, REVOKED, current_step, with_derived, with_revoked
from hpcforge.run.secrets import digests, ensure_secrets, read_secrets, store_revoked


@dataclass(frozen=True)
class Site:
    """A blueprint with the inventory it is meant for."""

    loaded: Loaded
    cluster: Cluster
    identity: Path
    lab: str | None  # the rehearsal whose nodes these are
    start: str | None = None  # the command that starts them, where they are a rehearsal's
    step: int = field(default_factory=current_step)  # of host certificates: one for all of a run


@dataclass(frozen=True)
class Goal:
    """What every node should have, by the shipped roles and the site's own, and the secrets that are part of it."""

    secrets: Mapping[str, bytes]  # as `site_secrets` gives them
    desired: Desired


def site_secrets(site: Site, *, make: bool) -> dict[str, bytes]:
    """The site's secrets and what is derived from them for its nodes; `make`: those that are missing are generated."""
    take = ensure_secrets if make else read_secrets
    return with_derived(take(site.loaded.secrets_path, site.identity), site.cluster, site.step)


def compile_site(site: Site, secrets: Mapping[str, bytes]) -> Desired:
    """What every node should have, by the shipped roles and the site's own; `secrets` as `site_secrets` gives them."""
    code = {role.name: site_role_code(role.path) for role in site.cluster.site_roles}
    return compile_desired(site.cluster, load_roles(*site.loaded.role_folders), digests(secrets), code)


def goal(site: Site, *, make: bool) -> Goal:
    """What every node should have; `make`: secrets that are missing are generated."""
    secrets = site_secrets(site, make=make)
    return Goal(secrets, compile_site(site, secrets))


def revoking(site: Site, before: Goal, keys: Iterable[str]) -> Goal:
    """The goal with these host keys revoked; the very same where they are, or where there is no authority yet."""
    secrets = with_revoked(before.secrets, keys)
    if AUTHORITY not in secrets or secrets == before.secrets:
        return before
    secrets = with_derived(secrets, site.cluster, site.step)
    return Goal(secrets, compile_site(site, secrets))


def keep_revoked(site: Site, reached: Goal) -> None:
    """Have what is revoked stay so when nobody knows any more who left. Raises `SecretsError`."""
    revoked = reached.secrets.get(REVOKED)
    if revoked:
        store_revoked(site.loaded.secrets_path, site.identity, revoked.decode().splitlines())


def artifacts_path() -> Path:
    """Where the operator host keeps what it fetched for nodes."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hpcforge" / "artifacts"


@contextmanager
def open_engines(site: Site) -> Iterator[Engines]:
    """Connections to all nodes (made when first used), and a work folder that goes when they close."""
    targets = [target(site, node.name, node) for node in site.cluster.nodes]
    with (
        private_folder() as work,
        Engines(targets, work, artifacts_path(), jump_host(site)) as up,
    ):
        yield up


def jump_host(site: Site) -> Target | None:
    """The machine that nodes are reached through. A rehearsal's are on this machine: only a node of it is gone by."""
    access = site.cluster.access
    via = access.via
    if via is None or (site.lab is not None and not via.is_node):
        return None
    return Target(via.name, via.address, via.user, access.become, access.key, via.host_keys)


def target(site: Site, name: str, machine: Node | Enrolled) -> Target:
    """How to get into a node of the blueprint, or one that has left it."""
    access = site.cluster.access
    return Target(name, machine.address, access.user, access.become, access.key, machine.host_keys, site.start)


def add_leaving(site: Site, engines: Engines, nodes: Mapping[str, Enrolled]) -> None:
    """Have nodes of the roster that the blueprint no longer names."""
    engines.add(target(site, name, enrolled) for name, enrolled in nodes.items())
