"""Counts habits that make this repository hard to read, and compares each count with a ceiling that may only fall.

    python tools/house.py                  # fails if a count is over its ceiling, or if a ceiling can be lowered
    python tools/house.py --tighten        # lowers the ceilings in tools/house.yaml first
    python tools/house.py --show docs      # the places of one count, as file:line

The counts, their ceilings and the marker words are in `tools/house.yaml`. docs/style.md says what to write instead.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
SETTINGS = Path("tools/house.yaml")
WORD_LIST = "docs/style.md"  # names the marker words
HELP = "hpcforge/cli/"  # typer prints the docstrings of functions that are verbs
NAMES = ("one", "Any", "Json")
SHORT_LINES = 50
LONG_LINES = 40  # of a function
WIDE = 8  # parameters of a function
_FENCE = re.compile(r"^\s*(```|~~~)")
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file, for an editor: `file:line: what`."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


@dataclass(slots=True)
class Module:
    """The counted parts of one Python file. A text is a `Place` with the text as `what`."""

    lines: int
    strings: list[Place] = field(default_factory=list)
    docstrings: list[Place] = field(default_factory=list)
    comments: list[Place] = field(default_factory=list)
    classes: list[Place] = field(default_factory=list)
    names: list[Place] = field(default_factory=list)  # identifiers but for attributes
    attributes: list[Place] = field(default_factory=list)
    long_functions: list[Place] = field(default_factory=list)
    wide_functions: list[Place] = field(default_factory=list)
    fields: list[tuple[int, Place]] = field(default_factory=list)  # of each class how many
    imports: set[tuple[str, str]] = field(default_factory=set)  # of `from A import B` A and B; of `import A` A and ""


@dataclass(frozen=True, slots=True)
class Count:
    """A count of the tree: `value` is compared with the ceiling, `--show` prints `places`."""

    key: str
    value: float
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The highest value that a count may have. It falls in steps, so that small changes leave house.yaml alone."""

    value: float
    step: float = 1

    def tightened(self, count: float) -> float:
        """Return the lowest multiple of the step that is not below the count, and never above the present ceiling."""
        steps = -(-round(count / self.step, 6) // 1)
        return min(self.value, round(steps * self.step, 3))


def read_module(path: str, source: str) -> Module:
    """Read one Python file, in one pass over its syntax tree."""
    module = Module(source.count("\n"))
    documented: set[int] = set()
    quoted: dict[int, list[tuple[int, int]]] = {}  # by line, the columns that strings take
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if (doc := _docstring(node)) is not None:
                documented.add(id(doc))
                module.docstrings.append(Place(path, doc.lineno, str(doc.value)))
            _add_definition(module, path, node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if path.startswith(HELP) or id(node) not in documented:
                module.strings.append(Place(path, node.lineno, node.value))
            _add_span(quoted, node)
        elif isinstance(node, ast.JoinedStr):
            _add_span(quoted, node)
        elif isinstance(node, ast.Name | ast.arg | ast.keyword):
            name = node.id if isinstance(node, ast.Name) else node.arg
            module.names.append(Place(path, node.lineno, str(name)))
        elif isinstance(node, ast.Attribute):
            module.attributes.append(Place(path, node.lineno, node.attr))
        elif isinstance(node, ast.ImportFrom):
            module.imports |= {(str(node.module), alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            module.imports |= {(alias.name, "") for alias in node.names}
    module.comments.extend(_comments(path, source, quoted))
    return module


def _add_definition(
    module: Module, path: str, node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
) -> None:
    if isinstance(node, ast.ClassDef):
        module.classes.append(Place(path, node.lineno, node.name))
        count = sum(isinstance(item, ast.AnnAssign) for item in node.body)
        module.fields.append((count, Place(path, node.lineno, f"{node.name}, {count} fields")))
    elif not isinstance(node, ast.Module):
        module.names.append(Place(path, node.lineno, node.name))
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        count = sum(item.arg not in ("self", "cls") for item in parameters)
        if lines > LONG_LINES:
            module.long_functions.append(Place(path, node.lineno, f"{node.name}, {lines} lines"))
        if count >= WIDE:
            module.wide_functions.append(Place(path, node.lineno, f"{node.name}, {count} parameters"))


def _docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> ast.Constant | None:
    first = node.body[0] if node.body else None
    doc = first.value if isinstance(first, ast.Expr) else None
    return doc if isinstance(doc, ast.Constant) and isinstance(doc.value, str) else None


def _add_span(quoted: dict[int, list[tuple[int, int]]], node: ast.expr) -> None:
    end_line, end = node.end_lineno or node.lineno, node.end_col_offset or 0
    for line in range(node.lineno, end_line + 1):
        span = (node.col_offset if line == node.lineno else 0, end if line == end_line else sys.maxsize)
        quoted.setdefault(line, []).append(span)


def _comments(path: str, source: str, quoted: Mapping[int, list[tuple[int, int]]]) -> Iterator[Place]:
    """Yield comments; consecutive lines with only a comment are one text."""
    block: list[str] = []
    first = 0
    for number, line in enumerate([*source.split("\n"), ""], 1):
        at = _hash(line, quoted.get(number, []))
        alone = at is not None and not line[:at].strip()
        if block and not alone:
            yield Place(path, first, "\n".join(block))
            block = []
        if at is None:
            continue
        if alone:
            first = first if block else number
            block.append(line[at:].lstrip("# "))
        else:
            yield Place(path, number, line[at:].lstrip("# "))


def _hash(line: str, spans: Sequence[tuple[int, int]]) -> int | None:
    """Return the column of the `#` that begins a comment. Spans count bytes of UTF-8, as `ast` does."""
    for match in re.finditer("#", line):
        at = len(line[: match.start()].encode())
        if not any(start <= at < end for start, end in spans):
            return match.start()
    return None


def paragraphs(path: str, page: str) -> Iterator[Place]:
    """Yield the paragraphs of a page of Markdown, without its blocks of code."""
    block: list[str] = []
    first, fenced = 1, False
    for number, line in enumerate([*page.splitlines(), ""], 1):
        fence = _FENCE.match(line) is not None
        if fence or fenced or not line.strip():
            if block:
                yield Place(path, first, "\n".join(block))
            block, first = [], number + 1
        else:
            block.append(line)
        fenced = fenced != fence


def pattern(phrases: Iterable[str]) -> re.Pattern[str]:
    """Return one pattern for all phrases: whole words, in any case, with any white space between."""
    words = (r"\s+".join(map(re.escape, phrase.split())) for phrase in phrases)
    return re.compile(rf"(?<![\w`/.-])(?:{'|'.join(words)})(?![\w`/]|\.\w)", re.IGNORECASE)


def habit_pattern(expressions: Iterable[str]) -> re.Pattern[str]:
    """Return one pattern for regular expressions of house.yaml; one that matches nothing if there are none."""
    return re.compile("|".join(f"(?:{expression})" for expression in expressions) or "(?!)", re.MULTILINE)


def marked(
    key: str,
    texts: Iterable[Place],
    markers: re.Pattern[str],
    allowed: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Count:
    """Count the marker words per 1,000 words of these texts. `allowed`: by file, words that are names there."""
    places, total = [], 0
    for text in texts:
        total += len(_WORD.findall(text.what))
        for hit in markers.finditer(text.what):
            if hit[0] in allowed.get(text.path, ()):
                continue
            around = " ".join(text.what[max(0, hit.start() - 40) : hit.end() + 40].split())
            line = text.line + text.what.count("\n", 0, hit.start())
            places.append(Place(text.path, line, f"[{' '.join(hit[0].split())}] {around}"))
    return Count(key, round(1000 * len(places) / max(total, 1), 2), tuple(places))


def doubled_classes(classes: Iterable[Place]) -> tuple[Place, ...]:
    """Return the class names that more than one class has: one place each, which lists the others."""
    places: dict[str, list[Place]] = {}
    for place in classes:
        places.setdefault(place.what, []).append(place)
    return tuple(
        Place(first.path, first.line, f"{name}, also {', '.join(f'{place.path}:{place.line}' for place in others)}")
        for name, (first, *others) in sorted(places.items())
        if others
    )


def _graph(modules: Mapping[str, Module]) -> dict[str, set[str]]:
    """Return the modules that each module imports, by path."""
    dotted = {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in modules}
    graph = {}
    for path, module in modules.items():
        names = (f"{source}.{name}" if f"{source}.{name}" in dotted else source for source, name in module.imports)
        graph[path] = {dotted[name] for name in names if name in dotted} - {path}
    return graph


def one_importer(modules: Mapping[str, Module]) -> tuple[Place, ...]:
    """Return the modules with only one importer, in the same folder: parts of it."""
    importers: dict[str, list[str]] = {}
    for path, targets in _graph(modules).items():
        for target in targets:
            importers.setdefault(target, []).append(path)
    return tuple(
        Place(path, 1, f"imported by {only[0]} alone")
        for path, only in sorted(importers.items())
        if len(only) == 1
        and Path(path).parent == Path(only[0]).parent
        and not path.endswith("__init__.py")
        and not only[0].endswith("__init__.py")
        and not path.startswith(HELP)  # verbs are imported by their name, too
    )


def circles(modules: Mapping[str, Module]) -> tuple[Place, ...]:
    """Return circles of imports, one place each (Tarjan's strongly connected components)."""
    graph, order, low, stack, places = _graph(modules), dict[str, int](), dict[str, int](), list[str](), list[Place]()

    def visit(path: str) -> None:
        order[path] = low[path] = len(order)
        stack.append(path)
        for target in sorted(graph[path]):
            if target not in order:
                visit(target)
                low[path] = min(low[path], low[target])
            elif target in stack:
                low[path] = min(low[path], order[target])
        if low[path] == order[path]:
            members = stack[stack.index(path) :]
            del stack[-len(members) :]
            if len(members) > 1:
                places.append(Place(path, 1, ", ".join(members)))

    for path in sorted(graph):
        if path not in order:
            visit(path)
    return tuple(places)


def not_imperative(root: Path) -> tuple[Place, ...]:
    """Return the docstrings that do not begin with an imperative, by ruff's D401."""
    command = ["ruff", "check", "--isolated", "--select", "D401", "--output-format", "concise", "hpcforge"]
    printed = subprocess.run(
        [sys.executable, "-m", *command], cwd=root, capture_output=True, text=True, check=False
    ).stdout
    hits = re.findall(r"^(\S+?):(\d+):\d+: D401 (.*)$", printed, re.MULTILINE)
    return tuple(Place(path, int(line), message) for path, line, message in hits)


def _is_made(page: str) -> bool:
    """Return whether hpcforge wrote a page: a reference grows with its subjects."""
    return any(line.startswith(("Generated by", "Made by")) for line in page.splitlines()[:4])


def counts(root: Path, settings: Mapping[str, Any]) -> tuple[Count, ...]:
    """Return every count of the tree at `root` by the words of house.yaml, in the order of the table."""
    vague, allowed = settings.get("vague", ()), settings.get("allowed", {})
    modules = {path: read_module(path, text) for path, text in _read(root, "hpcforge/**/*.py").items()}
    readme = _read(root, "README.md")
    pages = _read(root, "docs/**/*.md", "CONTRIBUTING.md", "CHANGELOG.md")
    phrases, habits = pattern(settings["markers"]), habit_pattern(settings.get("habits", ()))

    def collect(part: str) -> list[Place]:
        return [place for module in modules.values() for place in getattr(module, part)]

    def prose(files: Mapping[str, str]) -> list[Place]:
        return [text for path, page in files.items() if path != WORD_LIST for text in paragraphs(path, page)]

    golden = sorted(path for path in root.glob("tests/**/golden/**/*") if path.is_file())
    written = {path: page for path, page in (readme | pages).items() if path != "CHANGELOG.md" and not _is_made(page)}
    words = {path: len(page.split()) for path, page in written.items()}
    largest = sorted(words.items(), key=lambda page: -page[1])
    identifiers = [*collect("names"), *collect("attributes")]
    unclear = [name for name in identifiers if name.what in vague]
    widest = sorted((sized for module in modules.values() for sized in module.fields), key=lambda sized: -sized[0])
    return (
        marked("strings", collect("strings"), phrases, allowed),
        marked("readme", prose(readme), phrases),
        marked("docs", prose(pages), phrases),
        marked("docstrings", collect("docstrings"), phrases),
        marked("comments", collect("comments"), phrases),
        marked("docstring_habits", collect("docstrings"), habits),
        marked("comment_habits", collect("comments"), habits),
        marked("string_habits", (text for text in collect("strings") if len(text.what.split()) > 3), habits),
        _sized("doubled_classes", doubled_classes(collect("classes"))),
        *(_sized(name.lower(), (use for use in collect("names") if use.what == name)) for name in NAMES),
        _sized("short_files", (Place(p, 1, f"{m.lines} lines") for p, m in modules.items() if _is_short(p, m))),
        _sized("long_functions", collect("long_functions")),
        _sized("wide_functions", collect("wide_functions")),
        Count("widest_type", widest[0][0] if widest else 0, tuple(place for _, place in widest[:10])),
        _sized("one_importer", one_importer(modules)),
        _sized("circles", circles(modules)),
        Count("vague_names", round(1000 * len(unclear) / max(len(identifiers), 1), 1), tuple(unclear)),
        _sized("not_imperative", not_imperative(root)),
        _sized("files", (Place(path, 1, f"{module.lines} lines") for path, module in modules.items())),
        Count("lines", sum(module.lines for module in modules.values()), ()),
        _sized("golden_files", (Place(str(path.relative_to(root)), 1, "golden") for path in golden)),
        Count("docs_words", sum(words.values()), tuple(Place(path, 1, f"{size} words") for path, size in largest)),
    )


def _read(root: Path, *globs: str) -> dict[str, str]:
    paths = sorted({path for glob in globs for path in root.glob(glob)})
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in paths}


def _is_short(path: str, module: Module) -> bool:
    return module.lines < SHORT_LINES and not path.endswith("/__init__.py")  # describes its package


def _sized(key: str, places: Iterable[Place]) -> Count:
    every = tuple(places)
    return Count(key, len(every), every)


def judge(counts: Iterable[Count], ceilings: Mapping[str, Ceiling]) -> tuple[str, ...]:
    """Return the errors: counts without a ceiling, counts over theirs, and ceilings that can be lowered."""
    wrong = []
    for count in counts:
        ceiling = ceilings.get(count.key)
        if ceiling is None:
            wrong.append(f"{count.key} has no ceiling: add it to {SETTINGS}")
        elif count.value > ceiling.value:
            excess = f"{count.value:g} is over the ceiling {ceiling.value:g}"
            wrong.append(f"{count.key}: {excess}; to see where: python tools/house.py --show {count.key}")
        elif (lower := ceiling.tightened(count.value)) < ceiling.value:
            wrong.append(f"{count.key}: the ceiling {ceiling.value:g} can be {lower:g}; run `make house` and commit it")
    return tuple(wrong)


def tightened(settings: str, counts: Iterable[Count], ceilings: Mapping[str, Ceiling]) -> str:
    """Return the text of house.yaml with lower ceilings. Keeps comments and order."""
    for count in counts:
        if (ceiling := ceilings.get(count.key)) is not None:
            lower = f"{ceiling.tightened(count.value):.10g}"
            settings = re.sub(rf"(?m)^(  {count.key}: {{ceiling: )[\d.]+", rf"\g<1>{lower}", settings)
    return settings


def read_ceilings(settings: Mapping[str, Mapping[str, Mapping[str, float]]]) -> dict[str, Ceiling]:
    """Return the ceilings of house.yaml, by the key of their count."""
    return {key: Ceiling(entry["ceiling"], entry.get("step", 1)) for key, entry in settings["counts"].items()}


def table(counts: Iterable[Count], settings: Mapping[str, Mapping[str, Mapping[str, object]]]) -> str:
    """Return a row for each count: key, value, ceiling, and meaning."""
    rows = [f"{'':17}{'count':>8}{'ceiling':>9}"]
    for count in counts:
        entry = settings["counts"].get(count.key, {})
        rows.append(f"{count.key:17}{count.value:>8.7g}{entry.get('ceiling', '-')!s:>9}  {entry.get('counts', '')}")
    return "".join(f"{row.rstrip()}\n" for row in rows)


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Print the table, or the places of one count. Returns 1 if something is wrong."""
    parser = argparse.ArgumentParser(description="Hold counts of this repository to ceilings that only fall.")
    parser.add_argument("--tighten", action="store_true", help=f"lower the ceilings in {SETTINGS} to the counts")
    parser.add_argument("--show", metavar="KEY", help="print the places of one count")
    options = parser.parse_args(arguments)
    text = (root / SETTINGS).read_text(encoding="utf-8")
    settings = yaml.safe_load(text)
    if options.show and options.show not in settings["counts"]:
        parser.error(f"no count named {options.show}; there are {', '.join(settings['counts'])}")
    all_counts = counts(root, settings)
    if options.show:
        shown = next(count for count in all_counts if count.key == options.show)
        sys.stdout.write("".join(f"{place}\n" for place in shown.places))
        return 0
    if options.tighten and (lower := tightened(text, all_counts, read_ceilings(settings))) != text:
        (root / SETTINGS).write_text(lower, encoding="utf-8")
        settings = yaml.safe_load(lower)
        sys.stdout.write(f"lowered ceilings in {SETTINGS}: commit it\n")
    sys.stdout.write(table(all_counts, settings))
    wrong = judge(all_counts, read_ceilings(settings))
    sys.stdout.write("".join(f"error: {line}\n" for line in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
