"""Rename modules and top-level names of Python over the whole tree, by one table.

    python tools/rename.py tools/names.yaml

It can be run again, and on a branch from before the renames: what has its new name already is left alone. Table:

    modules: {plan/felt.py: plan/diff.py}      # below hpcforge/; tests/unit/PACKAGE/test_MODULE.py follows
    names: {plan/felt.py: {felt: affecting_jobs}}    # classes, functions, constants of a module, by its old path
    attributes: {does: apply_verb}                   # methods and fields; of every class that has one, and every use
    loops: {hpcforge/plan/felt.py: [[one, step, plan.steps]]}  # old, new, what is iterated over

A name is followed through imports: `from M import NAME`, `M.NAME`, and re-exports. Strings, comments and documents
follow where they have the whole dotted or slashed path of a module, and where a renamed class stands in backticks.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

PACKAGE = "hpcforge"
TEXTS = {".md", ".toml", ".yaml", ".yml", ".cfg", ".j2", ".json", ".txt", ".sh", ""}
KEPT = (
    "CHANGELOG.md",
    "tools/names.yaml",
    "tools/rename.py",
)  # what was written of the past stays as it was


@dataclass(frozen=True)
class Edit:
    """A replacement in one line: columns in bytes, as `ast` counts them."""

    line: int
    start: int
    end: int
    text: str


@dataclass
class Module:
    """A parsed file, and what its names stand for: local name -> (module, name in it or None for the module)."""

    path: Path
    name: str
    source: str
    tree: ast.Module
    bound: dict[str, tuple[str, str | None]] = field(default_factory=dict)


def module_name(path: str) -> str:
    """`plan/diff.py` -> `hpcforge.plan.diff`."""
    return ".".join([PACKAGE, *Path(path).with_suffix("").parts]).removesuffix(".__init__")


def dotted(path: str) -> str:
    """`tests/unit/x.py` -> `tests.unit.x`."""
    return ".".join(Path(path).with_suffix("").parts).removesuffix(".__init__")


def parsed(root: Path) -> dict[str, Module]:
    """All Python files under version control, by their dotted name."""
    found = {}
    for path in listed(root, "*.py"):
        source = (root / path).read_text("utf-8")
        try:
            tree = ast.parse(source)
        except SyntaxError:
            continue
        name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        found[name] = Module(root / path, name, source, tree)
    for module in found.values():
        module.bound = dict(_imports(module, found))
    return found


def _imports(module: Module, known: Mapping[str, Module]) -> Iterator[tuple[str, tuple[str, str | None]]]:
    for at in ast.walk(module.tree):
        if isinstance(at, ast.ImportFrom) and at.module and not at.level:
            for alias in at.names:
                whole = f"{at.module}.{alias.name}"
                yield alias.asname or alias.name, (whole, None) if whole in known else (at.module, alias.name)
        elif isinstance(at, ast.Import):
            for alias in at.names:
                if alias.asname:
                    yield alias.asname, (alias.name, None)


def origin(modules: Mapping[str, Module], module: str, name: str) -> tuple[str, str]:
    """Where a name of a module is defined, through re-exports."""
    seen = set()
    while (module, name) not in seen and module in modules:
        seen.add((module, name))
        target = modules[module].bound.get(name)
        if not target or target[1] is None or _defines(modules[module], name):
            break
        module, name = target[0], target[1]
    return module, name


def _defines(module: Module, name: str) -> bool:
    for at in _top(module.tree.body):
        if isinstance(at, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and at.name == name:
            return True
        targets = at.targets if isinstance(at, ast.Assign) else [at.target] if isinstance(at, ast.AnnAssign) else []
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return True
    return False


def _top(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module, those below its `if` and `try` too."""
    for at in body:
        yield at
        for part in ("body", "orelse", "finalbody") if isinstance(at, ast.If | ast.Try) else ():
            yield from _top(getattr(at, part, []))


class Renamer(ast.NodeVisitor):
    """Collects the edits of one file for names of modules, minding what functions bind for themselves."""

    def __init__(
        self,
        module: Module,
        modules: Mapping[str, Module],
        names: Mapping[tuple[str, str], str],
        attributes: Mapping[str, str],
        moved: Mapping[str, str],
    ) -> None:
        self.module, self.modules, self.names, self.attributes, self.moved = module, modules, names, attributes, moved
        self.lines = [line.encode() for line in module.source.splitlines(keepends=True)]
        self.edits: set[Edit] = set()
        self.shadowed: list[set[str]] = []
        self.top = list(_top(module.tree.body))
        self.taken = (
            {at.id for at in ast.walk(module.tree) if isinstance(at, ast.Name)}
            | set(module.bound)
            | {at.name for at in self.top if isinstance(at, ast.ClassDef | ast.FunctionDef)}
        )
        self.clashes: set[str] = set()

    def new_name(self, local: str) -> str | None:
        """What a local name is called from now on; None: as before."""
        if any(local in names for names in self.shadowed):
            return None
        target = self.module.bound.get(local)
        if target is None or _defines(self.module, local):
            own = self.attributes.get(local) if _defines(self.module, local) else None
            return self.names.get((self.module.name, local), own)
        if target[1] is None:
            new = self.moved.get(target[0])
            last = target[0].rpartition(".")[2]
            return new.rpartition(".")[2] if new and local == last and new.rpartition(".")[2] != last else None
        if target[1] != local:
            return None  # it has an alias
        return self.names.get(origin(self.modules, *target))

    def put(self, line: int, start: int, old: str, new: str | None) -> None:
        """Note an edit, where the old word really stands there."""
        if new is None or new == old:
            return
        if self.lines[line - 1][start : start + len(old.encode())] == old.encode():
            if new in self.taken and old not in self.attributes:
                self.clashes.add(f"{old} -> {new}")
            self.edits.add(Edit(line, start, start + len(old.encode()), new))

    def find(self, line: int, start: int, old: str, new: str | None) -> None:
        """Note an edit of the first such word from a column on."""
        if new:
            hit = re.search(rb"\b" + old.encode() + rb"\b", self.lines[line - 1][start:])
            if hit:
                self.put(line, start + hit.start(), old, new)

    def visit_Name(self, node: ast.Name) -> None:
        """A use of a name."""
        self.put(node.lineno, node.col_offset, node.id, self.new_name(node.id))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """`module.name`, or a method or field."""
        self.visit(node.value)
        new = self.attributes.get(node.attr)
        target = None
        if isinstance(node.value, ast.Name) and not any(node.value.id in names for names in self.shadowed):
            target = self.module.bound.get(node.value.id)
            if target and target[1] is None:
                new = self.names.get(origin(self.modules, target[0], node.attr), new)
        if new and node.end_lineno and node.end_col_offset is not None:
            self.put(node.end_lineno, node.end_col_offset - len(node.attr.encode()), node.attr, new)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """A class, with its fields and methods."""
        for decorator in node.decorator_list:
            self.visit(decorator)
        if not self.shadowed:
            self.find(node.lineno, node.col_offset, node.name, self.names.get((self.module.name, node.name)))
        for child in [*node.bases, *node.keywords, *node.body]:
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                self.find(child.lineno, child.col_offset, child.name, self.attributes.get(child.name))
            elif isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
                self.put(child.lineno, child.col_offset, child.target.id, self.attributes.get(child.target.id))
                self.visit(child.annotation)
                if child.value:
                    self.visit(child.value)
                continue
            elif isinstance(child, ast.Assign) and all(isinstance(target, ast.Name) for target in child.targets):
                for target in child.targets:
                    self.put(target.lineno, target.col_offset, target.id, self.attributes.get(target.id))
                self.visit(child.value)
                continue
            self.visit(child)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """A function; what it binds for itself keeps its name."""
        for child in [*node.decorator_list, *node.args.defaults, *[at for at in node.args.kw_defaults if at]]:
            self.visit(child)
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg) and argument.annotation:
                self.visit(argument.annotation)
        if node.returns:
            self.visit(node.returns)
        at_top = not self.shadowed and node in self.top
        if at_top:
            new = self.names.get((self.module.name, node.name), self.attributes.get(node.name))
            self.find(node.lineno, node.col_offset, node.name, new)
        self.shadowed.append(_binds(node))
        for child in node.body:
            self.visit(child)
        self.shadowed.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - ast has these names

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Its parameters keep their names."""
        self.shadowed.append({at.arg for at in ast.walk(node.args) if isinstance(at, ast.arg)})
        self.generic_visit(node)
        self.shadowed.pop()

    def visit_Call(self, node: ast.Call) -> None:
        """Keyword arguments that are fields."""
        self.generic_visit(node)
        for keyword in node.keywords:
            if keyword.arg in self.attributes:
                self.put(keyword.lineno, keyword.col_offset, keyword.arg, self.attributes[keyword.arg])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """What is imported."""
        for alias in node.names:
            whole = f"{node.module}.{alias.name}"
            if whole in self.modules:
                new = self.moved.get(whole)
                if new:
                    self.put(alias.lineno, alias.col_offset, alias.name, new.rpartition(".")[2])
            else:
                self.put(
                    alias.lineno,
                    alias.col_offset,
                    alias.name,
                    self.names.get(origin(self.modules, node.module or "", alias.name)),
                )

    def visit_Constant(self, node: ast.Constant) -> None:
        """Quoted annotations, names in __all__, and in `cast`."""
        if isinstance(node.value, str) and node.value.isidentifier() and node.lineno == node.end_lineno:
            new = self.new_name(node.value) if node.value[:1].isupper() and not node.value.isupper() else None
            raw = self.lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode()
            if new and raw[1:-1] == node.value:
                self.put(node.lineno, node.col_offset + 1, node.value, new)


def _binds(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Names that a function binds for itself: arguments, and what it assigns."""
    found = {at.arg for at in ast.walk(function.args) if isinstance(at, ast.arg)}
    declared: set[str] = set()
    left: list[ast.AST] = list(function.body)
    while left:
        at = left.pop()
        if isinstance(at, ast.Global | ast.Nonlocal):
            declared |= set(at.names)
        if isinstance(at, ast.Name) and isinstance(at.ctx, ast.Store | ast.Del):
            found.add(at.id)
        if isinstance(at, ast.ExceptHandler) and at.name:
            found.add(at.name)
        if isinstance(at, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(at.name)
            continue
        if isinstance(at, ast.MatchAs | ast.MatchStar) and at.name:
            found.add(at.name)
        left += ast.iter_child_nodes(at)
    return found - declared


def loop_edits(module: Module, rows: list[list[str]]) -> set[Edit]:
    """Renamed variables: `[old, new, WHERE]`; WHERE is what is iterated over, `def QUALIFIED.NAME` or `lambda BODY`.

    Inner loops come before outer ones, and those before whole functions: each use is renamed once.
    """
    wanted = {(old, where): new for old, new, where in rows}
    edits: dict[tuple[int, int], Edit] = {}

    def rename(old: str, where: str, inside: ast.AST, without: ast.AST | None) -> None:
        new = wanted.get((old, where))
        left: list[ast.AST] = [inside] if new else []
        while left:
            at = left.pop()
            if at is without:
                continue
            if (isinstance(at, ast.Name) and at.id == old) or (isinstance(at, ast.arg) and at.arg == old):
                edits.setdefault(
                    (at.lineno, at.col_offset), Edit(at.lineno, at.col_offset, at.col_offset + len(old), new)
                )
            left += ast.iter_child_nodes(at)

    def walk(at: ast.AST, qualified: tuple[str, ...]) -> None:
        if isinstance(at, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            qualified = (*qualified, at.name)
        for child in ast.iter_child_nodes(at):
            walk(child, qualified)
        for generator in reversed(getattr(at, "generators", ())):
            for old in _stored(generator.target):
                rename(old, ast.unparse(generator.iter), at, at.generators[0].iter)  # type: ignore[attr-defined]
        if isinstance(at, ast.For):
            for old in _stored(at.target):
                rename(old, ast.unparse(at.iter), at, at.iter)
        if isinstance(at, ast.Lambda):
            for argument in at.args.args:
                rename(argument.arg, "lambda " + ast.unparse(at.body), at, None)
        if isinstance(at, ast.FunctionDef | ast.AsyncFunctionDef):
            for old in {old for old, where in wanted if where == "def " + ".".join(qualified)}:
                rename(old, "def " + ".".join(qualified), at, None)

    walk(module.tree, ())
    return set(edits.values())


def _stored(target: ast.AST) -> list[str]:
    return [at.id for at in ast.walk(target) if isinstance(at, ast.Name)]


def apply_edits(source: str, edits: set[Edit]) -> str:
    """The text with all edits made. Raises ValueError where two overlap."""
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    last: tuple[int, int] = (sys.maxsize, 0)
    for edit in sorted(edits, key=lambda at: (at.line, at.start), reverse=True):
        if (edit.line, edit.end) > last and edit.line == last[0]:
            raise ValueError(f"line {edit.line}: two edits overlap")
        line = lines[edit.line - 1]
        lines[edit.line - 1] = line[: edit.start] + edit.text.encode() + line[edit.end :]
        last = (edit.line, edit.start)
    return b"".join(lines).decode()


class Prose:
    """Dotted and slashed paths of modules that moved, and renamed words in backticks: in texts for people."""

    def __init__(self, moved: Mapping[str, str], words: Mapping[str, str]) -> None:
        self.paths: dict[str, str] = dict(moved)
        for old, new in moved.items():
            slashed = old.replace(".", "/") + ".py", new.replace(".", "/") + ".py"
            short = slashed[0].removeprefix(f"{PACKAGE}/"), slashed[1].removeprefix(f"{PACKAGE}/")
            self.paths |= {slashed[0]: slashed[1], **({short[0]: short[1]} if "/" in short[0] else {})}
            tests = tuple("tests/unit/" + re.sub(r"(\w+\.py)$", r"test_\1", path) for path in short)
            dotted_tests = tuple(path.removesuffix(".py").replace("/", ".") for path in tests)
            self.paths |= {tests[0]: tests[1], dotted_tests[0]: dotted_tests[1]}
        self.words = {f"`{old}`": f"`{new}`" for old, new in words.items()}
        several = "|".join(map(re.escape, sorted(self.paths, key=len, reverse=True)))
        self._path = re.compile(rf"(?<![\w/.])(?:{several})(?!\w)") if several else None
        self._word = re.compile("|".join(map(re.escape, self.words))) if words else None

    def __call__(self, text: str, with_words: bool) -> str:
        """The text with new names."""
        if self._path:
            text = self._path.sub(lambda hit: self.paths[hit[0]], text)
        if self._word and with_words:
            text = self._word.sub(lambda hit: self.words[hit[0]], text)
        return text


def resolved(
    table: Mapping[str, Any], modules: Mapping[str, Module], now: Mapping[str, str]
) -> dict[tuple[str, str], str]:
    """New names by module and old name. Raises KeyError where the table has a name that is nowhere."""
    names = {}
    for path, row in table.get("names", {}).items():
        where = now.get(module_name(path), module_name(path))
        for old, new in row.items():
            if _defines(modules[where], old):
                names[where, old] = new
            elif not _defines(modules[where], new):
                raise KeyError(f"{where} defines neither {old} nor {new}")
    return names


def words_of(modules: Mapping[str, Module], names: Mapping[tuple[str, str], str]) -> dict[str, str]:
    """Classes that documents can mean by their old name alone, since no other class has it."""
    found: dict[str, set[str]] = defaultdict(set)
    for module in modules.values():
        for at in _top(module.tree.body):
            if isinstance(at, ast.ClassDef | ast.FunctionDef):
                found[at.name].add(names.get((module.name, at.name), at.name))
    return {
        old: next(iter(new)) for old, new in found.items() if len(new) == 1 and old[:1].isupper() and old not in new
    }


def listed(root: Path, *patterns: str) -> list[Path]:
    """Files under version control."""
    command = ["git", "ls-files", *patterns]
    found = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()
    return [path for path in map(Path, found) if (root / path).is_file()]


def rewrite_texts(root: Path, prose: Prose) -> None:
    """Documents, templates and data."""
    for path in listed(root):
        if path.suffix in TEXTS and not str(path).startswith(KEPT) and "golden" not in path.parts:
            try:
                before = (root / path).read_text("utf-8")
            except UnicodeDecodeError:
                continue
            after = prose(before, with_words=path.suffix == ".md")
            if after != before:
                (root / path).write_text(after, "utf-8")


def move(root: Path, moved: Mapping[str, str]) -> None:
    """Modules and the tests of their name."""
    for old, new in moved.items():
        source, target = (Path(name.removeprefix(f"{PACKAGE}.").replace(".", "/")) for name in (old, new))
        tests = Path("tests/unit")
        for before, after in (
            (Path(PACKAGE) / f"{source}.py", Path(PACKAGE) / f"{target}.py"),
            (tests / source.parent / f"test_{source.name}.py", tests / target.parent / f"test_{target.name}.py"),
        ):
            if (root / before).is_file() and not (root / after).exists():
                subprocess.run(["git", "mv", before, after], cwd=root, check=True)


def main() -> int:
    """Do what the table says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("table", type=Path)
    table: dict[str, Any] = yaml.safe_load(parser.parse_args().table.read_text("utf-8"))
    root = Path(__file__).parent.parent
    modules = parsed(root)
    moves = {module_name(old): module_name(new) for old, new in table.get("modules", {}).items()}
    now = {old: old if old in modules else new for old, new in moves.items()}  # a second run finds new paths
    moved = {old: new for old, new in moves.items() if old in modules}
    names = resolved(table, modules, now)
    prose = Prose(moved, words_of(modules, names))
    loops = {now.get(dotted(path), dotted(path)): rows for path, rows in table.get("loops", {}).items()}
    for module in modules.values():
        renamer = Renamer(module, modules, names, table.get("attributes", {}), moved)
        renamer.visit(module.tree)
        for clash in sorted(renamer.clashes):
            sys.stderr.write(f"{module.path}: {clash} is another name there already\n")
        text = apply_edits(module.source, renamer.edits | loop_edits(module, loops.get(module.name, [])))
        if not str(module.path.relative_to(root)).startswith(KEPT):
            text = prose(text, with_words=True)
        if text != module.source:
            module.path.write_text(text, "utf-8")
    rewrite_texts(root, prose)
    move(root, moved)
    sys.stdout.write(f"{len(names)} names, {len(moved)} modules\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
