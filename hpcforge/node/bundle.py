"""What the operator host sends to a node: the program as sources, and the commands that take them in.

This module and `contact` are the only ones of the package that do not travel.
"""

from __future__ import annotations

import ast
import base64
import json
import re
import shlex
import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hpcforge.kinds import KINDS
from hpcforge.node.contact import FIRST_CONTACT
from hpcforge.node.obstacles import SUBJECTS
from hpcforge.node.verbs import VERBS

MODULES = (
    "hpcforge.schemas",
    "hpcforge.node.start",
    "hpcforge.node.main",
    "hpcforge.node.verbs",
    "hpcforge.node.schemas",
    "hpcforge.node.events",
    "hpcforge.node.commands",
    "hpcforge.node.disk_sync",
    "hpcforge.node.facts",
    "hpcforge.node.nvml",
    "hpcforge.node.amdgpu",
    "hpcforge.node.user_ids",
    "hpcforge.node.account_numbers",
    "hpcforge.node.paths",
    "hpcforge.node.unix",
    "hpcforge.node.written_files",
    "hpcforge.node.files",
    "hpcforge.node.receipt",
    "hpcforge.node.lock",
    "hpcforge.node.detached",
    "hpcforge.node.running_tasks",
    "hpcforge.node.backups",
    "hpcforge.node.trees",
    "hpcforge.node.kept_on_removal",
    "hpcforge.node.ownership",
    "hpcforge.node.disk_space",
    "hpcforge.node.guard",
    "hpcforge.node.remove",
    "hpcforge.node.dpkg",
    "hpcforge.node.apt_simulation",
    "hpcforge.node.package_pins",
    "hpcforge.node.package_source_files",
    "hpcforge.node.apt",
    "hpcforge.node.service_starts",
    "hpcforge.node.package_lists",
    "hpcforge.node.packages",
    "hpcforge.node.units",
    "hpcforge.node.unit_files",
    "hpcforge.node.checks",
    "hpcforge.node.sshd_settings",
    "hpcforge.node.observe",
    "hpcforge.node.converge",
    "hpcforge.node.reboot",
    "hpcforge.node.head_records",
    "hpcforge.node.logs",
    "hpcforge.node.lease",
    "hpcforge.kinds",
    "hpcforge.node.kinds",
    *(f"hpcforge.node.kinds.{kind}" for kind in KINDS),
    "hpcforge.node.obstacles",
    *(f"hpcforge.node.obstacles.{subject}" for subject in SUBJECTS),
)

_ROOT = Path(__file__).parent.parent.parent
_PACKAGE = "hpcforge.node."
_FORMS = "hpcforge.node.schemas"
# Packages whose modules are imported by names in a table.
_TABLES = {"hpcforge.node.kinds": tuple(KINDS), "hpcforge.node.obstacles": SUBJECTS}
_IMPORT = re.compile(r"^ *from (hpcforge\.\S+) import (\([^)]*\)|[^\n#]*)", re.MULTILINE)

# Without line breaks, so that any login shell passes it on.
LOADER = (
    "import binascii,json,sys,zlib; document=json.loads(sys.stdin.buffer.read()); "
    "document['modules']=json.loads(zlib.decompress(binascii.a2b_base64(document['modules']))); "
    "scope={'__name__':'hpcforge.node.start'}; "
    "exec(document['modules']['hpcforge.node.start'],scope); scope['start'](document)"
)


@cache
def sources() -> Mapping[str, str]:
    """Sources of the modules that travel, by their full name."""
    return {name: _forms() if name == _FORMS else _file(name).read_text("utf-8") for name in MODULES}


@cache
def needed(verb: str) -> Mapping[str, str]:
    """Return the modules that a request of this verb may import."""
    rows = [row for (known, _), row in VERBS.items() if known == verb]
    roots = {_PACKAGE + row.module for row in rows} or set(MODULES)
    found: set[str] = set()
    lasting = any(row.lasting for row in rows)
    left = {_PACKAGE + "start", _PACKAGE + "main", *roots, *((_PACKAGE + "detached",) if lasting else ())}
    while left:
        name = left.pop()
        found.add(name)
        left |= _imports(name) - found
    return {name: text for name, text in sources().items() if name in found}


def _forms() -> str:
    from hpcforge.node.schemas import DEFAULTS, FORMS  # noqa: PLC0415 - to make them takes time

    return f"import json\n\nFORMS, DEFAULTS = json.loads({json.dumps([FORMS, DEFAULTS])!r})\n"


def _file(module: str) -> Path:
    path = _ROOT / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _imports(name: str) -> set[str]:
    found = {f"{name}.{module}" for module in _TABLES.get(name, ())}
    for module, several in _IMPORT.findall(sources()[name]):
        found |= {module, *(f"{module}.{word}" for word in re.findall(r"\w+", several))}
    # What main imports for another verb is left out; other modules that it may ask for stand in its table.
    return found & set(MODULES) - ({_PACKAGE + "detached"} if name == _PACKAGE + "main" else set())


def payload(request: Mapping[str, Any]) -> str:
    """The JSON document for the program's standard input. It may hold secrets."""
    return json.dumps({"modules": packed(str(request.get("verb"))), "request": request})


@cache
def packed(verb: str) -> str:
    """The modules that a request of this verb needs, as the loader takes them: a third of the size."""
    texts = {name: bare(text) for name, text in needed(verb).items()}
    return base64.b64encode(zlib.compress(json.dumps(texts).encode())).decode()


def bare(source: str) -> str:
    """A source without the annotations of its functions, with which a node would take a third longer to compile it."""
    text = source.encode()
    starts = [0]  # of each line
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for start, end in sorted(_annotations(ast.parse(text), text, starts), reverse=True):
        text = text[:start] + b"\n" * text.count(b"\n", start, end) + text[end:]
    return text.decode()


def _annotations(tree: ast.Module, text: bytes, starts: list[int]) -> Iterator[tuple[int, int]]:
    """Return the spans of annotations in bytes; a return annotation includes its arrow."""
    left: list[ast.stmt] = list(tree.body)
    while left:
        at = left.pop()
        left += [*getattr(at, "body", ()), *getattr(at, "orelse", ())]
        if not isinstance(at, ast.FunctionDef):
            continue
        several = (*at.args.posonlyargs, *at.args.args, *at.args.kwonlyargs, at.args.vararg, at.args.kwarg)
        for arg in several:
            if arg and arg.annotation:
                begin = starts[arg.lineno - 1] + arg.col_offset + len(arg.arg.encode())
                yield begin, _end(arg.annotation, starts)
        if at.returns:
            before = starts[at.returns.lineno - 1] + at.returns.col_offset
            yield text.rindex(b"->", 0, before), _end(at.returns, starts)


def _end(at: ast.expr, starts: list[int]) -> int:
    return starts[(at.end_lineno or at.lineno) - 1] + (at.end_col_offset or 0)


def first_command(become: bool) -> str:
    """The command line for a payload's ssh exec; works in any login shell, also on a node without Python.

    `become`: by sudo without a password; else the login has to be root. Where it cannot start the program it reads
    the payload to its end and answers with one JSON line, see `hpcforge.node.contact`.
    """
    sudo = "sudo -n" if become else ""
    return f"sh -c {shlex.quote(FIRST_CONTACT)} hpcforge {shlex.quote(sudo)} {shlex.quote(LOADER)}"
