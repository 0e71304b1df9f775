"""Jinja with the few things templates need beyond it, strict about names it does not know.

Expressions and templates come from `roles/`; a blueprint's values are only ever what they are evaluated *over*, so a
value that looks like a template stays text.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from functools import lru_cache
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from jinja2.environment import TemplateExpression

from hpcforge.blueprint.hostlist import fold
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


@lru_cache(maxsize=4096)
def _template(source: str) -> Template:
    return _ENVIRONMENT.from_string(source)


@lru_cache(maxsize=4096)
def _expression(source: str) -> TemplateExpression:
    return _ENVIRONMENT.compile_expression(source, undefined_to_none=False)


def render(source: str, context: dict[str, Any]) -> str:
    """Render a template. Raises `jinja2.TemplateError` for a name it does not know."""
    return _template(source).render(context) if "{" in source else source


def evaluate(source: str, context: dict[str, Any]) -> Any:
    """Evaluate an expression. An unknown name gives `StrictUndefined`, which raises as soon as it is used."""
    return True if source == "true" else _expression(source)(**context)
