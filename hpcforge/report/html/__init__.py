"""Pages that need nothing else: no network, no font, and no script but one. They print as they read.

Each page extends `templates/base.html.j2`. Every text goes through autoescape, with control characters made visible;
drawings come from element trees (`charts`). A content policy in each page forbids loading, and scripts but for the one
that it names, should both ever fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from hpcforge.blueprint.hostlist import fold
from hpcforge.report.text import clean, duration, moment, plural


def page_environment(filters: Mapping[str, Callable[..., object]]) -> Environment:
    """Return the environment for the templates of pages, with the filters of a page.

    Text is escaped and has no control characters; only the filter `drawing` passes markup, from element trees. An
    undefined name is an error.
    """
    environment = Environment(
        loader=PackageLoader("hpcforge.report.html", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"script": "", "sections": ()}
    environment.filters |= {
        "counted": plural,
        "drawing": Markup,
        "duration": duration,
        "hostlist": lambda nodes: fold(nodes) if nodes else "no node",
        "marked": marked,
        "moment": moment,
        "thousands": "{:,}".format,
        **filters,
    }
    return environment


def _printable(value: object) -> object:
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def marked(text: str) -> Markup:
    """Return text in which each part between backticks is code."""
    pieces = clean(text).split("`")
    if len(pieces) % 2 == 0:  # one is left over
        return Markup("{}").format(clean(text))
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(piece) if index % 2 else piece for index, piece in enumerate(pieces))
