"""Jinja with the few things templates need beyond it, strict about names it does not know.

Expressions and templates come from `roles/`; a blueprint's values are only ever what they are evaluated *over*, so a
value that looks like a template stays text.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from functools import lru_cache
from typing import Any

import jinja2
from jinja2 import Environment, StrictUndefined, TemplateSyntaxError, meta, nodes
from jinja2.environment import TemplateExpression
from jinja2.parser import Parser
from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema

from hpcforge.blueprint.hostlist import fold
from hpcforge.blueprint.values import refusal
from hpcforge.plan.address_runs import address_runs


def _fold_names(names: Iterable[str]) -> str:
    return fold(tuple(names))


class _Environment(Environment):
    def make_globals(self, d: MutableMapping[str, Any] | None) -> MutableMapping[str, Any]:
        return {**self.globals, **(d or {})}  # jinja's own is a ChainMap, copied at every rendering: half of its time


def _environment() -> Environment:
    environment = _Environment(  # renders configuration files, not HTML
        undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["fold"] = _fold_names
    environment.filters["address_runs"] = address_runs
    return environment


_ENVIRONMENT = _environment()


class _Jinja(str):
    """Text of a role in Jinja's language, known to be right in it where it was read as a part of role.yaml."""

    __slots__ = ()

    def tree(self) -> nodes.Template:
        """Its syntax tree. Raises `jinja2.TemplateSyntaxError`."""
        raise NotImplementedError

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Text that has a syntax tree."""
        return core_schema.no_info_after_validator_function(cls._parsed, core_schema.str_schema())

    @classmethod
    def _parsed(cls, text: str) -> _Jinja:
        made = cls(text)
        try:
            made.tree()
        except TemplateSyntaxError as error:
            raise refusal(f"{cls.__name__.lower()}: {error.message}") from None
        return made


class Expression(_Jinja):
    """A Jinja expression over `cluster`, `node`, the role's `vars` and, under `for_each`, `item`."""

    __slots__ = ()

    def tree(self) -> nodes.Template:
        """As `_Jinja.tree`: a template with nothing else in it."""
        return _tree_of_expression(str(self))


class Template(_Jinja):
    """Text in which `{{ expression }}` and `{% statement %}` stand."""

    __slots__ = ()

    def tree(self) -> nodes.Template:
        """As `_Jinja.tree`. A template that another would be read for is refused: there is nowhere to read it from."""
        return _tree_of_template(str(self))


@lru_cache(maxsize=4096)
def _tree_of_expression(source: str) -> nodes.Template:
    parser = Parser(_ENVIRONMENT, source, state="variable")  # as Environment.compile_expression begins
    expression = parser.parse_expression()
    if not parser.stream.eos:
        raise TemplateSyntaxError("chunk after expression", parser.stream.current.lineno)
    tree = nodes.Template([nodes.Output([expression])], lineno=1)
    return tree.set_environment(_ENVIRONMENT)  # type: ignore[return-value]


@lru_cache(maxsize=4096)
def _tree_of_template(source: str) -> nodes.Template:
    tree = _ENVIRONMENT.parse(source)
    for kind in (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends):
        for found in tree.find_all(kind):
            raise TemplateSyntaxError("a role's text is one file: nothing is included or imported", found.lineno)
    return tree


# Attributes that many nodes have alike; the others are each node's own, or cannot be a key.
_SHARED = frozenset(
    {
        *("group", "functions", "hardware", "rack", "fabrics", "gpus"),
        *("sockets", "cores_per_socket", "threads_per_core", "cpus", "memory_mib"),
    }
)


def spoken_of(texts: Iterable[object]) -> tuple[str, ...] | None:
    """The attributes of `node` that texts of a role speak of; None where it may be more than those that nodes share.

    What is neither `Expression` nor `Template` speaks of nothing.
    """
    found: set[str] = set()
    for text in texts:
        if isinstance(text, _Jinja):
            attributes = _attributes(text)
            if attributes is None:
                return None
            found |= attributes
    return tuple(sorted(found))


def speaks_of_node(text: object) -> bool:
    """Whether a text of a role needs to know which node it is for."""
    return isinstance(text, _Jinja) and _attributes(text) != frozenset()


@lru_cache(maxsize=4096, typed=True)  # an expression is not equal to a template of the same characters
def _attributes(text: _Jinja) -> frozenset[str] | None:
    """The attributes of `node` that a text speaks of; None: perhaps all, or one that is each node's own.

    Only `node.NAME` and `node["NAME"]` say which. A `node` that stands alone may become anything: another name, an
    argument, a filter's value.
    """
    if "node" not in str(text):  # most texts: to tell what is looked up, jinja2 generates code
        return frozenset()
    tree = text.tree()
    if "node" not in meta.find_undeclared_variables(tree):  # as in `for node in cluster.nodes`: another one
        return frozenset()
    names = [part.attr for part in tree.find_all(nodes.Getattr) if _is_node(part.node)]
    names += [_constant(part.arg) for part in tree.find_all(nodes.Getitem) if _is_node(part.node)]
    alone = sum(map(_is_node, tree.find_all(nodes.Name))) > len(names)
    return None if alone or not _SHARED.issuperset(names) else frozenset(names)


def _is_node(part: nodes.Node) -> bool:
    return isinstance(part, nodes.Name) and part.name == "node" and part.ctx == "load"


def _constant(part: nodes.Node) -> str:
    """What stands in brackets, "" where it is computed."""
    return str(part.value) if isinstance(part, nodes.Const) else ""


@lru_cache(maxsize=4096)
def _template(source: str) -> jinja2.Template:
    return _ENVIRONMENT.from_string(_tree_of_template(source))


@lru_cache(maxsize=4096)
def _expression(source: str) -> TemplateExpression:
    return _ENVIRONMENT.compile_expression(source, undefined_to_none=False)


def render(source: str, context: dict[str, Any]) -> str:
    """Render a template. Raises `jinja2.TemplateError` for a name it does not know."""
    return _template(source).render(context) if "{" in source else source


def evaluate(source: str, context: dict[str, Any]) -> Any:
    """Evaluate an expression. An unknown name gives `StrictUndefined`, which raises as soon as it is used."""
    return True if source == "true" else _expression(source)(**context)
