"""What roles declare by Debian's names, in the names of the distribution that nodes have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, TypeVar, get_type_hints

from hpcforge.cluster.model import OperatingSystem
from hpcforge.kinds.resource import LocalName

T = TypeVar("T")
_PLAIN = (str, int, bool, float)  # annotations of fields that hold no name


def localize(value: T, os: OperatingSystem) -> T:
    """A dataclass, and all in it, with the distribution's own names in the fields that say what they name.

    Text is left as it is: what stands in a file, or in a shell's line, its role has to ask for. Raises ValueError where
    a field is for one package, and there are several or none.
    """
    own = {
        LocalName.PACKAGE: os.names.packages or os.names.lacks,
        LocalName.UNIT: os.names.units,
        LocalName.PATH: os.names.paths,
        LocalName.ACCOUNT: os.names.accounts,
        LocalName.COMMAND: os.names.units or os.names.paths,
    }
    kinds = frozenset(kind for kind, names in own.items() if names)
    return _localized(value, os, kinds) if kinds else value


def _localized(value: T, os: OperatingSystem, kinds: frozenset[LocalName]) -> T:
    """Only names of these kinds differ. What has none of them stays the same object: a plan has millions."""
    own = {}
    for name, what in _named(type(value)):  # type: ignore[arg-type]
        old = getattr(value, name)
        new = _own(old, what, os, kinds) if what is None or what in kinds else old
        if new is not old:
            own[name] = new
    return replace(value, **own) if own else value  # type: ignore[type-var]


@cache
def _named(of: Any) -> tuple[tuple[str, LocalName | None], ...]:
    """What each field names; None: nothing, or what is in it does. Without fields of which neither can be."""
    hints = get_type_hints(of, include_extras=True)
    said = {field.name: getattr(hints[field.name], "__metadata__", ()) for field in fields(of)}
    named = {
        name: next((annotation for annotation in of_it if isinstance(annotation, LocalName)), None)
        for name, of_it in said.items()
    }
    return tuple((name, what) for name, what in named.items() if what or hints[name] not in _PLAIN)


def _own(value: Any, what: LocalName | None, os: OperatingSystem, kinds: frozenset[LocalName]) -> Any:
    if is_dataclass(value):
        return _localized(value, os, kinds)
    if isinstance(value, tuple):
        if what is LocalName.PACKAGE:
            return tuple(dict.fromkeys(package for name in value for package in os.packages(name)))
        parts = tuple([_own(part, what, os, kinds) for part in value])
        return parts if any(new is not old for new, old in zip(parts, value, strict=True)) else value
    return _CALLED[what](os, value) if what and isinstance(value, str) else value


def _package(os: OperatingSystem, name: str) -> str:
    found = os.packages(name)
    if len(found) != 1:
        raise ValueError(f"{name} must be one package in {os.name} {os.release}, not {' and '.join(found) or 'none'}")
    return found[0]


def _account(os: OperatingSystem, name: str) -> str:
    return ":".join(map(os.account, name.split(":")))  # ACCOUNT, or ACCOUNT:GROUP


def _word(os: OperatingSystem, word: str) -> str:
    return os.path(word) if word.startswith("/") else os.unit(word)


_CALLED: Mapping[LocalName, Callable[[OperatingSystem, str], str]] = {
    LocalName.PACKAGE: _package,
    LocalName.UNIT: OperatingSystem.unit,
    LocalName.PATH: OperatingSystem.path,
    LocalName.ACCOUNT: _account,
    LocalName.COMMAND: _word,
}
