"""Translate the Debian names of roles to the distribution of the nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, TypeVar, get_type_hints

from hpcforge.cluster.model import OperatingSystem
from hpcforge.kinds.resource import LocalName

T = TypeVar("T")


def localize(value: T, os: OperatingSystem) -> T:
    """Replace Debian names in a dataclass, at any depth, in the fields that are declared to have names.

    Text does not change: roles look up names in a file's text, or in a shell's line, themselves. Raise ValueError for
    several packages or none in a field for one package, or for a package that the release lacks.
    """
    if os.names.all_as_in_debian:  # a plan has millions of parts
        for name in getattr(value, "packages", ()):
            os.packages(name)
        return value
    subjects = _subjects(type(value))  # type: ignore[arg-type]
    own = {name: _translate(getattr(value, name), subject, os) for name, subject in subjects.items()}
    changed: T = replace(value, **own)  # type: ignore[type-var]
    return changed


@cache
def _subjects(dataclass_type: Any) -> Mapping[str, LocalName | None]:
    """Return the subject of each field's names; None: no names, or only names in its parts."""
    hints = get_type_hints(dataclass_type, include_extras=True)
    by_field = {field.name: getattr(hints[field.name], "__metadata__", ()) for field in fields(dataclass_type)}
    return {
        name: next((annotation for annotation in annotations if isinstance(annotation, LocalName)), None)
        for name, annotations in by_field.items()
    }


def _translate(value: Any, subject: LocalName | None, os: OperatingSystem) -> Any:
    if is_dataclass(value):
        return localize(value, os)
    if isinstance(value, tuple):
        if subject is LocalName.PACKAGE:
            return tuple(dict.fromkeys(package for name in value for package in os.packages(name)))
        return tuple(_translate(part, subject, os) for part in value)
    return _TRANSLATIONS[subject](os, value) if subject and isinstance(value, str) else value


def _package(os: OperatingSystem, name: str) -> str:
    packages = os.packages(name)
    if len(packages) != 1:
        raise ValueError(
            f"{name} must be one package in {os.name} {os.release}, not {' and '.join(packages) or 'none'}"
        )
    return packages[0]


def _account(os: OperatingSystem, name: str) -> str:
    return ":".join(map(os.account, name.split(":")))  # ACCOUNT, or ACCOUNT:GROUP


def _word(os: OperatingSystem, word: str) -> str:
    return os.path(word) if word.startswith("/") else os.unit(word)


_TRANSLATIONS: Mapping[LocalName, Callable[[OperatingSystem, str], str]] = {
    LocalName.PACKAGE: _package,
    LocalName.UNIT: OperatingSystem.unit,
    LocalName.PATH: OperatingSystem.path,
    LocalName.ACCOUNT: _account,
    LocalName.COMMAND: _word,
}
