"""Validate a tree of text: typed sections, with the place of every error.

Where a part of a file is wrong, the rest is still typed: wrong parts are removed, smallest first, and remembered as
*broken*. Checks that compare parts of a file use the rest, and report nothing that a broken part may have caused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Generic, ParamSpec, cast

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from hpcforge.blueprint.diagnostics import (
    MAX_KEPT,
    MAX_SHOWN,
    Diagnostic,
    Severity,
    SourceFile,
    closest_or_all,
    others,
    quote,
)
from hpcforge.blueprint.reader import Document, Loc, Mapping, broken_locs, find, mark_of, plain, values_in_comments
from hpcforge.blueprint.schema_hints import aliases, bounds, description, rewritten, unknown_key
from hpcforge.blueprint.suggestions import in_unit

Data = dict[str, Any]
Given = ParamSpec("Given")
_AND_MORE = "more errors follow: fix these first"


@dataclass(frozen=True, slots=True)
class Finding:
    """An error at a location of a file; `key`: the error is in the key, not its value."""

    loc: Loc
    message: str
    hint: str | None = None
    severity: Severity = "error"
    key: bool = False
    meant: str | None = None  # the existing key that an unknown one probably stands for

    def place(self, root: Mapping, source: SourceFile) -> Diagnostic:
        """Turn the location into line and column."""
        return Diagnostic(self.severity, self.message, source, mark_of(root, self.loc, key=self.key), self.hint)


@dataclass(frozen=True)
class InputCheck(Generic[Given]):
    """A check of input files: a row of `hpcforge.cluster.check_table`, and what `hpcforge explain CODE` prints."""

    code: str  # words with hyphens; differs from codes of rules and names of smoke tests, and is never reused
    title: str  # the condition that must hold
    reads: str  # the compared sections or keys
    function: Callable[Given, Iterator[Finding]]


@dataclass(frozen=True)
class Draft:
    """The sections of a file that could be typed; an absent or hopeless one is its default, or None if it has none."""

    document: Document
    model: BaseModel | None  # the typed document if it has no error
    sections: Data
    broken: frozenset[Loc]

    @cached_property
    def _around(self) -> set[Loc]:
        """Return every location around a broken part."""
        return {wrong[:end] for wrong in self.broken for end in range(len(wrong))}

    def intact(self, *loc: str | int) -> bool:
        """Return whether nothing at, above or below a location was taken out."""
        return loc not in self._around and not _under(loc, self.broken)

    def keys_intact(self, *loc: str) -> bool:
        """Return whether all keys of a mapping are valid; its values may have errors."""
        if any(loc[:end] in self.broken for end in range(len(loc) + 1)):
            return False
        return not any(wrong[:-1] == loc for wrong in self.broken)

    def keys(self, *loc: str) -> tuple[str, ...]:
        """Return the keys of a mapping as written, whether or not their values are right."""
        tree = find(self.document.root, loc)
        return tuple(tree.entries) if isinstance(tree, Mapping) else ()

    def place(self, findings: Iterable[Finding]) -> list[Diagnostic]:
        """Turn findings into diagnostics of this file, of each severity as many as are shown.

        Findings are looked for one by one; where there are too many errors, the rest is not looked for.
        """
        placed: list[Diagnostic] = []
        count: Counter[Severity] = Counter()
        for finding in findings:
            count[finding.severity] += 1
            if count[finding.severity] > MAX_SHOWN:
                continue
            last = count[finding.severity] == MAX_SHOWN
            shown = replace(finding, message=_AND_MORE, hint=None) if last else finding
            placed.append(shown.place(self.document.root, self.document.source))
            if count["error"] == MAX_SHOWN:
                break
        return placed


def validate(
    model: type[BaseModel], document: Document, context: dict[str, object] | None = None
) -> tuple[Draft, list[Diagnostic]]:
    """Type a document; return the valid part by field alias, and all errors (the YAML's errors first).

    `context` is for the model's own validators.
    """
    data = cast("Data", plain(document.root))
    unread = frozenset(broken_locs(document.root))
    diagnostics = [*document.diagnostics, *values_in_comments(document)]
    try:
        typed = model.model_validate(data, context=context)
        sections = {alias: getattr(typed, name) for alias, name in aliases(model).items()}
        return Draft(document, typed, sections, unread), diagnostics
    except ValidationError as error:
        details = _causes(error.errors(include_url=False, include_input=True))
    explained = [_explain(detail, model, data, place < MAX_SHOWN) for place, detail in enumerate(details[:MAX_KEPT])]
    findings = _without_consequences(explained)
    if document.complete:
        shown = [finding for finding in findings if not _under(finding.loc, unread)]  # the YAML's errors are the reason
        diagnostics += [finding.place(document.root, document.source) for finding in shown]
        diagnostics += others(document.source, len(details) - MAX_KEPT)
    broken = unread | {_without_tags(detail["loc"]) for detail in details}
    return Draft(document, None, dict(_salvage(model, data)), broken), diagnostics


def _causes(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """Drop errors that follow from others: a list without its wrong items is reported as too short."""
    around = {detail["loc"][:end] for detail in details for end in range(len(detail["loc"]))}
    return [detail for detail in details if detail["type"] != "too_short" or detail["loc"] not in around]


def _without_consequences(findings: list[Finding]) -> list[Finding]:
    """Drop that a key is missing where the same mapping has a key that was probably meant to be it."""
    guessed = {(*finding.loc[:-1], finding.meant) for finding in findings if finding.meant}
    return [finding for finding in findings if finding.meant or finding.loc not in guessed]


def _under(loc: Loc, places: frozenset[Loc]) -> bool:
    return any(loc[:end] in places for end in range(len(loc) + 1))


def _salvage(model: type[BaseModel], data: Data) -> Iterator[tuple[str, Any]]:
    """Yield each section without its wrong parts; if nothing is right, its default, or else None."""
    for alias, name in aliases(model).items():
        field = model.model_fields[name]
        holder = {alias: data[alias]} if data.get(alias) is not None else {}
        while holder:
            try:
                yield alias, _adapter(model, name).validate_python(holder[alias])
                break
            except ValidationError as error:
                locs = [
                    (alias, *_without_tags(detail["loc"]))
                    for detail in error.errors(include_url=False, include_input=False)
                ]
                for parent, key in [_around(holder, loc) for loc in locs]:  # locate all before one is removed
                    parent.pop(key, None)
        else:
            yield alias, None if field.is_required() else field.get_default()


@cache
def _adapter(model: type[BaseModel], name: str) -> TypeAdapter[Any]:
    """Return the validators of one field: to make them takes longer than to use them."""
    return TypeAdapter(cast("Any", model.model_fields[name].annotation))


def _around(holder: Data, loc: Loc) -> tuple[Data, str]:
    """Return the smallest entry around a location; a list goes as a whole, as its indexes must not move."""
    parent: Any = holder
    smallest = (holder, str(loc[0]))
    for step in loc:
        if not isinstance(parent, dict) or step not in parent:
            break  # a key is missing: the entry around it is removed
        smallest = (parent, cast("str", step))
        parent = parent[step]
    return smallest


def _without_tags(loc: tuple[str | int, ...]) -> Loc:
    """Drop what pydantic adds to a location: union tags, and the mark of a key (which leaves the key itself)."""
    return tuple(step for step in loc if step not in ("[key]", "<path>", "<lab>"))


def _explain(detail: ErrorDetails, model: type[BaseModel], data: Data, guess: bool) -> Finding:
    """Say in our words what pydantic found; `guess` what was meant, which takes longest."""
    loc = _without_tags(detail["loc"])
    context = detail.get("ctx", {})
    name = _name(loc)
    kind = detail["type"]
    key = "[key]" in detail["loc"]
    if kind == "missing":
        return Finding(loc, f"{name} is missing", _how(model, loc, None))
    if kind == "extra_forbidden":
        hint, guessed_key = unknown_key(model, loc, data) if guess else (None, None)
        return Finding(loc, f"unknown key {name}", hint, key=True, meant=guessed_key)
    if kind == "value":
        below = context["message"].endswith(" is below 0")
        hint = bounds(model, loc) if below else context["hint"]
        number = in_unit(str(loc[-1]), detail["input"]) if isinstance(detail["input"], str) and loc else None
        return Finding(loc, context["message"], f"write {number}" if number else hint, key=key)
    if kind == "literal_error":
        accepted = [part.strip("' ") for part in context["expected"].replace(" or ", ", ").split(", ")]
        word = str(detail["input"])
        return Finding(loc, f"{quote(word)} is not accepted here", closest_or_all(word, accepted))
    message = _MESSAGES.get(kind, "{message}").format(**{"message": detail["msg"], **context})
    got = _kind_of(detail["input"]) if kind.endswith("_type") else ""
    hint = _how(model, loc, detail["input"]) if got else description(model, loc) if kind.startswith("too_") else None
    return Finding(loc, f"{name} {message}{got}", hint, key=key)


def _how(model: type[BaseModel], loc: Loc, value: Any) -> str | None:
    """Return how to write the value of a location, and its description."""
    return " ".join(filter(None, (rewritten(model, loc, value), description(model, loc)))) or None


def _name(loc: Loc) -> str:
    """Name what a location holds; an item of a list by its list."""
    if not loc:
        return "the file"
    return quote(loc[-1]) if isinstance(loc[-1], str) else f"an entry of {_name(loc[:-1])}"


_MESSAGES = {
    "value_error": "is not right: {error}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "too_short": "must have at least {min_length} entry",
    "too_long": "must have at most {max_length} entry",
    "string_too_long": "must have at most {max_length} characters",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "float_parsing": "must be a number",
    "tuple_type": "must be a list, [one, two]",
    "dict_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
}


def _kind_of(value: Any) -> str:
    if value is None:
        return ", but has no value"
    return ", not a list" if isinstance(value, list) else ", not a mapping" if isinstance(value, dict) else ", not text"
