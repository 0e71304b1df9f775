"""Colours of output, chosen by signs and words that are in the text anyway.

So nothing is said by colour alone, and what is printed without colours is the same text. A pattern looks where texts of
ours are, at the beginning of a line or after it; what came from outside stands behind that, on one line, and is clean
before colours are put in (`hpcforge.report.printing`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Literal

Kind = Literal["plan", "diagnostics", "states", "events", "design"]

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_STYLES = {  # a group's name in a pattern, up to `_`, to a style as rich writes it
    "add": "green",
    "change": "yellow",
    "remove": "red",
    "good": "green",
    "warn": "bold yellow",
    "bad": "bold red",
    "hint": "cyan",
    "title": "bold",
    "aside": "dim",
}

_GOOD = "configured|reachable|running|passed|done"
_WARN = (
    "deferred|drained|not scheduled|skipped|interrupted|pending|unknown|not run|stopped|partly up|cut off|not verified"
)
_BAD = "failed|unreachable|left behind|wrong|timed out|error|invalid|down"


def _diagnostic(severity: str, group: str) -> str:
    """Colour the first line of a diagnostic or an error, the line of its file, and the carets below that."""
    return rf"""
    ^(?P<title_{group}_at>[^\n]*?:[ ])??(?P<{group}>{severity}:)(?P<title_{group}_text>[^\n]*)
    (?:\n[ ]*\d+[ ]\|[^\n]*\n[ ]{{6}}\|[ \t]*(?P<{group}_caret>\^+)$)?
    """


def _column(before: str, name: str) -> str:
    """Return the pattern of a state in a column that follows `before`."""
    return "|".join(
        rf"^{before}(?P<{group}_{name}>{words})(?=[ ]{{2}}|$)"
        for group, words in (("good", _GOOD), ("warn", _WARN), ("bad", _BAD))
    )


_PATTERNS: dict[Kind, str] = {
    "plan": r"""
      ^[ ]{2}(?:(?P<add>\+[ ].*)|(?P<remove>-[ ].*)|(?P<change>~[ ].*)|(?P<bad>![ ].*)|(?P<warn>\?[ ].*))$
    | ^[ ]{6}(?:(?P<aside>(?:---|\+\+\+|@@)[ ].*)|(?P<add_line>\+.*)|(?P<remove_line>-.*))$
    | ^(?P<title>\d+[ ]nodes?[ ]to[ ](?:change|leave).*)$
    | ^(?P<good>Nothing[ ]to[ ]do.*)$
    | ^(?P<warn_left>\S+(?:[ ](?:is|are)[ ](?:unreachable[ ]and[ ])?left[ ]out|[ ]falls[ ]short)(?=:))
    | ^(?P<title_step>[a-z]\S*(?:[ ]\S+)*)[ ]{2}(?=\S)(?:[^\n]*,[ ]disrupts:[ ](?P<warn_disrupts>[a-z-]+)\)$)?
    """,
    "diagnostics": "|".join(
        [
            _diagnostic("error", "bad"),
            _diagnostic("warning", "warn"),
            _diagnostic("not[ ]checked", "aside"),
            "^(?P<hint>hint:)",
        ]
    ),
    "states": "|".join(
        [
            _column(r"\S+[ ]{2,}", "row"),  # nodes, tests
            _column(r"\S+[ ]{2,}[\d.]+[ ]{2,}", "node"),  # of a rehearsal, behind its address
            _column(r"\d+(?:[ ]{2,}\S+(?:[ ]\S+)*){3}[ ]{2,}", "run"),  # of the history
            r"^(?P<title>[a-z]+(?:[ ][a-z]+)*:)[ ]{2,}",
        ]
    ),
    "events": r"""
      ^(?P<aside>\[[ ]*[\d.]+[ ]s\])[ ](?:\S+:[ ](?:\S+[ ])?
      (?:(?P<good>done$)|(?P<bad>FAILED|UNREACHABLE)|(?P<warn>drained|DEFERRED|SKIPPED))(?=:|$))?
    """,
    "design": r"""
      ^(?P<bad>Errors)$ | ^(?P<warn>Warnings)$ | ^(?P<title>[A-Z][a-z][ ,a-z]*+)$
    | \b(?P<bad_power>NOT[ ]CARRIED)\b
    | ^(?:(?P<good>0[ ]errors)|(?P<bad_errors>\d+[ ]errors?)),[ ](?:0[ ]warnings|(?P<warn_warnings>\d+[ ]warnings?)),
    """,
}


def spans(text: str, kind: Kind) -> Iterator[tuple[int, int, str]]:
    """Where a text has which style, from its beginning on."""
    for match in _pattern(kind).finditer(text):
        for name, part in match.groupdict().items():
            if part:
                yield *match.span(name), _STYLES[name.partition("_")[0]]


def painted(text: str, kind: Kind) -> str:
    """Return the text with colours for a terminal; it is clean before."""
    pieces, at = [], 0
    for begin, end, style in spans(text, kind):
        codes = ";".join(_CODES[word] for word in style.split())
        pieces += [text[at:begin], f"\x1b[{codes}m{text[begin:end]}\x1b[0m"]
        at = end
    return "".join([*pieces, text[at:]])


@cache
def _pattern(kind: Kind) -> re.Pattern[str]:
    return re.compile(_PATTERNS[kind], re.MULTILINE | re.VERBOSE)
