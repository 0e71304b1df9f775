"""The node data that a role's text depends on. It is rendered once for all nodes with the same data.

A text asks for attributes that many nodes share, whether a name is among some (`node.name in cluster.services.dns.on`),
or a method of the cluster (`cluster.file_systems(node)`). What else it may do with `node` is not followed: then it is
rendered for each node.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from operator import attrgetter
from types import MethodType
from typing import Generic, TypeVar

from jinja2 import TemplateError, meta, nodes

from hpcforge.cluster.model import Node
from hpcforge.plan.roles.render import Context, Jinja, attribute, evaluate_tree
from hpcforge.plan.roles.sandbox import uncounted

T = TypeVar("T")
# Attributes that many nodes have alike; the others are each node's own, or cannot be a key.
_SHARED = frozenset(
    {
        *("group", "functions", "hardware", "rack", "fabrics", "gpus", "certified"),
        *("sockets", "cores_per_socket", "threads_per_core", "cpus", "memory_mib"),
    }
)
_CLUSTER = frozenset({"cluster", "vars", "artifacts", "contributions"})  # names with one value for all nodes
_AMONG, _IS = frozenset({"in", "notin"}), frozenset({"eq", "ne"})


@dataclass(frozen=True, eq=False)
class Question:
    """A part of a text that depends on a node by one answer."""

    about: nodes.Expr  # what is the same for all nodes
    asks: str  # "in": whether the node's name is in it; "eq": is it; else the method that is called with the node

    def answers(self, context: Context) -> Callable[[Node], Hashable]:
        """Return what answers it for a node.

        If there is no answer, because a list is missing for example, rendering fails on every node that asks. So all
        nodes have the same answer.
        """
        try:
            about = evaluate_tree(self.about, context)
        except (TemplateError, TypeError, ValueError):
            return _nothing
        if self.asks == "eq":
            return lambda node: bool(node.name == about)
        if self.asks == "in":
            names = about if isinstance(about, str) else _names(about)
            return lambda node: node.name in names
        method = attribute(about, self.asks)
        return _caller(method) if isinstance(method, MethodType) else _nothing


def _nothing(node: Node) -> None:  # noqa: ARG001
    return None


def _names(value: object) -> frozenset[str]:
    listed = value if isinstance(value, list | tuple | set | frozenset | Mapping) else ()
    return frozenset(name for name in listed if isinstance(name, str))


def _caller(method: MethodType) -> Callable[[Node], Hashable]:
    def answer(node: Node) -> Hashable:
        try:
            returned: Hashable = method(node)
        except Exception:  # the text that calls it so is told
            return None
        try:
            hash(returned)
        except TypeError:
            return object()  # no other node's is equal
        return returned

    return answer


@dataclass(frozen=True)
class MadeOnce(Generic[T]):
    """What is made for a node, made once for all nodes with the same answers."""

    parts: tuple[str | Question, ...] | None  # of a node: attributes, and questions; None: it is each node's own
    context: Context = field(default_factory=dict)  # what texts of the role see, without `node`
    made: dict[tuple[Hashable, ...], T] = field(default_factory=dict)  # by the answers

    def get(self, node: Node, make: Callable[[Node], T], *more: Hashable) -> T:
        """`more` is what it is made from besides."""
        if self.parts is None:
            return make(node)
        key = (self._answers(node), *more)
        if key not in self.made:
            self.made[key] = make(node)
        return self.made[key]

    @cached_property
    def _answers(self) -> Callable[[Node], Hashable]:
        """What a node answers to all that is asked."""
        getters: list[Callable[[Node], Hashable]] = [
            attrgetter(part) if isinstance(part, str) else part.answers(self.context) for part in self.parts or ()
        ]
        if len(getters) < 2:  # of most texts
            return getters[0] if getters else _nothing
        return lambda node: tuple([answer(node) for answer in getters])


def asked_of(texts: Iterable[object]) -> tuple[str | Question, ...] | None:
    """Return what the role's texts ask of `node`, attributes first; None if that may be more than the shared ones.

    A value that is neither `Expression` nor `Template` asks nothing.
    """
    all_parts: set[str | Question] = set()
    for text in texts:
        if isinstance(text, Jinja):
            parts = _node_parts(text)
            if parts is None:
                return None
            all_parts |= parts
    questions = [part for part in all_parts if isinstance(part, Question)]
    return (*sorted(part for part in all_parts if isinstance(part, str)), *questions)


def speaks_of_node(text: object) -> bool:
    """Whether a text of a role needs to know which node it is for."""
    return isinstance(text, Jinja) and _node_parts(text) != frozenset()


@lru_cache(maxsize=4096, typed=True)  # an expression is not equal to a template of the same characters
def _node_parts(text: Jinja) -> frozenset[str | Question] | None:
    """Return what a text asks of `node`; None: perhaps all, or what differs by node.

    A `node` that stands alone may become anything: another name, an argument, a filter's value.
    """
    if "node" not in str(text):  # most texts
        return frozenset()
    tree = text.tree()
    parts = list(tree.find_all((nodes.Call, nodes.Compare, nodes.Getattr, nodes.Getitem, nodes.Name, nodes.Macro)))
    # As in `for node in cluster.nodes`: another one, at least there. To tell where, jinja2 generates code.
    if any(_declares(part, {"node"}) for part in parts) and "node" not in meta.find_undeclared_variables(tree):
        return frozenset()
    plain = any(_declares(part, _CLUSTER) for part in parts)  # then `cluster` may be something else, too
    questions = {} if plain else {id(name): question for part in parts for name, question in _question(part)}
    others = [part for part in parts if _is_node(part) and id(part) not in questions]
    names = {id(part.node): part.attr for part in parts if isinstance(part, nodes.Getattr)}
    names |= {id(part.node): _constant(part.arg) for part in parts if isinstance(part, nodes.Getitem)}
    attributes = {names.get(id(part), "") for part in others}
    return frozenset({*attributes, *questions.values()}) if attributes <= _SHARED else None


def _question(part: nodes.Node) -> Iterable[tuple[nodes.Node, Question]]:
    """Yield the `node` that a part asks about, with the question, if it is one that is followed."""
    if isinstance(part, nodes.Compare) and len(part.ops) == 1:
        [operand] = part.ops
        left, right = part.expr, operand.expr
        if operand.op in _IS and _is_name(right):
            left, right = right, left
        if operand.op in _AMONG | _IS and _is_name(left) and _of_cluster(right):
            yield uncounted(left).node, Question(right, "in" if operand.op in _AMONG else "eq")  # type: ignore[attr-defined]
    elif isinstance(part, nodes.Call) and isinstance(part.node, nodes.Getattr) and _of_cluster(part.node.node):
        alone = len(part.args) == 1 and not (part.kwargs or part.dyn_args or part.dyn_kwargs)
        if alone and _is_node(part.args[0]):
            yield part.args[0], Question(part.node.node, part.node.attr)


def _is_name(part: nodes.Expr) -> bool:
    """Whether it is `node.name`."""
    bare = uncounted(part)
    return isinstance(bare, nodes.Getattr) and bare.attr == "name" and _is_node(bare.node)


def _of_cluster(part: nodes.Expr) -> bool:
    """Whether a part has the same value for all nodes."""
    names = [*part.find_all(nodes.Name), *([part] if isinstance(part, nodes.Name) else [])]
    return all(name.ctx == "load" and name.name in _CLUSTER for name in names)


def _is_node(part: nodes.Node) -> bool:
    return isinstance(part, nodes.Name) and part.name == "node" and part.ctx == "load"


def _declares(part: nodes.Node, names: Iterable[str]) -> bool:
    stored = isinstance(part, nodes.Macro) or (isinstance(part, nodes.Name) and part.ctx != "load")
    return stored and part.name in names  # type: ignore[attr-defined]


def _constant(part: nodes.Node) -> str:
    """Return the constant in brackets, "" if it is computed."""
    return str(part.value) if isinstance(part, nodes.Const) else ""
