"""Data from outside against a type: it fits, or it is said where it does not.

Types are those that JSON can have: `str`, `bool`, `int`, `float`, `None`, `Any`, `Literal`, `list[X]`, `tuple[X, ...]`
and `tuple[X, Y]` (lists in JSON), `dict[str, X]`, unions, TypedDicts, whose keys have to be there (but for
`NotRequired`) and no others, and dataclasses, whose fields have to be there (but for those with a default). Numbers are
finite and not beyond what JSON carries exactly; `Annotated` with a `Within` or `Line` asks for more. A type is compiled
once, and values are only looked at. Standard library and Python 3.9 syntax, since it travels to the nodes.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from hpcforge.wire import Absent, Later, Line, Within

_EXACT = 2**53
_SHOWN = 40  # characters of a key or value in what is said

_UNIONS = (Union, getattr(types, "UnionType", Union))  # X | Y came with Python 3.10

Check = Callable[[Any], None]


class MisfitError(ValueError):
    """A value that is not of its type; as text, where and why: `receipt.run: not a whole number`."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        self.place: list[str] = []

    def within(self, key: object) -> MisfitError:
        """The same, told from one level further out."""
        self.place.insert(0, _shown(key))
        return self

    def __str__(self) -> str:
        return f"{'.'.join(self.place)}: {self.why}" if self.place else self.why


@cache
def fits(kind: Any) -> Check:
    """A function that raises MisfitError for values that are not of this type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        extra = arguments[1]
        if isinstance(extra, Line):
            return _line(extra.most)
        if isinstance(extra, Later):
            return _later(extra)
        return _bound(fits(arguments[0]), extra) if isinstance(extra, Within) else fits(arguments[0])
    if origin in _UNIONS:
        others = tuple(fits(one) for one in arguments if one is not type(None))
        return _union(others, nullable=type(None) in arguments)
    if origin is Literal:
        return _one_of(arguments)
    if origin is tuple and arguments[-1] is not ...:
        return _row(tuple(map(fits, arguments)))
    if origin in (list, tuple):
        return _list(fits(arguments[0]))
    if origin is dict:
        return _mapping(fits(arguments[0]), fits(arguments[1]))
    if hasattr(kind, "__dataclass_fields__"):
        return _fields(kind)
    if hasattr(kind, "__required_keys__"):
        hints = get_type_hints(kind, include_extras=True)
        optional = {key for key, hint in hints.items() if Absent() in getattr(hint, "__metadata__", ())}
        return _record({key: fits(hint) for key, hint in hints.items()}, kind.__required_keys__ - optional)
    return _PLAIN[kind]


def _later(extra: Later) -> Check:
    def check(value: Any) -> None:
        fits(extra.of())(value)

    return check


def _bound(number: Check, extra: Within) -> Check:
    def check(value: Any) -> None:
        number(value)
        if not extra.low <= value <= extra.high:
            raise MisfitError(f"{_shown(value)} is not from {extra.low:g} to {extra.high:g}")

    return check


def _line(most: int) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, str):
            raise MisfitError("not text")
        if len(value) > most:
            raise MisfitError(f"longer than {most} characters")
        if not value.isprintable():
            raise MisfitError("has characters that cannot be printed")

    return check


def _union(checks: tuple[Check, ...], nullable: bool) -> Check:
    def check(value: Any) -> None:
        if value is None and nullable:
            return
        first: MisfitError | None = None
        for one in checks:
            try:
                one(value)
            except MisfitError as error:
                first = first or error
            else:
                return
        assert first is not None
        raise first

    return check


def _one_of(values: tuple[Any, ...]) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, str) or value not in values:
            raise MisfitError(f"{_shown(value)} is none of {', '.join(map(str, values))}")

    return check


def _list(item: Check) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, list):
            raise MisfitError("not a list")
        for index, one in enumerate(value):
            try:
                item(one)
            except MisfitError as error:
                raise error.within(index) from None

    return check


def _row(items: tuple[Check, ...]) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, list) or len(value) != len(items):
            raise MisfitError(f"not a list of {len(items)}")
        for index, (item, one) in enumerate(zip(items, value)):
            try:
                item(one)
            except MisfitError as error:
                raise error.within(index) from None

    return check


def _mapping(key_check: Check, item: Check) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, dict):
            raise MisfitError("not an object")
        for key, one in value.items():
            try:
                key_check(key)
                item(one)
            except MisfitError as error:
                raise error.within(key) from None

    return check


def _record(items: Mapping[str, Check], required: frozenset[str]) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, dict):
            raise MisfitError("not an object")
        for key in required:
            if key not in value:
                raise MisfitError("missing").within(key)
        for key, one in value.items():
            if key not in items:
                raise MisfitError("unknown").within(key)
            try:
                items[key](one)
            except MisfitError as error:
                raise error.within(key) from None

    return check


def _fields(kind: Any) -> Check:
    from dataclasses import MISSING, fields  # noqa: PLC0415 - a node that is sent no such type need not have it

    hints = get_type_hints(kind, include_extras=True)
    known = [one for one in fields(kind) if one.init]
    required = frozenset(one.name for one in known if one.default is MISSING and one.default_factory is MISSING)
    return _record({one.name: fits(hints[one.name]) for one in known}, required)


def _whole(value: Any) -> None:
    if type(value) is not int:
        raise MisfitError("not a whole number")
    if abs(value) > _EXACT:
        raise MisfitError("too large a number")


def _number(value: Any) -> None:
    if type(value) not in (int, float) or not abs(value) <= _EXACT:  # nor is NaN
        raise MisfitError("not a finite number of a usable size")


def _plain(kind: type, name: str) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, kind):
            raise MisfitError(f"not {name}")

    return check


_PLAIN: dict[Any, Check] = {
    str: _plain(str, "text"),
    bool: _plain(bool, "true or false"),
    int: _whole,
    float: _number,
    Any: lambda _value: None,
    type(None): _plain(type(None), "null"),
}


def _shown(value: object) -> str:
    text = str(value)[:_SHOWN] if isinstance(value, (str, int, float)) and _small(value) else type(value).__name__
    return text if text.isprintable() else ascii(text)


def _small(value: str | float) -> bool:
    return isinstance(value, str) or abs(value) <= _EXACT  # of a longer number the digits are not even made
