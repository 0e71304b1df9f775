"""`Cluster` and roles to `Desired`: which resources each node should have, rendered."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import TemplateError

from hpcforge.cluster.model import Cluster, Node, SiteRole
from hpcforge.plan.desired import Account, Check, Desired, Directory, File, Need, Opaque, Unit, Wanted
from hpcforge.plan.render import evaluate, render
from hpcforge.plan.role import Code, ResourceSpec, Role, RoleError

Context = dict[str, Any]
S = TypeVar("S", bound=ResourceSpec)
T = TypeVar("T")


@dataclass
class _Texts:
    """Every rendered text once, by digest."""

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
    """Render what every node should have.

    `secret_digests` are SHA-256 by secret name, None for one that is yet to be generated; `site_code` is the code of
    each of the cluster's `site_roles` by name. Raises `RoleError` where a role cannot be rendered for this cluster.
    """
    texts = _Texts()
    ordered = _in_order(roles)
    placed = {role.name: _nodes_of(role, cluster) for role in ordered}
    cluster_files: dict[tuple[str, str], str] = {}
    nodes: dict[str, tuple[Wanted, ...]] = {}
    for node in cluster.nodes:
        wanted = [
            _Compiler(role, cluster, node, texts, secret_digests, cluster_files).wanted(placed)
            for role in ordered
            if node.name in placed[role.name]
        ]
        nodes[node.name] = (*wanted, *_site_roles(cluster, node, site_code or {}))
    names = (*(role.name for role in ordered), *(_site_name(site_role) for site_role in cluster.site_roles))
    return Desired(names, nodes, texts.by_digest)


def _in_order(roles: Sequence[Role]) -> list[Role]:
    by_name = {role.name: role for role in roles}
    graph = {role.name: sorted(need.partition("@")[0] for need in role.spec.needs) for role in roles}
    for name, needs in graph.items():
        for need in needs:
            if need not in by_name:
                raise _error(by_name[name], f"needs {need!r}, but there is no such role")
    try:
        return [by_name[name] for name in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        raise _error(by_name[error.args[1][0]], f"needs itself: {' -> '.join(error.args[1])}") from error


def _nodes_of(role: Role, cluster: Cluster) -> dict[str, None]:
    with _explained(role, "on"):
        return {n.name: None for n in cluster.nodes if evaluate(role.spec.on, {"cluster": cluster, "node": n})}


def _site_name(site_role: SiteRole) -> str:
    return f"site_{site_role.name}"


def _site_roles(cluster: Cluster, node: Node, code: Mapping[str, Code]) -> Iterator[Wanted]:
    for site_role in cluster.site_roles:
        if node.name in site_role.on:
            inputs = {
                "hpcforge_cluster": cluster.name,
                "hpcforge_domain": cluster.domain,
                "hpcforge_node": node.name,
                "hpcforge_functions": list(node.functions),
            }
            yield Wanted(
                _site_name(site_role),
                needs=(Need("base", (node.name,)),),
                opaque=_opaque(code[site_role.name], inputs),
            )


def _opaque(code: Code, inputs: Mapping[str, Any]) -> Opaque:
    spelled = json.dumps(inputs, sort_keys=True)
    return Opaque(code.engine, str(code.source), inputs, hashlib.sha256(f"{code.digest}{spelled}".encode()).hexdigest())


@contextmanager
def _explained(role: Role, place: str) -> Iterator[None]:
    """Turn what goes wrong inside into a `RoleError` that names role and place."""
    try:
        yield
    except (TemplateError, TypeError, ValueError) as error:
        raise _error(role, f"{place}: {error}") from error


def _error(role: Role, message: str) -> RoleError:
    return RoleError(Path("roles") / role.name / "role.yaml", message)


@dataclass(frozen=True)
class _Compiler:
    """One role for one node."""

    role: Role
    cluster: Cluster
    node: Node
    texts: _Texts
    secret_digests: Mapping[str, str | None]
    cluster_files: dict[tuple[str, str], str]  # (role, path) -> digest, rendered once for the whole cluster

    def wanted(self, placed: Mapping[str, Mapping[str, None]]) -> Wanted:
        spec = self.role.spec
        files = tuple(self._each(spec.files, self._file))
        paths = tuple(file.path for file in files)
        return Wanted(
            role=self.role.name,
            needs=tuple(self._needs(placed)),
            packages=tuple(self._each(spec.packages, lambda p, c: render(p.name, c))),
            directories=tuple(
                self._each(
                    spec.directories,
                    lambda d, c: Directory(render(d.path, c), d.mode, render(d.owner, c), render(d.group, c)),
                )
            ),
            files=files,
            accounts=tuple(
                self._each(
                    spec.accounts,
                    lambda a, c: Account(render(a.name, c), int(render(a.uid, c)), render(a.home, c), a.shell),
                )
            ),
            units=tuple(
                self._each(
                    spec.units,
                    lambda u, c: Unit(
                        render(u.name, c),
                        paths if u.watches is None else tuple(render(w, c) for w in u.watches),
                        tuple(tuple(render(word, c) for word in command) for command in u.refresh),
                    ),
                )
            ),
            checks=tuple(
                self._each(
                    spec.checks,
                    lambda k, c: Check(
                        k.name,
                        tuple(render(word, c) for word in k.command),
                        None if k.stdout is None else render(k.stdout, c),
                        k.wait_s,
                    ),
                )
            ),
            opaque=self._opaque(),
            on_remove=spec.on_remove,
            guard=spec.guard,
            shape=spec.shape,
            disrupts=dict(spec.disrupts.items()),
        )

    def _needs(self, placed: Mapping[str, Mapping[str, None]]) -> Iterator[Need]:
        for text in self.role.spec.needs:
            role, at, scope = text.partition("@")
            if at and scope != "cluster":
                raise _error(self.role, f"needs {text!r}: after @ comes 'cluster' (every node where that role runs)")
            nodes = tuple(placed[role]) if at else tuple(n for n in placed[role] if n == self.node.name)
            if nodes:
                yield Need(role, nodes)

    def _each(self, specs: Sequence[S], make: Callable[[S, Context], T]) -> Iterator[T]:
        for spec in specs:
            place = str(getattr(spec, "path", getattr(spec, "name", "")))
            with _explained(self.role, place):
                context: Context = {"cluster": self.cluster, "node": self.node}
                items = [None] if spec.for_each is None else evaluate(spec.for_each, context)
                for item in items:
                    scoped = context if spec.for_each is None else {**context, "item": item}
                    if evaluate(spec.when, scoped):
                        yield make(spec, scoped)

    def _file(self, spec: Any, context: Context) -> File:
        path = render(spec.path, context)
        secret = None if spec.secret is None else render(spec.secret, context)
        if secret is not None:
            digest = self.secret_digests.get(secret)
        elif spec.scope == "cluster" and (self.role.name, path) in self.cluster_files:
            digest = self.cluster_files[self.role.name, path]
        else:
            if spec.scope == "cluster":  # such a file must not know which node it is on
                context = {key: value for key, value in context.items() if key != "node"}
            if spec.source is not None:
                text = self.role.texts[spec.source]
            else:
                text = render(spec.content if spec.template is None else self.role.texts[spec.template], context)
            digest = self.texts.add(text)
            if spec.scope == "cluster":
                self.cluster_files[self.role.name, path] = digest
        owner, group = render(spec.owner, context), render(spec.group, context)
        return File(path, spec.mode, owner, group, digest, secret, spec.early, spec.verify)

    def _opaque(self) -> Opaque | None:
        if self.role.code is None:
            return None
        with _explained(self.role, "inputs"):
            context: Context = {"cluster": self.cluster, "node": self.node}
            inputs = {name: _plain(evaluate(text, context)) for name, text in self.role.spec.inputs.items()}
            return _opaque(self.role.code, inputs)


def _plain(value: Any) -> Any:
    """Dataclasses and tuples as the dictionaries and lists of JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"{value!r} is not plain data")
