"""The validation of external data against a type; errors name the place.

Supported types are those of JSON: `str`, `bool`, `int`, `float`, `None`, `Any`, `Literal`, `list[X]`, `tuple[X, ...]`
and `tuple[X, Y]` (lists in JSON), `dict[str, X]`, unions, TypedDicts with exactly their keys (except
for `NotRequired`), and dataclasses with their fields (except for those with a default). Numbers are finite and in the
exact range of JSON; `Annotated` with a `Within` or `PrintableLine` restricts further. A type is compiled once.
"""

from __future__ import annotations

import types
from dataclasses import MISSING, fields
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from hpcforge.schemas import Check, Form, check
from hpcforge.wire_types import Absent, LazyType, PrintableLine, Within

_UNIONS = (Union, types.UnionType)
_PLAIN = {
    str: "text",
    bool: "yes or no",
    int: "whole number",
    float: "number",
    Any: "anything",
    type(None): "null",
}


@cache
def fits(kind: Any) -> Check:
    """Return a function that raises `hpcforge.schemas.MisfitError` for values that are not of this type."""
    return check(form(kind))


@cache
def form(kind: Any) -> Form:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotated(*arguments[:2])
    if origin in _UNIONS:
        return (
            "either",
            type(None) in arguments,
            [form(argument) for argument in arguments if argument is not type(None)],
        )
    if origin is Literal:
        return "one of", arguments
    if origin is tuple and arguments[-1] is not ...:
        return "row", list(map(form, arguments))
    if origin in (list, tuple):
        return "list", form(arguments[0])
    if origin is dict:
        return "mapping", form(arguments[0]), form(arguments[1])
    if hasattr(kind, "__dataclass_fields__"):
        return _fields(kind)
    if hasattr(kind, "__required_keys__"):
        hints = get_type_hints(kind, include_extras=True)
        optional = {key for key, hint in hints.items() if Absent() in getattr(hint, "__metadata__", ())}
        return "record", {key: form(hint) for key, hint in hints.items()}, sorted(kind.__required_keys__ - optional)
    return (_PLAIN[kind],)


def _annotated(kind: Any, extra: object) -> Form:
    if isinstance(extra, PrintableLine):
        return "line", extra.most
    if isinstance(extra, LazyType):
        return form(extra.of())
    return ("within", extra.low, extra.high, form(kind)) if isinstance(extra, Within) else form(kind)


def _fields(kind: Any) -> Form:
    hints = get_type_hints(kind, include_extras=True)
    settable = [field for field in fields(kind) if field.init]
    required = [field.name for field in settable if field.default is MISSING and field.default_factory is MISSING]
    return "record", {field.name: form(hints[field.name]) for field in settable}, required
