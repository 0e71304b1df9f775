"""Where a mistake of YAML was made, which is seldom where the parser could not go on, and what to write instead. Pure.

The parser says what it expected, where, and where the thing began that it was reading. What people do wrong is found in
the lines there and just above. What is none of these mistakes is told in the parser's words.
"""

from __future__ import annotations

import yaml

from hpcforge.blueprint import flow_mistakes as flow
from hpcforge.blueprint import line_mistakes as lines
from hpcforge.blueprint.diagnostics import Mark, Source
from hpcforge.blueprint.refusal import Refusal, Told

_LOOKS = (
    ("did not find expected ',' or", flow.within_brackets),
    ("did not find expected node content", flow.nothing_there),
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


def explain(error: yaml.YAMLError, source: Source, text: str) -> Told:
    """Return message, place and hint for what the parser refused of a text."""
    if isinstance(error, yaml.reader.ReaderError) and isinstance(error.character, int):
        before = Source.of("", text.encode()[: error.position].decode(errors="ignore")).lines
        message = f"the character U+{error.character:04X} cannot stand in a text file"
        return message, Mark(len(before), len(before[-1]) + 1), "remove it; is this a file that an editor has saved?"
    marked = error if isinstance(error, yaml.MarkedYAMLError) else yaml.MarkedYAMLError()
    begun = marked.context_mark
    place = marked.problem_mark or begun
    if place is None:
        return f"not valid YAML: {' '.join(str(error).split())[:200]}", None, None
    message = ", ".join(part for part in (marked.context, marked.problem) if part)
    refusal = Refusal(
        source.lines,
        message,
        place.line,
        place.column,
        (begun.line, begun.column) if begun and marked.context else None,
    )
    told = next((told for words, look in _LOOKS if words in message and (told := look(refusal))), None)
    if told:
        return told
    hint = f"it begins in line {begun.line + 1}" if begun and begun.line < place.line else None
    return f"not valid YAML: {message}", Mark(place.line + 1, place.column + 1), hint
