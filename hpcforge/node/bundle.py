"""What the operator host sends to a node: the program as sources, and the commands that take them in.

This module and `contact` are the only ones of the package that do not travel.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hpcforge.node.contact import FIRST_CONTACT
from hpcforge.node.main import LASTING, VERBS

MODULES = (
    "start",
    "main",
    "events",
    "commands",
    "facts",
    "names",
    "paths",
    "files",
    "receipt",
    "lock",
    "apart",
    "others",
    "originals",
    "trees",
    "remains",
    "ownership",
    "space",
    "guard",
    "remove",
    "accounts",
    "dpkg",
    "simulate",
    "apt",
    "starts",
    "packages",
    "units",
    "checks",
    "observe",
    "converge",
    "reboot",
    "records",
    "lease",
)

_PACKAGE = "hpcforge.node."
_IMPORT = re.compile(r"^ *from hpcforge\.node(?:\.(\w+))? import (\([^)]*\)|[^\n#]*)", re.MULTILINE)

# Without line breaks, so that any login shell passes it on.
LOADER = (
    "import json,sys; document=json.loads(sys.stdin.buffer.read()); scope={'__name__':'hpcforge.node.start'}; "
    "exec(document['modules']['hpcforge.node.start'],scope); scope['start'](document)"
)


@cache
def sources() -> Mapping[str, str]:
    """Sources of the modules that travel, by their full name."""
    folder = Path(__file__).parent
    return {_PACKAGE + name: (folder / f"{name}.py").read_text("utf-8") for name in MODULES}


@cache
def needed(verb: str) -> Mapping[str, str]:
    """Those of them that a request of this verb can come to import."""
    roots = {module for (known, _), (module, _) in VERBS.items() if known == verb} or set(MODULES)
    found: set[str] = set()
    left = {"start", "main", *roots, *(("apart",) if verb in LASTING else ())}
    while left:
        name = left.pop()
        found.add(name)
        left |= _imports(name) - found
    return {name: text for name, text in sources().items() if name.removeprefix(_PACKAGE) in found}


def _imports(name: str) -> set[str]:
    pairs = _IMPORT.findall(sources()[_PACKAGE + name])
    words = {word for module, several in pairs for word in ([module] if module else re.findall(r"\w+", several))}
    # What main imports for another verb is not wanted; the rest of what may be asked for lies in its table.
    return words & set(MODULES) - ({"apart"} if name == "main" else set())


def payload(request: Mapping[str, Any]) -> str:
    """The JSON document for the program's standard input. It may hold secrets."""
    return json.dumps({"modules": needed(str(request.get("verb"))), "request": request})


def first_command(become: bool) -> str:
    """The command line for a payload's ssh exec; works in any login shell, also on a node without Python.

    `become`: by sudo without a password; else the login has to be root. Where it cannot start the program it reads
    the payload to its end and answers with one JSON line, see `hpcforge.node.contact`.
    """
    sudo = "sudo -n" if become else ""
    return f"sh -c {shlex.quote(FIRST_CONTACT)} hpcforge {shlex.quote(sudo)} {shlex.quote(LOADER)}"
