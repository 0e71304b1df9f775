"""The place of a mistake in YAML, which is seldom the place where the parser stopped, and the correction. Pure.

The parser reports the expected token, its place, and the begin of the construct that it was reading. Common mistakes
are in the lines there and just above; `lines` has the mistakes of single lines. For all other errors the message is the
parser's problem in hpcforge's own words, since the parser's words differ between versions. The package imports
`hpcforge.blueprint` only, and knows nothing of the schema.
"""

from __future__ import annotations

import re

import yaml

from hpcforge.blueprint.diagnostics import Mark, SourceFile, quote
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
from hpcforge.blueprint.yaml_mistakes import lines as lines
from hpcforge.blueprint.yaml_mistakes.lines import open_quote

# Mistakes within braces and brackets: missing quotes, commas and closing brackets.
_HOSTLIST = re.compile(r"(?:[A-Za-z0-9_.-]|,(?=[A-Za-z0-9\[])|\[[0-9,-]*+\])*+")
_UNQUOTED = re.compile(r"[ {][A-Za-z0-9][\w.-]*+\[[0-9]")
_QUOTED = re.compile("\"[^\"]*+\"|'[^']*+'")
_SHOWN = 10  # lines
_STEM = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-,"


def within_brackets(refusal: Refusal) -> Told | None:
    """Explain an error where the next entry, a comma or the closing bracket was expected."""
    looks = (open_quote, _hostlist, _left_open, _closed_wrongly, _between_entries)
    return next((explained for look in looks if (explained := look(refusal))), None)


def _hostlist(refusal: Refusal) -> Told | None:
    """`{nodes: w[01-04]}`: the bracket is read as the beginning of a list."""
    before = refusal.current[: refusal.column]
    stem = before[len(before.rstrip(_STEM)) :].lstrip(",")
    if refusal.character != "[" or not stem or "]" not in refusal.current[refusal.column :]:
        return None
    start = refusal.column - len(stem)
    if start == indent(refusal.current) and refusal.begun and start <= indent(refusal.text(refusal.begun[0])):
        return None  # the key of the next line: the line above was left open
    match = _HOSTLIST.match(refusal.current, start)
    text = match[0].rstrip(",") if match else ""
    message = f"{quote(text)} needs quotes: within braces and brackets `[` begins a list"
    hint = quote_it(key_before(refusal.current, start), text)
    also = [str(line + 1) for line in range(refusal.line + 1, len(refusal.lines)) if _has_another(refusal.text(line))]
    if also:
        hint += f"; so in line{'s' * (len(also) > 1)} {', '.join(also[:_SHOWN])}{', ...' * (len(also) > _SHOWN)}"
    edit = refusal.inserted(refusal.line, start, quoted(text), len(text))
    return message, Mark(refusal.line + 1, start + 1, len(text)), hint, edit


def _has_another(line: str) -> bool:
    """Return whether a line has a hostlist without quotes within braces."""
    brace = line.find("{")
    return brace >= 0 and _UNQUOTED.search(line, brace) is not None


def _left_open(refusal: Refusal) -> Told | None:
    """Detect an unclosed brace of a line above, or two lines of braces without a comma between them."""
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
        advice = quote_it(key_before(refusal.text(line), begins), value)
        edit = refusal.inserted(line, begins, quoted(value), end - begins)
        return (
            message,
            Mark(line + 1, column + 1),
            f"` #` begins a comment, which includes the `{close}`; {advice}",
            edit,
        )
    if (
        content(refusal.current)
        and indent(refusal.current) > indent(refusal.text(line))
        and _closed(refusal, line, column)
    ):
        return _no_comma_above(refusal, last)
    if content(refusal.text(line)).endswith(opening):
        return message, Mark(line + 1, column + 1), f"write `{close}` where it ends, or remove it"
    closed = content(refusal.text(last)).rstrip(",") + close
    edit = {last: " " * indent(refusal.text(last)) + closed}
    return message, Mark(line + 1, column + 1), f"end line {last + 1} with `{close}`: {quote(closed)}", edit


def _closed(refusal: Refusal, line: int, column: int) -> bool:
    """Return whether what opens at a place is closed further on."""
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
    written, column = refusal.current, refusal.column
    before = written[:column]
    if refusal.character == ":":
        start = 1 + max(before.rfind(mark) for mark in ",{[")
        key, colon, value = before[start:].partition(": ")
        if not colon or not value.strip() or value.lstrip()[:1] in "\"'":
            return None
        begins = start + len(key) + 2 + len(value) - len(value.lstrip())
        text = value_at(written, begins)
        mark = Mark(refusal.line + 1, begins + 1, len(text))
        pair = quote(f"{key.strip()}: {quoted(text)}")
        first, _, word = value.strip().rpartition(" ")
        if first and re.fullmatch("[a-z_]+", word):
            comma = quote(f"{key.strip()}: {first.strip()}, {word}: ...")
            return (
                "two entries without a comma, or text with a colon and no quotes",
                mark,
                f"write {comma}, or {pair}",
            )
        edit = refusal.inserted(refusal.line, begins, quoted(text), len(text))
        return "text with a colon needs quotes", mark, f"quote it: {pair}", edit
    if before.rstrip()[-1:] in ("}", "]", '"', "'"):
        hint = "write a comma before this entry"
        edit = refusal.inserted(refusal.line, column, ", ")
        return "no comma between two entries", Mark(refusal.line + 1, column + 1), hint, edit
    return None


def nothing_there(refusal: Refusal) -> Told | None:
    """Explain an error where a value was expected."""
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


_LOOKS = (
    ("did not find expected ',' or", within_brackets),
    ("did not find expected node content", nothing_there),
    ("mapping values are not allowed", lines.second_colon),
    ("could not find expected ':'", lines.begun_without_colon),
    ("did not find expected key", lines.no_key),
    ("did not find expected '-' indicator", lines.key_among_items),
    ("did not find expected <document start>", lines.outside),
    ("found unexpected end of stream", lines.end_of_file),
    ("unknown escape character", lines.escape),
    ("cannot start any token", lines.first_character),
    (" tab ", lines.first_character),
    ("while scanning an alias", lines.first_character),
    ("while scanning an anchor", lines.first_character),
    ("while scanning a tag", lines.first_character),
    ("while parsing a tag", lines.first_character),
    ("while scanning a block scalar", lines.first_character),
)

# Problems as libyaml 0.2.5 and 0.2.6 report them, in hpcforge's words; the first that fits is used.
_PROBLEMS = (
    ("could not find expected ':'", "a key without a colon after it"),
    ("did not find expected ',' or ']'", "`,` or `]` is missing"),
    ("did not find expected ',' or '}'", "`,` or `}` is missing"),
    ("did not find expected '-' indicator", "a list item without `- `"),
    ("did not find expected <document start>", "text after the end of the document"),
    ("did not find expected key", "a key is missing"),
    ("did not find expected node content", "a value is missing"),
    ("block sequence entries are not allowed", "a list item cannot start here"),
    ("mapping values are not allowed", "`:` is not allowed here"),
    ("found unexpected ':'", "`:` is not allowed here"),
    ("found unexpected end of stream", "the file ends within quotes"),
    ("found unexpected document indicator", "a line `---` or `...` within quotes"),
    ("escape", "an unknown escape in double quotes"),
    ("did not find expected hexdecimal number", "an unknown escape in double quotes"),
    ("cannot start any token", "text cannot begin with this character"),
    (" tab ", "a tab where only spaces can indent"),
    ("while scanning a block scalar", "a wrong beginning of a text block"),
    ("while scanning an anchor", "a wrong anchor"),
    ("while scanning an alias", "a wrong alias"),
    ("directive", "a line that begins with `%`"),
    ("incompatible YAML document", "a version of YAML other than 1.1 or 1.2"),
    (" tag", "a wrong tag"),
)
_TOO_DEEP = "exceeded maximum nesting depth"


def less_deep(error: yaml.YAMLError, text: str) -> str | None:
    """Return a text as deep as the parser reads, where that is its error; None: it is another error.

    libyaml 0.2.6 refuses the 1,001st bracket before it has told of the first; 0.2.5 has no such limit. Without the
    brackets beyond it, both tell the same. Commas, which are a token each, keep every place.
    """
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    if mark is None or _TOO_DEEP not in str(error) or text[mark.index : mark.index + 1] not in tuple(CLOSES):
        return None
    return text[: mark.index] + text[mark.index :].translate(dict.fromkeys(map(ord, CLOSES), ","))


def explain(error: yaml.YAMLError, source: SourceFile, text: str) -> Told:
    """Return message, place and hint for what the parser refused of a text."""
    if isinstance(error, yaml.reader.ReaderError) and isinstance(error.character, int):
        before = SourceFile.of("", text.encode()[: error.position].decode(errors="ignore")).lines
        message = f"the character U+{error.character:04X} is not allowed in a text file"
        return message, Mark(len(before), len(before[-1]) + 1), "remove it; is this a text file?"
    marked = error if isinstance(error, yaml.MarkedYAMLError) else yaml.MarkedYAMLError()
    begun = marked.context_mark
    place = marked.problem_mark or begun
    if place is None:
        return "not valid YAML", None, None
    message = ", ".join(part for part in (marked.context, marked.problem) if part)
    refusal = Refusal(
        source.lines,
        message,
        place.line,
        place.column,
        (begun.line, begun.column) if begun and marked.context else None,
    )
    explained = [explanation for words, look in _LOOKS if words in message and (explanation := look(refusal))]
    for summary, position, hint, *edits in explained:
        if all(refusal.parses(edit) for edit in edits):
            return summary, position, hint
    if explained:
        return explained[0][0], explained[0][1], None
    hint = f"it begins in line {begun.line + 1}" if begun and begun.line < place.line else None
    problem = next((f": {ours}" for words, ours in _PROBLEMS if words in message), "")
    return f"not valid YAML{problem}", Mark(place.line + 1, place.column + 1), hint
