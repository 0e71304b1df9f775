"""Checks that the modules of hpcforge/ do what they did at a git revision: only docstrings and line numbers may differ.

    python -m tools.same_code main                   # prints the modules with other bytecode, and exits with 1
    python -m tools.same_code main --local-names     # local names may differ, too

It is for changes of words. A docstring that a program prints, such as that of a command, is not compared.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).parents[1]
PACKAGE = "hpcforge"
_HAVE_DOCSTRINGS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def facts(source: str, local_names: bool = False) -> tuple[object, ...]:
    """Return the bytecode of a module without docstrings and line numbers; with `local_names`, without these, too."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, _HAVE_DOCSTRINGS) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
        if isinstance(node, _HAVE_DOCSTRINGS) and all(_is_empty(statement) for statement in node.body):
            node.body = [] if isinstance(node, ast.Module) else [ast.Pass(lineno=node.lineno, col_offset=0)]
    return _facts(compile(ast.fix_missing_locations(tree), "module", "exec", dont_inherit=True), local_names)


def _is_empty(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass) or (isinstance(statement, ast.Expr) and _is_ellipsis(statement.value))


def _is_ellipsis(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is Ellipsis


def _facts(code: CodeType, local_names: bool) -> tuple[object, ...]:
    arguments = code.co_argcount + code.co_kwonlyargcount
    names = (code.co_varnames[:arguments],) if local_names else (code.co_varnames, code.co_cellvars, code.co_freevars)
    sizes = (arguments, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_nlocals, code.co_flags)
    constants = tuple(
        _facts(value, local_names) if isinstance(value, CodeType) else (type(value).__name__, repr(value))
        for value in code.co_consts
    )
    return (code.co_qualname, sizes, names, code.co_names, code.co_code, code.co_exceptiontable, constants)


def differing(before: Mapping[str, str], after: Mapping[str, str], local_names: bool = False) -> tuple[str, ...]:
    """Return the paths of modules that only one tree has, or that have other bytecode."""
    return tuple(
        path
        for path in sorted({*before, *after})
        if before.get(path) != after.get(path)
        and not (
            path in before and path in after and facts(before[path], local_names) == facts(after[path], local_names)
        )
    )


def at_revision(root: Path, revision: str) -> dict[str, str]:
    """Return the text of every module at a git revision, by path."""
    command = ["git", "archive", "--format=tar", revision, PACKAGE]
    archive = subprocess.run(command, cwd=root, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        files = {member.name: tar.extractfile(member) for member in tar if member.name.endswith(".py")}
        return {name: file.read().decode() for name, file in files.items() if file}


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Print the modules that differ. Return 1 if there are any."""
    parser = argparse.ArgumentParser(description="Compare the bytecode of hpcforge/ with that of a git revision.")
    parser.add_argument("revision", help="the git revision to compare with")
    parser.add_argument("--local-names", action="store_true", help="allow local names to differ")
    options = parser.parse_args(arguments)
    present = {str(path.relative_to(root)): path.read_text("utf-8") for path in (root / PACKAGE).rglob("*.py")}
    paths = differing(at_revision(root, options.revision), present, options.local_names)
    sys.stdout.write("".join(f"{path}\n" for path in paths))
    return 1 if paths else 0


if __name__ == "__main__":
    sys.exit(main())
