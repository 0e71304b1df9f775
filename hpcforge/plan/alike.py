"""The node data that a role's text depends on. It is rendered once for all nodes with the same data.

A text reads attributes that many nodes share, tests a name (`node.name in cluster.services.dns.on`), or calls a method
of the cluster (`cluster.file_systems(node)`). A text with any other use of `node` is rendered for each node.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
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
# Attributes with equal values on many nodes; others differ by node, or cannot be a key.
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
    """A part of a text that depends on a node through one answer."""

    about: nodes.Expr  # the operand with one value for all nodes
    asks: str  # "in": the operand contains the node's name; "eq": equals it; else the method called with the node

    def answers(self, context: Context) -> Callable[[Node], Hashable]:
        """Return the function that answers it for a node.

        Without an answer, because a list is missing for example, rendering fails on every node with this question. So
        all nodes have the same answer.
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
        except Exception:  # rendering the text reports it
            return None
        try:
            hash(returned)
        except TypeError:
            return object()  # differs from the answer of any other node
        return returned

    return answer


@dataclass(frozen=True)
class MadeOnce(Generic[T]):
    """The values made for nodes, one for all nodes with the same answers."""

    parts: tuple[str | Question, ...] | None  # attributes and questions; None: each node has its own value
    context: Context = field(default_factory=dict)  # the names that the role's texts may use, but for `node`
    made: dict[tuple[Hashable, ...], T] = field(default_factory=dict)  # by the answers

    def get(self, node: Node, make: Callable[[Node], T], *more: Hashable) -> T:
        """Return the node's value; make it if needed. `more`: other inputs of the value."""
        if self.parts is None:
            return make(node)
        key = (self._answers(node), *more)
        if key not in self.made:
            self.made[key] = make(node)
        return self.made[key]

    def each(self, nodes: Sequence[Node], make: Callable[[Node], T]) -> list[T]:
        """Return the value of each node."""
        if self.parts is None:
            return [make(node) for node in nodes]
        answers = list(map(self._answers, nodes))
        values = {answer: self.get(node, make) for answer, node in dict(zip(answers, nodes, strict=True)).items()}
        return [values[answer] for answer in answers]

    @cached_property
    def _answers(self) -> Callable[[Node], Hashable]:
        """The function that returns a node's answers to all parts."""
        getters: list[Callable[[Node], Hashable]] = [
            attrgetter(part) if isinstance(part, str) else part.answers(self.context) for part in self.parts or ()
        ]
        if len(getters) < 2:  # most texts
            return getters[0] if getters else _nothing
        return lambda node: tuple([answer(node) for answer in getters])


def asked_of(texts: Iterable[object]) -> tuple[str | Question, ...] | None:
    """Return the parts of `node` that the role's texts use, attributes first; None if others than the shared may occur.

    A value that is neither `Expression` nor `Template` uses none.
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
    """Return whether a text of a role uses `node`."""
    return isinstance(text, Jinja) and _node_parts(text) != frozenset()


@lru_cache(maxsize=4096, typed=True)  # an expression is not equal to a template of the same characters
def _node_parts(text: Jinja) -> frozenset[str | Question] | None:
    """Return the parts of `node` that a text uses; None: perhaps all, or parts that differ by node.

    A `node` on its own may become anything: another name, an argument, a filter's value.
    """
    if "node" not in str(text):  # most texts
        return frozenset()
    tree = text.tree()
    parts = list(tree.find_all((nodes.Call, nodes.Compare, nodes.Getattr, nodes.Getitem, nodes.Name, nodes.Macro)))
    # `for node in cluster.nodes` declares another `node`, at least there. jinja2 generates code to resolve the name.
    if any(_declares(part, {"node"}) for part in parts) and "node" not in meta.find_undeclared_variables(tree):
        return frozenset()
    plain = any(_declares(part, _CLUSTER) for part in parts)  # then `cluster` may be another value, too
    questions = {} if plain else {id(name): question for part in parts for name, question in _question(part)}
    others = [part for part in parts if _is_node(part) and id(part) not in questions]
    names = {id(part.node): part.attr for part in parts if isinstance(part, nodes.Getattr)}
    names |= {id(part.node): _constant(part.arg) for part in parts if isinstance(part, nodes.Getitem)}
    attributes = {names.get(id(part), "") for part in others}
    return frozenset({*attributes, *questions.values()}) if attributes <= _SHARED else None


def _question(part: nodes.Node) -> Iterable[tuple[nodes.Node, Question]]:
    """Yield the `node` in a part, with its question, if hpcforge can evaluate it."""
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
    """Return whether it is `node.name`."""
    bare = uncounted(part)
    return isinstance(bare, nodes.Getattr) and bare.attr == "name" and _is_node(bare.node)


def _of_cluster(part: nodes.Expr) -> bool:
    """Return whether a part has the same value for all nodes."""
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
