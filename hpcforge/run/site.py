"""A site that is worked on: its blueprint resolved, its roles compiled, its secrets, and the ways to its nodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from hpcforge.atomic import rewrite_all
from hpcforge.blueprint.diagnostics import Diagnostic, InvalidInput, Mark, Severity, SourceFile
from hpcforge.blueprint.edit import with_values
from hpcforge.blueprint.reader import Loc, find, mark_of
from hpcforge.blueprint.validate import Finding
from hpcforge.cluster import Loaded, load
from hpcforge.cluster.load.loaded import inputs
from hpcforge.cluster.model import Cluster, Node
from hpcforge.command_hint import command_line
from hpcforge.design.fabric.cabling import Labels
from hpcforge.engines import Engines
from hpcforge.engines.host_keys import private_folder
from hpcforge.engines.tasks import Target
from hpcforge.errors import ChangedFileError, ExpectedError, UsageError
from hpcforge.image import recipe
from hpcforge.image.request import KERNELS, ImageRequest, request_of, with_kernel, with_packages
from hpcforge.locks import folder_lock
from hpcforge.plan.changes import EVERYTHING, Scope
from hpcforge.plan.compile import compile_desired, nodes_of
from hpcforge.plan.desired import Desired
from hpcforge.plan.roles.role import Role, RoleError, UnfitError, declared_secrets, load_roles, site_role_code
from hpcforge.plan.roster import Enrolled
from hpcforge.plan.secrets import uses
from hpcforge.plan.test_selection import Verify
from hpcforge.rehearsal.stand_ins import StandIn, rehearsed_roles
from hpcforge.secrets.host_certificates import AUTHORITY, REVOKED, current_step, with_derived, with_revoked
from hpcforge.secrets.secret_files import digests, unfit
from hpcforge.secrets.secrets import SecretKinds, ensure_secrets, kinds_of, made_up, read_secrets, store_revoked


@dataclass(frozen=True)
class Site:
    """A blueprint with its inventory."""

    loaded: Loaded
    cluster: Cluster
    identity: Path
    lab: str | None  # the rehearsal that has these nodes
    start: str | None = None  # the command that starts them, where they are a rehearsal's
    step: int = field(default_factory=current_step)  # of host certificates: one for all of a run
    stand_ins: tuple[StandIn, ...] = ()  # replacements in a rehearsal of a real site
    boots: bool = False  # the nodes of the rehearsal have kernels of their own
    away: Mapping[str, str] = field(default_factory=dict)  # roles whose packages the rehearsal cannot get, and why

    def fabric_plans(self) -> tuple[Labels, ...]:
        """Return the fabrics as built by the plan; a rehearsal has none."""
        return tuple(cables.labels for cables in self.loaded.cables) if self.lab is None else ()

    @property
    def own_inventory(self) -> Path | None:
        """The site's file of machines; None where they are a rehearsal's, which is in no repository."""
        return self.loaded.inventory_path if self.lab is None else None

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that the cluster is made from: a commit is of these."""
        return (*inputs(self.loaded), *((self.own_inventory,) if self.own_inventory else ()))

    @property
    def kept_as(self) -> str:
        """Under which name this host keeps copies of the head's records: those of a site and of its rehearsal apart."""
        return f"{self.cluster.name}@{self.lab}" if self.stand_ins else self.cluster.name


@dataclass(frozen=True)
class Goal:
    """The desired state of every node, by the shipped roles and the site's own, and the part of it for one run."""

    secrets: Mapping[str, bytes] = field(repr=False)  # the stored ones, and those derived from them for nodes
    desired: Desired
    lacking: tuple[Diagnostic, ...] = ()  # secrets that the site has to provide before an apply
    nodes: tuple[str, ...] = ()  # the selected ones
    whole: bool = True  # all of the cluster is selected
    scope: Scope = EVERYTHING
    verify: Verify = "touched"  # the tests after the changes
    arriving: tuple[str, ...] = ()  # selected nodes that are being installed


def load_site_roles(loaded: Loaded) -> tuple[Role, ...]:
    """Load the shipped roles and the site's own. Raise `RoleError`."""
    return load_roles(*loaded.role_folders)


def site_roles(site: Site) -> tuple[Role, ...]:
    """Load the same roles, adapted where the site is a rehearsal. Raise `RoleError`."""
    roles = load_site_roles(site.loaded)
    return roles if site.lab is None else rehearsed_roles(roles, boots=site.boots, away=site.away)


def compile_site(roles: Sequence[Role], secrets: Mapping[str, bytes], cluster: Cluster) -> Desired:
    """Compute every node's desired resources. `secrets` are the kept ones, and those derived from them for nodes."""
    code = {role.name: site_role_code(role.path) for role in cluster.site_roles}
    return compile_desired(cluster, roles, digests(secrets), code)


def known_names(error: RoleError, loaded: Loaded) -> ExpectedError:
    """Return the error with its place in the blueprint, where a shipped or own role does not fit what that chooses."""
    if not isinstance(error, UnfitError):
        return error
    releases = [
        ("overrides", name, "release") for name, override in loaded.blueprint.overrides.items() if override.release
    ]
    mark = first_mark(loaded, (*error.locs, *releases, ("software", "os", "release")))
    return InvalidInput(replace(entry, source=loaded.draft.document.source, mark=mark) for entry in error.diagnostics)


def first_mark(loaded: Loaded, locs: Iterable[Loc]) -> Mark | None:
    """Return the place of the first of these that the blueprint has."""
    root = loaded.draft.document.root
    first = next((loc for loc in locs if find(root, loc) is not None), None)
    return mark_of(root, first, key=first[-1] != "release" and not isinstance(first[-1], int)) if first else None


def goal(site: Site, *, make: bool, unseen: bool = False) -> Goal:
    """Compute every node's desired resources; `make`: make missing secrets that hpcforge makes.

    `unseen`: no node is contacted, so a secret that the site has yet to provide is no error.

    Raises:
        InvalidInput: a secret that the site has to provide is missing, or does not fit its place.
    """
    roles = site_roles(site)

    def reached(stored: Mapping[str, bytes]) -> Goal:
        secrets = with_derived(stored, site.cluster, site.step)
        try:
            return Goal(secrets, compile_site(roles, secrets, site.cluster))
        except RoleError as error:
            raise known_names(error, site.loaded) from error

    stored = read_secrets(site.loaded.secrets_path, site.identity)
    compiled = reached(stored)
    kinds = wanted_kinds(roles, compiled.desired)
    if site.stand_ins:
        kinds = made_up(kinds)
    else:
        lacking = lacking_secrets(site.loaded, roles, compiled.desired, stored, "warning" if unseen else "error")
        if any(entry.severity == "error" for entry in lacking):
            raise InvalidInput(lacking)  # before any is made: an invalid blueprint leaves no secrets behind
        compiled = replace(compiled, lacking=lacking)
    if not make:
        return compiled
    made = ensure_secrets(site.loaded.secrets_path, site.identity, kinds)
    return compiled if made == stored else reached(made)


def wanted_kinds(roles: Iterable[Role], desired: Desired) -> SecretKinds:
    """Return the kinds of required secrets: hpcforge's own, and those that a role puts into a file of some node."""
    used = {use.name for use in uses(desired)}
    declared = {name: secret for name, secret in declared_secrets(roles).items() if name in used}
    return kinds_of(declared)


def lacking_secrets(
    loaded: Loaded, roles: Sequence[Role], desired: Desired, secrets: Mapping[str, bytes], missing: Severity
) -> tuple[Diagnostic, ...]:
    """Return a diagnostic for each required secret of the site that is invalid, an error, or missing, of `missing`."""
    path, declared = loaded.blueprint_path, declared_secrets(roles)
    provided = {name for name, secret in declared.items() if secret.spec.provided}
    wrong = unfit([use for use in uses(desired) if use.name in provided or use.name in secrets], secrets)
    by_name = {role.name: role for role in roles}
    return tuple(
        Diagnostic(
            "error" if use.name in secrets else missing,
            f"secret {use.name} {problem}: role {use.role} wants it in {use.path}",
            SourceFile(str(path), loaded.draft.document.source.lines),
            first_mark(loaded, _reasons_of(by_name[use.role], use.path)) if use.role in by_name else None,
            hint=command_line("secrets", "set" if use.name in provided else "rotate", path, use.name),
        )
        for use, problem in wrong
    )


def _reasons_of(role: Role, path: str) -> Iterator[Loc]:
    """Yield places in a blueprint that may cause a role to write a file."""
    for spec in role.spec.files:
        if spec.path == path:
            yield from role.reasons(str(spec.when))
    yield from role.reasons(role.spec.on)


def without_effect(loaded: Loaded, roles: Sequence[Role]) -> tuple[Diagnostic, ...]:
    """Warn of variables of roles that run on no node, unless the blueprint itself disables the role.

    Raises `RoleError`.
    """
    chosen, draft, message = loaded.blueprint.roles, loaded.draft, "this has no effect: the role runs on no node"
    findings: list[Finding] = []
    for role in roles:
        if role.name not in chosen.said() or nodes_of(role, loaded.cluster):
            continue
        values = chosen.by_role()[role.name]
        switches = [str(loc[-1]) for loc in role.reasons(role.spec.on) if loc[:-1] == ("roles", role.name)]
        off = [name for name in switches if not values.get(name)]
        if {*off}.isdisjoint(draft.keys("roles", role.name)):
            hint = _hint_to_run(role, loaded.cluster, off)
            findings.append(Finding(("roles", role.name), message, hint, "warning", key=True))
    return tuple(draft.place(findings))


def _hint_to_run(role: Role, cluster: Cluster, off: Sequence[str]) -> str:
    """Return a hint for a role that runs on no node; `off` are its variables without which it runs nowhere."""
    names = [str(loc[-1]) for loc in role.reasons(role.spec.on) if loc[0] == "services"]
    offered = [(name, cluster.services[name]) for name in names if name in cluster.services]
    services = [name for name, service in offered if not (service.on or service.external)]
    if off:
        return f"add `{off[0]}: true` here, or remove this"
    if services:
        return f"add `{services[0]}: {{on: {cluster.slurm.controller}}}` under `services`, or remove this"
    return f"it runs where {role.spec.on}; else remove this"


def revoking(site: Site, before: Goal, keys: Iterable[str]) -> Goal:
    """Return the goal with these host keys revoked; the same object if they are, or if there is no authority yet."""
    secrets = with_revoked(before.secrets, keys)
    if AUTHORITY not in secrets or secrets == before.secrets:
        return before
    secrets = with_derived(secrets, site.cluster, site.step)
    return replace(before, secrets=secrets, desired=compile_site(site_roles(site), secrets, site.cluster))


def keep_revoked(site: Site, reached: Goal) -> None:
    """Keep keys revoked after their nodes are forgotten. Raises `SecretsError`."""
    revoked = reached.secrets.get(REVOKED)
    if revoked:
        store_revoked(site.loaded.secrets_path, site.identity, revoked.decode().splitlines())


def artifacts_path() -> Path:
    """Return the folder of files that this host has fetched for nodes."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hpcforge" / "artifacts"


@contextmanager
def open_engines(site: Site, ahead: Iterable[str] = ()) -> Iterator[Engines]:
    """Open connections to all nodes, and a work folder that is removed when they close.

    Connections are made when they are first used; those to the nodes of `ahead` are begun at once.
    """
    targets = [target(site, node.name, node) for node in site.cluster.nodes]
    with (
        private_folder() as work,
        Engines(targets, work, artifacts_path(), jump_host(site)) as up,
    ):
        up.connect(ahead)
        yield up


def jump_host(site: Site) -> Target | None:
    """Return the jump host of the nodes, if any. A rehearsal is on this machine: only its own node can be one."""
    access = site.cluster.access
    via = access.via
    if via is None or (site.lab is not None and not via.is_node):
        return None
    return Target(via.name, via.address, via.user, access.become, access.key, via.host_keys)


def target(site: Site, name: str, machine: Node | Enrolled) -> Target:
    """Return the connection to a node of the blueprint, or one that has left it."""
    access = site.cluster.access
    return Target(name, machine.address, access.user, access.become, access.key, machine.host_keys, site.start)


def add_leaving(site: Site, engines: Engines, nodes: Mapping[str, Enrolled]) -> None:
    """Add nodes of the roster that the blueprint no longer names."""
    engines.add(target(site, name, enrolled) for name, enrolled in nodes.items())


# Changes of a site's blueprint and inventory: one process at a time, and only of files that did not change since.


Values = Mapping[tuple[str, str], object]  # by node and key


@contextmanager
def site_lock(loaded: Loaded) -> Iterator[None]:
    """Hold the folders of a site's blueprint and inventory. Raises `OSError`."""
    with folder_lock(*(path.resolve().parent for path in loaded.digests)):
        yield


def current(loaded: Loaded) -> Loaded:
    """Return the site, read again if a file has changed. Call under the lock. Raises InvalidInput."""
    try:
        loaded.require_unchanged()
    except ChangedFileError:
        return load(loaded.blueprint_path, loaded.inventory_path)
    return loaded


def write_texts(loaded: Loaded, texts: Mapping[Path, str]) -> None:
    """Write texts that were made from `loaded`, all or none. Call under the lock.

    Raises `ChangedFileError` if a file of the site is not the one that was read; nothing is written then.
    """
    loaded.require_unchanged()
    rewrite_all(texts)


def add_values(loaded: Loaded, values_of: Callable[[Loaded], Values]) -> Values:
    """Write values into the inventory, all or nothing; return them. `values_of` makes them from the files of now.

    Raises:
        UsageError: the blueprint names no inventory.
        InvalidInput: with them the inventory would be wrong; nothing is written then.
        ChangedFileError: another program changed a file meanwhile; nothing is written then.
    """
    path = loaded.inventory_path
    if path is None:
        raise UsageError("the blueprint names no inventory to write to", "name one with `inventory:`, or --inventory")
    with site_lock(loaded):
        latest = current(loaded)
        values = values_of(latest)
        if values:
            text = with_values(latest.text(path), "nodes", values)
            load(latest.blueprint_path, path, instead={path: text})
            write_texts(latest, {path: text})
    return values


# The image of a blueprint: the packages of its roles, and a kernel where it boots.


def bootable(loaded: Loaded, request: ImageRequest, kernel: str = recipe.KERNEL) -> ImageRequest:
    """Return the request with what it takes to boot: a kernel, and mdadm where systems are on mirrors."""
    mirrored = any(node.system_disk.drives > 1 for node in loaded.cluster.nodes)
    return with_packages(with_kernel(request, kernel), [recipe.MIRRORS] if mirrored else [])


def for_machines(loaded: Loaded, request: ImageRequest) -> ImageRequest:
    """Return the request with the kernel of real machines: the release that the blueprint names, else the newest."""
    kernel = loaded.blueprint.software.preinstalled.kernel
    return bootable(loaded, request, f"{KERNELS}{kernel}" if kernel else recipe.METAL_KERNEL)


def image_request(loaded: Loaded) -> ImageRequest:
    """Return what an image of this blueprint is to be. Secrets are not read."""
    desired = compile_site(load_site_roles(loaded), {}, loaded.cluster)
    os = loaded.cluster.os
    return request_of(os.name, os.release, desired.nodes)
