"""The schema of a type as plain data, and the validation of values against it.

`hpcforge.typed_json` lists the types with schemas, and makes the schemas. Validation changes no value. This module is
sent to nodes: standard library and Python 3.9 syntax only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Form = Sequence[Any]  # a name of one of the tables below, and its arguments; JSON
Check = Callable[[Any], None]

_EXACT = 2**53
_SHOWN = 40  # characters of a key or value in a message


class MisfitError(ValueError):
    """A value that is not of its type. The message has place and reason: `receipt.run: not a whole number`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.why = reason
        self.place: list[str] = []

    def within(self, key: object) -> MisfitError:
        """Return the same error, with the key of the enclosing value before its place."""
        self.place.insert(0, _shown(key))
        return self

    def __str__(self) -> str:
        return f"{'.'.join(self.place)}: {self.why}" if self.place else self.why


def check(form: Form) -> Check:
    """Return a function that raises MisfitError for values that are not of this form."""
    name, *more = form
    return _MADE[name](*more) if more else _PLAIN[name]


def _within(low: float, high: float, number: Form) -> Check:
    of_number = check(number)

    def fits(value: Any) -> None:
        of_number(value)
        if not low <= value <= high:
            raise MisfitError(f"{_shown(value)} is not from {low:g} to {high:g}")

    return fits


def _line(most: int) -> Check:
    def fits(value: Any) -> None:
        if not isinstance(value, str):
            raise MisfitError("not text")
        if len(value) > most:
            raise MisfitError(f"longer than {most} characters")
        if not value.isprintable():
            raise MisfitError("has characters that cannot be printed")

    return fits


def _union(nullable: bool, several: Sequence[Form]) -> Check:
    checks = list(map(check, several))

    def fits(value: Any) -> None:
        if value is None and nullable:
            return
        first: MisfitError | None = None
        for check in checks:
            try:
                check(value)
            except MisfitError as error:
                first = first or error
            else:
                return
        assert first is not None
        raise first

    return fits


def _one_of(values: Sequence[Any]) -> Check:
    def fits(value: Any) -> None:
        if not isinstance(value, str) or value not in values:
            raise MisfitError(f"{_shown(value)} is none of {', '.join(map(str, values))}")

    return fits


def _list(form: Form) -> Check:
    item = check(form)

    def fits(value: Any) -> None:
        if not isinstance(value, list):
            raise MisfitError("not a list")
        for index, part in enumerate(value):
            try:
                item(part)
            except MisfitError as error:
                raise error.within(index) from None

    return fits


def _row(forms: Sequence[Form]) -> Check:
    items = list(map(check, forms))

    def fits(value: Any) -> None:
        if not isinstance(value, list) or len(value) != len(items):
            raise MisfitError(f"not a list of {len(items)}")
        for index, (item, part) in enumerate(zip(items, value)):
            try:
                item(part)
            except MisfitError as error:
                raise error.within(index) from None

    return fits


def _mapping(keys: Form, form: Form) -> Check:
    key_check, item = check(keys), check(form)

    def fits(value: Any) -> None:
        if not isinstance(value, dict):
            raise MisfitError("not an object")
        for key, part in value.items():
            try:
                key_check(key)
                item(part)
            except MisfitError as error:
                raise error.within(key) from None

    return fits


def _record(forms: Mapping[str, Form], required: Sequence[str]) -> Check:
    items: dict[str, Check] = {}  # made for the first value: most roles have few kinds of resources

    def fits(value: Any) -> None:
        if not isinstance(value, dict):
            raise MisfitError("not an object")
        for key in required:
            if key not in value:
                raise MisfitError("missing").within(key)
        for key, part in value.items():
            if key not in forms:
                raise MisfitError("unknown").within(key)
            item = items.get(key) or items.setdefault(key, check(forms[key]))
            try:
                item(part)
            except MisfitError as error:
                raise error.within(key) from None

    return fits


def _whole_number(value: Any) -> None:
    if type(value) is not int:
        raise MisfitError("not a whole number")
    if abs(value) > _EXACT:
        raise MisfitError("too large a number")


def _number(value: Any) -> None:
    if type(value) not in (int, float) or not abs(value) <= _EXACT:  # false for NaN, too
        raise MisfitError("not a finite number of a usable size")


def _plain(kind: type, name: str) -> Check:
    def fits(value: Any) -> None:
        if not isinstance(value, kind):
            raise MisfitError(f"not {name}")

    return fits


_PLAIN: dict[str, Check] = {
    "text": _plain(str, "text"),
    "yes or no": _plain(bool, "true or false"),
    "whole number": _whole_number,
    "number": _number,
    "anything": lambda _value: None,
    "null": _plain(type(None), "null"),
}
_MADE: dict[str, Callable[..., Check]] = {
    "within": _within,
    "line": _line,
    "either": _union,
    "one of": _one_of,
    "list": _list,
    "row": _row,
    "mapping": _mapping,
    "record": _record,
}


def _shown(value: object) -> str:
    text = str(value)[:_SHOWN] if isinstance(value, (str, int, float)) and _small(value) else type(value).__name__
    return text if text.isprintable() else ascii(text)


def _small(value: str | float) -> bool:
    return isinstance(value, str) or abs(value) <= _EXACT  # Python would take long to print a larger number
