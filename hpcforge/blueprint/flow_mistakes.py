"""Mistakes within braces and brackets: quotes, commas and closing brackets that are not there. Pure."""

from __future__ import annotations

import re

from hpcforge.blueprint.diagnostics import Mark, quote
from hpcforge.blueprint.line_mistakes import open_quote
from hpcforge.blueprint.yaml_errors import (
    CLOSES,
    Refusal,
    Told,
    content,
    indent,
    key_before,
    quote_it,
    quoted,
    value_at,
)

_HOSTLIST = re.compile(r"(?:[A-Za-z0-9_.-]|,(?=[A-Za-z0-9\[])|\[[0-9,-]*+\])*+")
_UNQUOTED = re.compile(r"[ {][A-Za-z0-9][\w.-]*+\[[0-9]")
_QUOTED = re.compile("\"[^\"]*+\"|'[^']*+'")
_SHOWN = 10  # lines
_STEM = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-,"


def within_brackets(refusal: Refusal) -> Told | None:
    """Where the next entry, a comma or the closing bracket was expected."""
    looks = (open_quote, _hostlist, _left_open, _closed_wrongly, _between_entries)
    return next((told for look in looks if (told := look(refusal))), None)


def _hostlist(refusal: Refusal) -> Told | None:
    """`{nodes: w[01-04]}`: the bracket is read as the beginning of a list."""
    before = refusal.here[: refusal.column]
    stem = before[len(before.rstrip(_STEM)) :].lstrip(",")
    if refusal.character != "[" or not stem or "]" not in refusal.here[refusal.column :]:
        return None
    start = refusal.column - len(stem)
    if start == indent(refusal.here) and refusal.begun and start <= indent(refusal.text(refusal.begun[0])):
        return None  # the key of the next line: what is above it was left open
    found = _HOSTLIST.match(refusal.here, start)
    text = found[0].rstrip(",") if found else ""
    message = f"{quote(text)} needs quotes: within braces and brackets `[` begins a list"
    hint = quote_it(key_before(refusal.here, start), text)
    also = [str(line + 1) for line in range(refusal.line + 1, len(refusal.lines)) if _has_another(refusal.text(line))]
    if also:
        hint += f"; so in line{'s' * (len(also) > 1)} {', '.join(also[:_SHOWN])}{', ...' * (len(also) > _SHOWN)}"
    edit = refusal.inserted(refusal.line, start, quoted(text), len(text))
    return message, Mark(refusal.line + 1, start + 1, len(text)), hint, edit


def _has_another(line: str) -> bool:
    """Tell whether a line has a hostlist without quotes within braces."""
    brace = line.find("{")
    return brace >= 0 and _UNQUOTED.search(line, brace) is not None


def _left_open(refusal: Refusal) -> Told | None:
    """A brace of a line above that nothing closes, or two lines of braces without a comma between them."""
    if refusal.begun is None or refusal.begun[0] >= refusal.line:
        return None
    line, column = refusal.begun
    opening, last = refusal.text(line)[column : column + 1], refusal.above(refusal.line)
    if opening not in CLOSES or last is None:
        return None
    message, close = f"`{opening}` is not closed", CLOSES[opening]
    comment = refusal.text(line).find(" #", column)
    if comment >= 0 and (end := refusal.text(line).rfind(close)) > comment:
        begins = max(refusal.text(line).rfind(mark, 0, comment + 1) + len(mark) for mark in (": ", ", ", "{", "["))
        value = refusal.text(line)[begins:end].strip()
        way = quote_it(key_before(refusal.text(line), begins), value)
        edit = refusal.inserted(line, begins, quoted(value), end - begins)
        return message, Mark(line + 1, column + 1), f"what follows ` #` is a comment, with the `{close}`; {way}", edit
    if content(refusal.here) and indent(refusal.here) > indent(refusal.text(line)) and _closed(refusal, line, column):
        return _no_comma_above(refusal, last)
    if content(refusal.text(line)).endswith(opening):
        return message, Mark(line + 1, column + 1), f"write `{close}` where it ends, or remove it"
    whole = content(refusal.text(last)).rstrip(",") + close
    edit = {last: " " * indent(refusal.text(last)) + whole}
    return message, Mark(line + 1, column + 1), f"end line {last + 1} with `{close}`: {quote(whole)}", edit


def _closed(refusal: Refusal, line: int, column: int) -> bool:
    """Tell whether what opens at a place is closed further on."""
    depth = 0
    for number in range(line, len(refusal.lines)):
        text = _QUOTED.sub("", content(refusal.text(number)[column if number == line else 0 :]))
        depth += sum(text.count(opening) - text.count(closing) for opening, closing in CLOSES.items())
        if depth <= 0:
            return True
    return False


def _no_comma_above(refusal: Refusal, last: int) -> Told | None:
    text = content(refusal.text(last))
    if text.endswith((",", "{", "[", ":")):
        return _between_entries(refusal)
    end = indent(refusal.text(last)) + len(text)
    hint = f"end line {last + 1} with a comma: {quote(f'{text},')}"
    return "no comma between two entries", Mark(last + 1, end), hint, refusal.inserted(last, end, ",")


def _closed_wrongly(refusal: Refusal) -> Told | None:
    if refusal.character not in ("}", "]") or refusal.begun is None:
        return None
    line, column = refusal.begun
    opening = refusal.text(line)[column : column + 1]
    if opening not in CLOSES or CLOSES[opening] == refusal.character:
        return None
    message = f"`{opening}` in column {column + 1} is closed by `{refusal.character}`"
    edit = refusal.inserted(refusal.line, refusal.column, CLOSES[opening])
    return message, Mark(refusal.line + 1, refusal.column + 1), f"write `{CLOSES[opening]}` before it", edit


def _between_entries(refusal: Refusal) -> Told | None:
    """`{cores: 4 memory_gib: 8}`, `{reason: RMA 4711: out}`, `{a: {b: c} d: e}`."""
    here, column = refusal.here, refusal.column
    before = here[:column]
    if refusal.character == ":":
        start = 1 + max(before.rfind(mark) for mark in ",{[")
        key, colon, value = before[start:].partition(": ")
        if not colon or not value.strip() or value.lstrip()[:1] in "\"'":
            return None
        begins = start + len(key) + 2 + len(value) - len(value.lstrip())
        whole = value_at(here, begins)
        mark = Mark(refusal.line + 1, begins + 1, len(whole))
        pair = quote(f"{key.strip()}: {quoted(whole)}")
        first, _, word = value.strip().rpartition(" ")
        if first and re.fullmatch("[a-z_]+", word):
            comma = quote(f"{key.strip()}: {first.strip()}, {word}: ...")
            return (
                "two entries without a comma, or text with a colon and no quotes",
                mark,
                f"write {comma}, or {pair}",
            )
        edit = refusal.inserted(refusal.line, begins, quoted(whole), len(whole))
        return "text with a colon needs quotes", mark, f"quote it: {pair}", edit
    if before.rstrip()[-1:] in ("}", "]", '"', "'"):
        hint = "write a comma between this and what stands before it"
        edit = refusal.inserted(refusal.line, column, ", ")
        return "no comma between two entries", Mark(refusal.line + 1, column + 1), hint, edit
    return None


def nothing_there(refusal: Refusal) -> Told | None:
    """Where a value was expected."""
    mark = Mark(refusal.line + 1, refusal.column + 1)
    if refusal.character == ",":
        return (
            "a comma with nothing before it",
            mark,
            "remove it",
            refusal.inserted(refusal.line, refusal.column, "", 1),
        )
    if refusal.character == "-":
        return "within brackets items have no `-`", mark, "write [one, two]"
    return _closed_wrongly(refusal)
