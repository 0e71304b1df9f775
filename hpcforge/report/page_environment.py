"""What fills the templates of pages: autoescape, and no control characters."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from hpcforge.report.text import clean


def page_environment(filters: Mapping[str, Callable[..., object]]) -> Environment:
    """Return it with the filters of a page. An undefined name is an error."""
    environment = Environment(
        loader=PackageLoader("hpcforge.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters
    return environment


def _printable(value: object) -> object:
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value
