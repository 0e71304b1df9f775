"""Faults of management controllers, as rows of quirks.yaml: a word for hpcforge's reaction, and its parameters.

One place interprets a word, and selects the rows that fit its observation. So another row with the same word, such as
other statuses with other waits, is data alone. `QuirkWord.tells` names the parameter that distinguishes rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, Self, TypeAlias, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from hpcforge.errors import ExpectedError
from hpcforge.metal.bmc import Device, Reset
from hpcforge.metal.bmc.makes import Action

Do = Literal[
    "retry-after", "repeat-reset", "read-again", "leave-out", "report-value", "send-etag", "choose-system",
    "count-processors", "sum-dimms", "send-again", "use-settings", "follow-redirect", "accept-expired",
    "assume-reset-types", "stop", "report-missing", "accept-short-flags", "use-ipmi",
]  # fmt: skip


@dataclass(frozen=True)
class QuirkWord:
    """The meaning of a word of `do`, and the parameters of its rows."""

    effect: str
    tells: str = ""  # the parameter that distinguishes rows; "": only one row has the word
    more: tuple[str, ...] = ()


_WAITS = ("wait_s", "every_s")
WORDS: Mapping[Do, QuirkWord] = {
    "retry-after": QuirkWord(
        "a request with one of `statuses` is sent again until wait_s; a POST only after one of `not_processed`",
        "statuses", ("not_processed", *_WAITS),
    ),
    "repeat-reset": QuirkWord("a reset without effect is repeated, each as often as `tries` has it", "tries", _WAITS),
    "read-again": QuirkWord("an override of one of `devices` is read again until wait_s is over", "devices", _WAITS),
    "leave-out": QuirkWord("`properties` that a resource lacks are left out of an override", "properties"),
    "report-value": QuirkWord("one of `values` of `properties` of an override is reported", "properties", ("values",)),
    "send-etag": QuirkWord("a change with one of `statuses` is sent again with the ETag", "statuses"),
    "choose-system": QuirkWord("of several systems the one with a boot override is the machine"),
    "count-processors": QuirkWord("listed processors of `types` count where the summary has more", "types"),
    "sum-dimms": QuirkWord("DIMMs are summed where the summary is `ratio` of their sum", "ratio"),
    "send-again": QuirkWord(
        "an override that is refused with `message` is sent again until wait_s, for makes with `make_action`",
        "message", ("make_action", *_WAITS),
    ),
    "use-settings": QuirkWord("an override goes to the settings where they have one of `properties`", "properties"),
    "follow-redirect": QuirkWord("a redirect with one of `statuses` that changes a last slash is followed", "statuses"),
    "accept-expired": QuirkWord("an expired certificate that is the recorded one is accepted"),
    "assume-reset-types": QuirkWord("types of reset that are not listed are assumed"),
    "stop": QuirkWord("after one of `statuses` no request is sent any more", "statuses"),
    "report-missing": QuirkWord("boot flags of IPMI without `line` are reported and believed", "line"),
    "accept-short-flags": QuirkWord("boot flags of IPMI that end after 60 s are accepted"),
    "use-ipmi": QuirkWord("ipmitool sets a refused override, for makes with `make_action`", "make_action"),
}  # fmt: skip


class QuirkTableError(ExpectedError):
    """A row of the table is wrong; says file, line and why."""

    kind = "invalid"


class Quirk(BaseModel):
    """A row. Waits are in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str  # key of the row
    seen: str
    then: str
    source: str
    do: Do
    protocol: Literal["redfish", "ipmi"] = "redfish"
    statuses: tuple[int, ...] = ()  # statuses of HTTP
    not_processed: tuple[int, ...] = ()  # statuses that mean that a POST had no effect
    tries: Mapping[Reset, int] = {}
    devices: tuple[Device, ...] = ()
    properties: tuple[str, ...] = ()  # properties of `Boot`
    values: tuple[str, ...] = ()
    types: tuple[str, ...] = ()  # ProcessorType
    ratio: float = 0.0
    message: str = ""  # part of a message of Redfish
    line: str = ""  # line of `ipmitool chassis bootparam get 5`
    make_action: Action | None = None  # an action of makes.yaml
    wait_s: float = 0.0
    every_s: float = 0.0

    @model_validator(mode="after")
    def _has_parameters_of_its_word(self) -> Self:
        word = WORDS[self.do]
        needed = {*filter(None, (word.tells, *word.more))}
        parameters = self.model_fields_set - {"name", "seen", "then", "source", "do", "protocol"}
        if parameters != needed:
            names = ", ".join(sorted(needed)) or "none"
            raise ValueError(
                f"the parameters of `{self.do}` are {names}, not {', '.join(sorted(parameters)) or 'none'}"
            )
        return self


Table: TypeAlias = Mapping[str, Quirk]


@cache
def quirks() -> Table:
    """Return the table by name."""
    return read_quirks((files("hpcforge.metal.bmc") / "quirks.yaml").read_text(encoding="utf-8"), "quirks.yaml")


def read_quirks(text: str, file: str) -> Table:
    """Read a table from YAML. Raises `QuirkTableError`, with the file's name and the line."""
    lines = _lines(text)
    table: dict[str, Quirk] = {}
    for name, row in yaml.load(text, Loader=yaml.CSafeLoader).items():
        try:
            table[name] = Quirk(name=name, **row)
        except ValidationError as error:
            first = error.errors()[0]
            loc = (name, *map(str, first["loc"][:1]))
            message = first["msg"].removeprefix("Value error, ")
            if loc == (name, "do") and "do" in row:
                message = f"`{row['do']}` is not a word of `do`: {', '.join(get_args(Do))}"
            raise QuirkTableError(f"{file}:{lines.get(loc, lines[name,])}: {'.'.join(loc)}: {message}") from error
        if not WORDS[table[name].do].tells and any(earlier.do == table[name].do for earlier in [*table.values()][:-1]):
            raise QuirkTableError(f"{file}:{lines[name,]}: {name}: another row has `do: {table[name].do}`")
    return table


def _lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the line of each row and of each of its keys, by their names."""
    root = yaml.compose(text, Loader=yaml.CSafeLoader)
    lines: dict[tuple[str, ...], int] = {}
    for name, row in root.value if root else ():
        lines[name.value,] = name.start_mark.line + 1
        lines |= {(name.value, key.value): key.start_mark.line + 1 for key, _ in row.value}
    return lines


def fitting(table: Table, do: Do, **values: object) -> Iterator[Quirk]:
    """Yield the rows with a word whose parameters include each observed value."""
    for row in table.values():
        if row.do == do and all(value in getattr(row, parameter) for parameter, value in values.items()):
            yield row


def first(table: Table, do: Do, **values: object) -> Quirk | None:
    """Return the first of `fitting`; None for none."""
    return next(fitting(table, do, **values), None)
