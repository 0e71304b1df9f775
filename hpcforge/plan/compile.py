"""Compile a `Cluster` and roles to `Desired`: the rendered resources of each node."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from ipaddress import IPv4Address
from itertools import compress
from typing import Any, TypeVar

from jinja2 import TemplateError
from pydantic import BaseModel

from hpcforge.blueprint.diagnostics import did_you_mean, quote
from hpcforge.cluster.machines import variables
from hpcforge.cluster.model import Cluster, Node, Platform, SiteRole
from hpcforge.cluster.variables import role_context
from hpcforge.kinds.downloads import Download
from hpcforge.kinds.files import File
from hpcforge.kinds.resource import Resource
from hpcforge.plan.alike import MadeOnce, asked_of, speaks_of_node
from hpcforge.plan.desired import (
    Artifact,
    Check,
    Desired,
    DesiredRole,
    Disruption,
    KeptPath,
    Listen,
    OldState,
    Opaque,
    Reread,
    Restart,
    RoleNeed,
    Tree,
    Unit,
)
from hpcforge.plan.resources import TYPES, rendered
from hpcforge.plan.roles import sandbox
from hpcforge.plan.roles.artifacts import DepotContents, artifact, download, served
from hpcforge.plan.roles.contributions import (
    Contribution,
    Contributions,
    Item,
    Kind,
    all_needs,
    contributed_names,
    in_order,
    kinds_of,
    merged,
    the_depot,
    the_scheduler,
)
from hpcforge.plan.roles.localize import localize
from hpcforge.plan.roles.render import (
    Context,
    Template,
    evaluate,
    hint_of,
    line_of,
    render,
    render_filled,
)
from hpcforge.plan.roles.role import Code, Role, RoleError, declared_secrets
from hpcforge.plan.roles.spec import (
    AcceptSpec,
    ArtifactSpec,
    ContributionSpec,
    FileSpec,
    LeavesSpec,
    ListenSpec,
    OldStateSpec,
    ResourceSpec,
    RestartSpec,
    TreeSpec,
    UnitSpec,
)
from hpcforge.plan.secrets import Secret, check_mode, check_text, check_usable, usable

_NodeRoles = list[tuple["_Compiler", tuple[str, ...]]]  # a node's roles, each with its needs on that node
S = TypeVar("S", bound=ResourceSpec)
T = TypeVar("T")
_WRONG = (TemplateError, TypeError, ValueError)  # errors of rendering a role that does not fit the cluster


@dataclass(frozen=True)
class _Text:
    """The SHA-256 of a text, and its secrets: offsets in characters, and names."""

    digest: str
    fills: tuple[tuple[int, str], ...]


@dataclass
class _Texts:
    """The rendered texts, each once, by digest."""

    by_digest: dict[str, str] = field(default_factory=dict)

    def add(self, text: str) -> str:
        digest = hashlib.sha256(text.encode()).hexdigest()
        self.by_digest[digest] = text
        return digest


def compile_desired(
    cluster: Cluster,
    roles: Sequence[Role],
    secret_digests: Mapping[str, str | None],
    site_code: Mapping[str, Code] | None = None,
) -> Desired:
    """Render the desired state of every node.

    `secret_digests` are HMACs by secret name, None for a missing secret; `site_code` is the code of each of the
    cluster's `site_roles` by name. Raises `RoleError` where a role cannot be rendered for this cluster.
    """
    with sandbox.counted(len(cluster.nodes)):
        return _compile(cluster, roles, secret_digests, site_code or {})


def _compile(
    cluster: Cluster, roles: Sequence[Role], secret_digests: Mapping[str, str | None], site_code: Mapping[str, Code]
) -> Desired:
    texts = _Texts()
    needs, secrets = all_needs(roles), declared_secrets(roles)
    ordered = in_order(roles, needs)
    placed = {role.name: nodes_of(role, cluster) for role in ordered}
    may_use = {role.name: usable(role.name, role.spec.needs, secrets) for role in ordered}

    def compilers_with(view: Cluster, depot: DepotContents, contributions: Contributions) -> list[_Compiler]:
        common = (view, texts, secret_digests, placed, depot, contributions)
        return [_Compiler(role, needs[role.name], may_use[role.name], *common) for role in ordered]

    platforms = dict.fromkeys(node.platform for node in cluster.nodes)
    views = {platform: cluster.seen_from(platform) for platform in platforms}
    first_pass = {platform: compilers_with(view, DepotContents(), {}) for platform, view in views.items()}
    depot = the_depot(roles)
    requested = [
        (compiler.role, compiler.artifacts(platform))
        for platform, several in first_pass.items()
        for compiler in several
    ]
    serves = served(cluster, depot, requested)
    contributions = _contributions(cluster, first_pass)
    _check_chosen(cluster, [role for role in ordered if placed[role.name]], contributions)
    second_pass = {platform: compilers_with(view, serves, contributions) for platform, view in views.items()}
    compilers = _by_node(cluster, second_pass)
    nodes: dict[str, tuple[DesiredRole, ...]] = {}
    for node in cluster.nodes:
        node_roles = compilers[node.name]
        desired_roles = [compiler.desired_role(node, needed) for compiler, needed in node_roles]
        nodes[node.name] = (*desired_roles, *_site_roles(cluster, node, node_roles, site_code))
    names = (*(role.name for role in ordered), *(_site_name(site_role) for site_role in cluster.site_roles))
    return Desired(names, nodes, texts.by_digest, the_scheduler(roles), depot.name if depot else None, serves.artifacts)


def _by_node(cluster: Cluster, compilers: Mapping[Platform | None, Sequence[_Compiler]]) -> dict[str, _NodeRoles]:
    """Return the roles of each node, each with the roles that it needs there. Nodes with the same roles share it."""
    running: dict[str, list[_Compiler]] = {node.name: [] for node in cluster.nodes}
    for platform, several in compilers.items():
        for compiler in several:
            for node in compiler.on(platform):
                running[node.name].append(compiler)
    shared: dict[tuple[Platform | None, tuple[str, ...]], _NodeRoles] = {}
    by_node: dict[str, _NodeRoles] = {}
    for node in cluster.nodes:
        together = running[node.name]
        roles = tuple([compiler.role.name for compiler in together])
        same = (node.platform, roles)
        if same not in shared:
            shared[same] = [
                (compiler, tuple(need for need in compiler.needs if need in roles)) for compiler in together
            ]
        by_node[node.name] = shared[same]
    return by_node


def nodes_of(role: Role, cluster: Cluster) -> tuple[str, ...]:
    """Return the nodes on which a role runs. Raises `RoleError`."""
    context = role_context(cluster, role.name)
    made_once: MadeOnce[bool] = MadeOnce(asked_of([role.spec.on]), context)
    with _explained(role, "on"):
        if not made_once.parts and made_once.parts is not None and cluster.nodes:
            return tuple(cluster.by_name) if evaluate(role.spec.on, context) else ()

        def runs_on(node: Node) -> bool:
            return bool(evaluate(role.spec.on, {**context, "node": node}))

        return tuple(compress(cluster.by_name, made_once.each(cluster.nodes, runs_on)))


def _contributions(cluster: Cluster, compilers: Mapping[Platform | None, Sequence[_Compiler]]) -> Contributions:
    """Return the contributions by kind, and by node for a kind of scope `node`. All nodes get the controller's."""
    controller = cluster.by_name[cluster.slurm.controller].platform
    kinds = kinds_of((compiler.role for compiler in compilers[controller]), partial(_known, cluster))
    contributions: dict[str, object] = {}
    for kind in kinds.values():
        having = {
            platform: [compiler for compiler in several if kind.name in compiler.role.spec.contributes]
            for platform, several in compilers.items()
        }
        if kind.spec.scope == "cluster":
            contributions[kind.name] = merged(
                kind, (item for compiler in having[controller] for item in compiler.contributed(kind))
            )
        else:
            by_node: dict[str, list[Contribution]] = {node.name: [] for node in cluster.nodes}
            for platform, several in having.items():
                for compiler in several:
                    for node in compiler.on(platform):
                        by_node[node.name] += compiler.contributed(kind, node)
            contributions[kind.name] = {name: merged(kind, items) for name, items in by_node.items()}
    return contributions


def _check_chosen(cluster: Cluster, roles: Sequence[Role], contributions: Contributions) -> None:
    """Raise `UnfitError` for a value that is not a name of a contributed item."""
    unique = {kind: spec.unique for role in roles for kind, spec in role.spec.accepts.items()}
    for role in roles:
        for name, variable in role.spec.vars.items():
            if variable.contributed is None:
                continue
            names = contributed_names(contributions[variable.contributed], unique[variable.contributed])
            chosen = cluster.variables.get(role.name, {}).get(name) or ()
            for place, value in enumerate((chosen,) if isinstance(chosen, str) else chosen):
                if value not in names:
                    message = f"{quote(value)} is not among the {variable.contributed} of this cluster"
                    locs = [("roles", role.name, name, place), ("roles", role.name, name)]
                    raise role.unfit(message, locs, did_you_mean(value, names) or "no role contributes one")


def _known(cluster: Cluster, role: Role, spec: AcceptSpec) -> tuple[str, ...] | None:
    """Return the values that the first unique field of a kind may have; None: any."""
    if spec.known is None:
        return None
    with _explained(role, "accepts"):
        values = evaluate(spec.known, role_context(cluster, role.name))
        return None if values is None else tuple(map(str, values))


def _texts_of(role: Role, spec: ResourceSpec) -> Iterator[object]:
    """Yield the values that a resource is rendered from."""
    yield from _leaves_of(spec)
    if isinstance(spec, FileSpec | ContributionSpec) and spec.source is not None:
        yield role.texts[spec.source]
    # it watches the role's files, whose paths may differ by node
    if isinstance(spec, UnitSpec | RestartSpec) and spec.restart_on is None:
        for file in (*role.spec.files, *role.spec.artifacts):
            yield from _texts_of(role, file)


def _leaves_of(value: Any) -> Iterator[object]:
    """Yield the leaf values of a spec."""
    if isinstance(value, BaseModel):
        value = [*(getattr(value, name) for name in type(value).model_fields), *(value.model_extra or {}).values()]
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from _leaves_of(part)
    else:
        yield value


def _site_name(site_role: SiteRole) -> str:
    return f"site_{site_role.name}"


def _site_roles(
    cluster: Cluster, node: Node, node_roles: _NodeRoles, code: Mapping[str, Code]
) -> Iterator[DesiredRole]:
    for site_role in cluster.site_roles:
        if node.name in site_role.on:
            needs = tuple(
                RoleNeed(compiler.role.name) for compiler, _ in node_roles if compiler.role.spec.before_site_roles
            )
            yield DesiredRole(
                _site_name(site_role),
                needs=needs,
                opaque=_opaque(code[site_role.name], variables(cluster, node)),
                trees=tuple(_tree(tree, {}) for tree in code[site_role.name].removes),
                leaves=tuple(_leaves(leftover, {}) for leftover in code[site_role.name].leaves),
            )


def _opaque(code: Code, inputs: Mapping[str, Any]) -> Opaque:
    spelled = json.dumps(inputs, sort_keys=True)
    digest = hashlib.sha256(f"{code.digest}{spelled}".encode()).hexdigest()
    return Opaque(code.engine, str(code.source), inputs, digest, code.collections)


@contextmanager
def _explained(role: Role, key: str) -> Iterator[None]:
    """Turn an error in the block into a `RoleError` with its place in role.yaml."""
    try:
        yield
    except _WRONG as error:
        raise role.wrong(f"{key}: {error}", (key,), hint_of(error)) from error


@dataclass(frozen=True)
class _Compiler:
    """One role for every node of the cluster. Equal parts of several nodes are rendered and stored once."""

    role: Role
    needs: tuple[str, ...]
    secrets: Mapping[str, Secret]  # the secrets that its files may contain
    cluster: Cluster
    texts: _Texts
    secret_digests: Mapping[str, str | None]
    placed: Mapping[str, tuple[str, ...]]  # the nodes of each role, in cluster order
    served: DepotContents
    contributions: Contributions  # of all roles
    shared: dict[int, MadeOnce[tuple[Any, ...]]] = field(
        default_factory=dict
    )  # by id of a spec, or of a tuple of specs
    conditions: dict[int, MadeOnce[bool]] = field(default_factory=dict)  # by id of a spec
    needs_made: dict[tuple[str, ...], tuple[RoleNeed, ...]] = field(default_factory=dict)  # by roles on the node
    same: dict[int, _Text] = field(default_factory=dict)  # texts equal on all nodes, by id of a spec

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes where it runs, in cluster order."""
        return tuple([self.cluster.by_name[name] for name in self.placed[self.role.name]])

    def on(self, platform: Platform | None) -> tuple[Node, ...]:
        """Return its nodes on a platform."""
        return tuple([node for node in self.nodes if node.platform == platform])

    def artifacts(self, platform: Platform | None) -> tuple[Artifact, ...]:
        """Return the artifacts that the depot serves for it on the nodes of a platform, each once."""
        specs = self.role.spec.artifacts
        by_node = (self._render_each(node, specs, _artifact) for node in (self.on(platform) if specs else ()))
        return tuple(dict.fromkeys(artifact for several in by_node for artifact in several))

    def contributed(self, kind: Kind, node: Node | None = None) -> Iterator[Contribution]:
        """Yield its contributions to a kind, for all nodes or for one; none if it runs on no node."""
        nodes = self.nodes if node is None else (node,)
        for place, spec in enumerate(self.role.spec.contributes[kind.name] if nodes else ()):
            make = partial(self._item, kind)
            try:
                if node is None:
                    items = self._rendered_of(spec, make, self._context)
                else:
                    items = self._one_by_one([spec], make, node)
            except _WRONG as error:
                raise self._wrong_at(spec, error) from error
            loc = ("contributes", kind.name, place)
            yield from (Contribution(self.role, loc, item, nodes) for item in items)

    def _item(self, kind: Kind, spec: ContributionSpec, context: Context) -> Item:
        item = kind.item(spec, lambda text: render(text, context))
        if spec.source is None:
            return item
        text = self.role.texts[spec.source]
        return {**item, "text": render(text, context) if isinstance(text, Template) else text}

    def desired_role(self, node: Node, needed: tuple[str, ...]) -> DesiredRole:
        """Return its desired resources on a node. `needed`: its needs that run on the same node."""
        return self._shared_role.get(node, lambda n: self._localize(self._make_role(n, needed)), needed)

    def _localize(self, role: DesiredRole) -> DesiredRole:
        try:
            return localize(role, self.cluster.os)
        except ValueError as error:
            os = self.cluster.os
            message = f"role {self.role.name} does not fit {os.name} {os.release}: {error}"
            raise self.role.unfit(message, (), "remove this, or choose another release") from error

    @cached_property
    def _shared_role(self) -> MadeOnce[DesiredRole]:
        spec = self.role.spec
        specs = (
            *spec.packages,
            *spec.listens,
            *(resource for kind in TYPES for resource in spec.of(kind)),
            *spec.units,
            *spec.restarts,
        )
        specs += (*spec.checks, *spec.delete_on_removal, *spec.keep_on_removal, *spec.old_state)
        texts = [text for spec in specs for text in _texts_of(self.role, spec)]
        return MadeOnce(asked_of([*texts, *spec.inputs.values(), *spec.rerun_on]), self._context)

    def _make_role(self, node: Node, needed: tuple[str, ...]) -> DesiredRole:
        spec = self.role.spec
        resources = tuple(
            resource for specs, make in self._resources for resource in self._render_each(node, specs, make)
        )
        paths = tuple(resource.path for resource in resources if isinstance(resource, File | Download))
        return DesiredRole(
            role=self.role.name,
            needs=self._needs(needed),
            packages=self._render_each(node, spec.packages, lambda p, c: render(p.name, c)),
            replaces=spec.replaces,
            programs=spec.programs,
            listens=self._render_each(node, spec.listens, _listen),
            resources=resources,
            units=self._render_each(
                node,
                spec.units,
                lambda u, c: Unit(
                    render(u.name, c),
                    paths if u.restart_on is None else tuple(render(w, c) for w in u.restart_on),
                    tuple(tuple(render(word, c) for word in command) for command in u.reload_commands),
                    tuple(Reread(render(one.path, c), one.lines) for one in u.reload_on),
                ),
            ),
            restarts=self._render_each(
                node,
                spec.restarts,
                lambda r, c: Restart(
                    render(r.name, c), paths if r.restart_on is None else tuple(render(w, c) for w in r.restart_on)
                ),
            ),
            checks=self._render_each(
                node,
                spec.checks,
                lambda k, c: Check(
                    k.name,
                    tuple(render(word, c) for word in k.command),
                    None if k.stdout is None else render(k.stdout, c),
                    k.wait_s,
                    k.precondition,
                ),
            ),
            opaque=self._opaque(node),
            trees=self._render_each(node, spec.delete_on_removal, _tree),
            leaves=self._render_each(node, spec.keep_on_removal, _leaves),
            old_state=self._render_each(node, spec.old_state, partial(_old_state, self.cluster.name)),
            on_remove=spec.on_removal,
            guard=spec.auto_rollback,
            shape=spec.strategy,
            sets_clock=self._sets_clock,
            jobs_feel=spec.affects_jobs,
            disrupts=self._disrupts,
        )

    @cached_property
    def _resources(self) -> list[tuple[Sequence[ResourceSpec], Callable[[Any, Context], Resource]]]:
        """The specs of its resources by kind, in the order of the table, each with its constructor."""
        return [(specs, self._resource(kind)) for kind in TYPES if (specs := self.role.spec.of(kind))]

    @cached_property
    def _disrupts(self) -> dict[str, Disruption]:
        return {"opaque" if part == "code" else part: does for part, does in self.role.spec.disrupts.items()}

    @cached_property
    def _context(self) -> Context:
        accepted = {name: self.contributions[name] for name in self.role.spec.accepts if name in self.contributions}
        provided = {"artifacts": self.served.artifacts, "contributions": accepted}
        return {**role_context(self.cluster, self.role.name), **provided}

    @cached_property
    def _sets_clock(self) -> bool:
        with _explained(self.role, "sets_clock"):
            return bool(evaluate(self.role.spec.sets_clock, self._context))

    def _needs(self, needed: tuple[str, ...]) -> tuple[RoleNeed, ...]:
        """Return its needs, one object for nodes on which the same roles run."""
        if needed not in self.needs_made:
            self.needs_made[needed] = tuple(self._make_needs(needed))
        return self.needs_made[needed]

    def _make_needs(self, needed: Collection[str]) -> Iterator[RoleNeed]:
        for text in self.needs:
            role, at, scope = text.partition("@")
            if at and scope != "cluster":
                raise self.role.wrong(
                    f"needs {text!r}: after @ comes 'cluster' (every node where that role runs)", ("needs",)
                )
            if at and self.placed[role]:
                yield RoleNeed(role, self.placed[role])
            elif role in needed and not at:
                yield RoleNeed(role)

    def _render_each(self, node: Node, specs: Sequence[S], make: Callable[[S, Context], T]) -> tuple[T, ...]:
        """Make a resource of each spec for a node. `specs` is a field of the role, always the same object."""
        if not specs:
            return ()
        if id(specs) not in self.shared:
            self.shared[id(specs)] = self._made_once(specs)
        return self.shared[id(specs)].get(node, partial(self._one_by_one, specs, make))

    def _one_by_one(self, specs: Sequence[S], make: Callable[[S, Context], T], node: Node) -> tuple[T, ...]:
        made: list[T] = []
        for spec in specs:
            if id(spec) not in self.shared:
                self.shared[id(spec)] = self._made_once([spec])
            made += self.shared[id(spec)].get(node, partial(self._made, spec, make))
        return tuple(made)

    def _made_once(self, specs: Sequence[ResourceSpec]) -> MadeOnce[tuple[Any, ...]]:
        return MadeOnce(asked_of(text for spec in specs for text in _texts_of(self.role, spec)), self._context)

    def _wrong_at(self, spec: ResourceSpec, error: Exception) -> RoleError:
        """Return the error of a resource, with its place in role.yaml."""
        name = next(filter(None, (getattr(spec, key, None) for key in ("name", "path", "key", "port"))), "")
        return self.role.wrong(f"{name}: {error}", self._loc(spec), hint_of(error))

    def _loc(self, spec: ResourceSpec) -> tuple[str | int, ...]:
        """Return the place of a resource in role.yaml."""
        lists: list[tuple[tuple[str, ...], tuple[object, ...]]] = [
            ((key,), value) for key, value in self.role.spec if isinstance(value, tuple)
        ]
        lists += [(("contributes", kind), value) for kind, value in self.role.spec.contributes.items()]
        return next((*loc, place) for loc, all_ in lists for place, candidate in enumerate(all_) if candidate is spec)

    def _made(self, spec: S, make: Callable[[S, Context], T], node: Node) -> tuple[T, ...]:
        context = {**self._context, "node": node}
        try:
            if spec.for_each is not None or spec.when == "true":
                return self._rendered_of(spec, make, context)
            return (make(spec, context),) if self._applies(spec, node, context) else ()
        except _WRONG as error:
            raise self._wrong_at(spec, error) from error

    def _applies(self, spec: ResourceSpec, node: Node, context: Context) -> bool:
        """Return whether a resource is on a node: its condition depends on less of the node than its other fields."""
        if id(spec) not in self.conditions:
            self.conditions[id(spec)] = MadeOnce(asked_of([spec.when]), self._context)
        return self.conditions[id(spec)].get(node, lambda _: bool(evaluate(spec.when, context)))

    @staticmethod
    def _rendered_of(spec: S, make: Callable[[S, Context], T], context: Context) -> tuple[T, ...]:
        scopes = [context]
        if spec.for_each is not None:
            scopes = [{**context, "item": item} for item in evaluate(spec.for_each, context)]
        return tuple(make(spec, scope) for scope in scopes if evaluate(spec.when, scope))

    def _resource(self, kind: str) -> Callable[[Any, Context], Resource]:
        if kind == File.kind:
            return self._file
        if kind == Download.kind:
            return lambda spec, context: download(spec, lambda text: render(text, context), self.served.address)
        return lambda spec, context: rendered(TYPES[kind], spec, lambda text: render(text, context))

    def _file(self, spec: Any, context: Context) -> File:
        path = render(spec.path, context)
        owner, group = render(spec.owner, context), render(spec.group, context)
        if spec.secret is not None:
            secret = render(spec.secret, context)
            check_usable(secret, self.secrets)
            digest = self.secret_digests.get(secret)
            file = File(path, spec.mode, owner, group, digest, secret, spec.before_packages, spec.verify)
        else:
            text = self._text(spec, context)
            file = File(path, spec.mode, owner, group, text.digest, None, spec.before_packages, spec.verify)
            if text.fills:
                file = dataclasses.replace(file, digest=self._digest(text), fills=text.fills, unfilled=text.digest)
        check_mode(file)
        return file

    def _text(self, spec: FileSpec, context: Context) -> _Text:
        """Return the content of a file. Content equal on all nodes is rendered once."""
        text = spec.content if spec.source is None else self.role.texts[spec.source]
        assert text is not None
        cached = None if speaks_of_node(text) or spec.for_each is not None else self.same.get(id(spec))
        if cached is None:
            check = partial(check_text, secrets=self.secrets)
            content, fills = self._rendered(spec, text, context, check) if isinstance(text, Template) else (text, ())
            cached = self.same[id(spec)] = _Text(self.texts.add(content), fills)
        return cached

    def _digest(self, text: _Text) -> str | None:
        """Return the SHA-256 of a text with the places and versions of its secrets; None where one is missing."""
        versions = [self.secret_digests.get(name) for _, name in text.fills]
        if None in versions:
            return None
        return hashlib.sha256(json.dumps([text.digest, text.fills, versions]).encode()).hexdigest()

    def _rendered(
        self, spec: FileSpec, text: Template, context: Context, check: Callable[..., None]
    ) -> tuple[str, Any]:
        try:
            return render_filled(text, context, check)
        except _WRONG as error:
            if spec.source is None:
                raise
            raise self.role.wrong_text(spec.source, str(error), line_of(error), hint_of(error)) from error

    def _opaque(self, node: Node) -> Opaque | None:
        if self.role.code is None:
            return None
        with _explained(self.role, "inputs"):
            context: Context = {**self._context, "node": node}
            spec = self.role.spec
            inputs = {name: _plain(evaluate(text, context)) for name, text in spec.inputs.items()}
            return dataclasses.replace(
                _opaque(self.role.code, inputs), rerun_on=tuple(render(w, context) for w in spec.rerun_on)
            )


def _artifact(spec: ArtifactSpec, context: Context) -> Artifact:
    return artifact(spec, lambda text: render(text, context))


def _listen(spec: ListenSpec, context: Context) -> Listen:
    port, address = render(spec.port, context), render(spec.address, context)
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{port!r} is not a port")
    return Listen(int(port), spec.protocol, str(IPv4Address(address)) if address else "")


def _tree(spec: TreeSpec, context: Context) -> Tree:
    return Tree(render(spec.path, context))


def _leaves(spec: LeavesSpec, context: Context) -> KeptPath:
    return KeptPath(render(spec.path, context), spec.why)


def _old_state(cluster: str, spec: OldStateSpec, context: Context) -> OldState:
    paths = tuple(render(path, context) for path in spec.beside)
    return OldState(render(spec.path, context), cluster, spec.why, spec.name_in, paths, render(spec.unit, context))


def _plain(value: Any) -> Any:
    """Return dataclasses and tuples as the dictionaries and lists of JSON."""
    sandbox.spend(1)  # a list may contain another one many times
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"{value!r} is not plain data")
