"""`Cluster` and roles to `Desired`: which resources each node should have, rendered."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import TemplateError

from hpcforge.cluster.model import Cluster, Node, SiteRole
from hpcforge.plan.desired import Account, Check, Desired, Directory, File, Need, Opaque, Unit, Wanted
from hpcforge.plan.render import evaluate, render
from hpcforge.plan.role import Code, FileSpec, ResourceSpec, Role, RoleError, UnitSpec

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
    placed = {role.name: _Placed(_nodes_of(role, cluster)) for role in ordered}
    compilers = [_Compiler(role, cluster, texts, secret_digests, placed) for role in ordered]
    nodes: dict[str, tuple[Wanted, ...]] = {}
    for node in cluster.nodes:
        wanted = [compiler.wanted(node) for compiler in compilers if compiler.runs_on(node)]
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


def _nodes_of(role: Role, cluster: Cluster) -> tuple[str, ...]:
    with _explained(role, "on"):
        if not _NODE.search(role.spec.on):
            everywhere = evaluate(role.spec.on, {"cluster": cluster})
            return tuple(node.name for node in cluster.nodes if everywhere)
        return tuple(n.name for n in cluster.nodes if evaluate(role.spec.on, {"cluster": cluster, "node": n}))


_NODE = re.compile(r"\bnode\b")


def _same_everywhere(role: Role, spec: ResourceSpec) -> bool:
    """True if nothing that a resource is rendered from speaks of `node`: then every node has one and the same."""
    texts = [spec.model_dump_json(exclude={"scope"})]
    if isinstance(spec, FileSpec) and spec.template is not None and spec.scope == "node":
        texts.append(role.texts[spec.template])
    if isinstance(spec, UnitSpec) and spec.watches is None:  # it watches the role's files, wherever those lie
        return not _NODE.search(texts[0]) and all(_same_everywhere(role, file) for file in role.spec.files)
    return not any(_NODE.search(text) for text in texts)


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
class _Placed:
    """Where a role runs: the nodes in cluster order, and the same as a set."""

    nodes: tuple[str, ...]
    known: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "known", frozenset(self.nodes))


@dataclass(frozen=True)
class _Compiler:
    """One role for every node of the cluster. What is the same on all of them is rendered, and stored, once."""

    role: Role
    cluster: Cluster
    texts: _Texts
    secret_digests: Mapping[str, str | None]
    placed: Mapping[str, _Placed]
    shared: dict[int, tuple[Any, ...] | None] = field(default_factory=dict)  # by id of a spec; None: each node's own
    cluster_files: dict[str, str] = field(default_factory=dict)  # path -> digest, rendered once for the whole cluster

    def runs_on(self, node: Node) -> bool:
        return node.name in self.placed[self.role.name].known

    def wanted(self, node: Node) -> Wanted:
        spec = self.role.spec
        files = self._each(node, spec.files, self._file)
        paths = tuple(file.path for file in files)
        return Wanted(
            role=self.role.name,
            needs=tuple(self._needs(node)),
            packages=self._each(node, spec.packages, lambda p, c: render(p.name, c)),
            replaces=spec.replaces,
            directories=self._each(
                node,
                spec.directories,
                lambda d, c: Directory(render(d.path, c), d.mode, render(d.owner, c), render(d.group, c)),
            ),
            files=files,
            accounts=self._each(
                node,
                spec.accounts,
                lambda a, c: Account(render(a.name, c), int(render(a.uid, c)), render(a.home, c), a.shell),
            ),
            units=self._each(
                node,
                spec.units,
                lambda u, c: Unit(
                    render(u.name, c),
                    paths if u.watches is None else tuple(render(w, c) for w in u.watches),
                    tuple(tuple(render(word, c) for word in command) for command in u.refresh),
                    tuple(render(path, c) for path in u.rereads),
                ),
            ),
            checks=self._each(
                node,
                spec.checks,
                lambda k, c: Check(
                    k.name,
                    tuple(render(word, c) for word in k.command),
                    None if k.stdout is None else render(k.stdout, c),
                    k.wait_s,
                ),
            ),
            opaque=self._opaque(node),
            on_remove=spec.on_remove,
            guard=spec.guard,
            shape=spec.shape,
            sets_clock=self._sets_clock,
            disrupts=dict(spec.disrupts.items()),
        )

    @cached_property
    def _sets_clock(self) -> bool:
        with _explained(self.role, "sets_clock"):
            return bool(evaluate(self.role.spec.sets_clock, {"cluster": self.cluster}))

    def _needs(self, node: Node) -> Iterator[Need]:
        for text in self.role.spec.needs:
            role, at, scope = text.partition("@")
            if at and scope != "cluster":
                raise _error(self.role, f"needs {text!r}: after @ comes 'cluster' (every node where that role runs)")
            if at and self.placed[role].nodes:
                yield Need(role, self.placed[role].nodes)
            elif not at and node.name in self.placed[role].known:
                yield Need(role, (node.name,))

    def _each(self, node: Node, specs: Sequence[S], make: Callable[[S, Context], T]) -> tuple[T, ...]:
        made: list[T] = []
        for spec in specs:
            if id(spec) not in self.shared:
                same = _same_everywhere(self.role, spec)
                self.shared[id(spec)] = tuple(self._made(node, spec, make)) if same else None
            known = self.shared[id(spec)]
            made.extend(self._made(node, spec, make) if known is None else known)
        return tuple(made)

    def _made(self, node: Node, spec: S, make: Callable[[S, Context], T]) -> Iterator[T]:
        place = str(getattr(spec, "path", getattr(spec, "name", "")))
        with _explained(self.role, place):
            context: Context = {"cluster": self.cluster, "node": node}
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
        elif spec.scope == "cluster" and path in self.cluster_files:
            digest = self.cluster_files[path]
        else:
            if spec.scope == "cluster":  # such a file must not know which node it is on
                context = {key: value for key, value in context.items() if key != "node"}
            if spec.source is not None:
                text = self.role.texts[spec.source]
            else:
                text = render(spec.content if spec.template is None else self.role.texts[spec.template], context)
            digest = self.texts.add(text)
            if spec.scope == "cluster":
                self.cluster_files[path] = digest
        owner, group = render(spec.owner, context), render(spec.group, context)
        return File(path, spec.mode, owner, group, digest, secret, spec.early, spec.verify)

    def _opaque(self, node: Node) -> Opaque | None:
        if self.role.code is None:
            return None
        with _explained(self.role, "inputs"):
            context: Context = {"cluster": self.cluster, "node": node}
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
