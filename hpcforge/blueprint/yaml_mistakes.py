"""Where a mistake of YAML was made, which is seldom where the parser could not go on, and what to write instead. Pure.

The parser says what it expected, where, and where the thing began that it was reading. What people do wrong is found in
the lines there and just above. What is none of these mistakes is named by the parser's problem, in our words: its own
differ between versions.
"""

from __future__ import annotations

import yaml

from hpcforge.blueprint import flow_mistakes as flow
from hpcforge.blueprint import line_mistakes as lines
from hpcforge.blueprint.diagnostics import Mark, SourceFile
from hpcforge.blueprint.yaml_errors import CLOSES, Refusal, Told

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

# What libyaml 0.2.5 and 0.2.6 call a problem, and we do; the first that fits.
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
    explained = [told for words, look in _LOOKS if words in message and (told := look(refusal))]
    for what, where, hint, *edits in explained:
        if all(refusal.parses(edit) for edit in edits):
            return what, where, hint
    if explained:
        return explained[0][0], explained[0][1], None
    hint = f"it begins in line {begun.line + 1}" if begun and begun.line < place.line else None
    problem = next((f": {ours}" for words, ours in _PROBLEMS if words in message), "")
    return f"not valid YAML{problem}", Mark(place.line + 1, place.column + 1), hint
