"""The data that the operator host sends to a node: the program as sources, and the commands that receive them.

This module and `contact` are the only ones of the package that do not travel.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
import zlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hpcforge.kinds import KINDS, PACKAGE_MANAGERS
from hpcforge.node.contact import FIRST_CONTACT
from hpcforge.node.verbs import VERBS, Verb

_ROOT = Path(__file__).parent.parent.parent
_PACKAGE = "hpcforge.node."
_FORMS = "hpcforge.node.schemas"
# Modules that are imported by their names in a table, by the import that needs them.
_ROWS = {
    "hpcforge.node.kinds.handler": [f"hpcforge.node.kinds.{kind}" for kind in KINDS],
    "hpcforge.node.obstacles": [
        f"hpcforge.node.obstacles.{path.stem}" for path in Path(__file__).with_name("obstacles").glob("[a-z]*.py")
    ],
    "hpcforge.node.package_manager": [f"hpcforge.node.package_manager.{name}" for name in PACKAGE_MANAGERS],
}
# The loader makes this package, which has no code.
_EMPTY = "hpcforge.node"
_IMPORT = re.compile(r"^ *from (hpcforge\.\S+) import (\([^)]*\)|[^\n#]*)", re.MULTILINE)
_FOR_TYPES = re.compile(r"^if TYPE_CHECKING:\n(?:    .*\n|\n)+", re.MULTILINE)

# Without line breaks: any login shell passes it on.
LOADER = (
    "import binascii,json,sys,zlib; document=json.loads(sys.stdin.buffer.read()); "
    "document['modules'],document['digests']=json.loads(zlib.decompress(binascii.a2b_base64(document['modules']))); "
    "scope={'__name__':'hpcforge.node.start'}; "
    "exec(document['modules']['hpcforge.node.start'],scope); scope['start'](document)"
)


@cache
def modules() -> tuple[str, ...]:
    """Return the names of the modules that travel: those that the program imports for any of its verbs."""
    return tuple(sorted(_reached(VERBS.values())))


@cache
def sources() -> Mapping[str, str]:
    """Return the sources of the modules that travel, by their full name."""
    return {name: _forms() if name == _FORMS else _source(name) for name in modules()}


@cache
def needed(verb: str) -> Mapping[str, str]:
    """Return the modules that a request of this verb may import."""
    rows = [row for (row_verb, _), row in VERBS.items() if row_verb == verb]
    names = _reached(rows) if rows else modules()
    return {name: text for name, text in sources().items() if name in names}


def _reached(rows: Iterable[Verb]) -> set[str]:
    """Return the modules that the program imports to answer with these rows of its table."""
    rows = list(rows)
    lasting = [_PACKAGE + "detached"] if any(row.lasting for row in rows) else []
    ahead = {_PACKAGE + "start", *(_PACKAGE + row.module for row in rows), *lasting}
    reached: set[str] = set()
    while ahead:
        name = ahead.pop()
        reached.add(name)
        ahead |= _imports(name) - reached
    return reached


def _forms() -> str:
    from hpcforge.node.schemas import DEFAULTS, FORMS  # noqa: PLC0415 - slow to make

    return f"import json\n\nFORMS, DEFAULTS = json.loads({json.dumps([FORMS, DEFAULTS])!r})\n"


def _file(module: str) -> Path:
    path = _ROOT / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _source(module: str) -> str:
    return _file(module).read_text("utf-8")


@cache
def _imports(module: str) -> frozenset[str]:
    """Return the modules that one imports, also within functions, and the modules of the tables that it uses."""
    if module == _FORMS:
        return frozenset()  # it travels as JSON
    imported = set()
    for package, names in _IMPORT.findall(_FOR_TYPES.sub("", _source(module))):
        of_package = [f"{package}.{name}" for name in re.findall(r"\w+", names)]
        imported |= {package, *of_package, *(row for name in of_package for row in _ROWS.get(name, ()))}
    # Imports of `main` for lasting verbs are left out; the table of verbs has the other modules that it may need.
    ignored = {_EMPTY, *((_PACKAGE + "detached",) if module == _PACKAGE + "main" else ())}
    return frozenset(name for name in imported - ignored if _file(name).is_file())


def payload(request: Mapping[str, Any]) -> str:
    """Return the JSON document for the program's standard input. It may hold secrets."""
    return json.dumps({"modules": packed(str(request.get("verb"))), "request": request})


@cache
def packed(verb: str) -> str:
    """Return the modules that a request of this verb needs, in the loader's form: a third of the size."""
    return pack(needed(verb))


def pack(texts: Mapping[str, str]) -> str:
    """Return sources by name in the loader's form, with the digest of each."""
    digests = {name: hashlib.sha256(text.encode()).hexdigest()[:32] for name, text in texts.items()}
    return base64.b64encode(zlib.compress(json.dumps([texts, digests]).encode())).decode()


def first_command(become: bool) -> str:
    """Return the command line for a payload's ssh exec; works in any login shell, also on a node without Python.

    `become`: by sudo without a password; else the login has to be root. If it cannot start the program, it reads
    the payload to its end and answers with one JSON line, see `hpcforge.node.contact`.
    """
    sudo = "sudo -n" if become else ""
    return f"sh -c {shlex.quote(FIRST_CONTACT)} hpcforge {shlex.quote(sudo)} {shlex.quote(LOADER)}"
