"""What the operator host sends to a node: the program as sources, and the commands that take them in.

This module and `contact` are the only ones of the package that do not travel.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hpcforge.node.contact import FIRST_CONTACT

MODULES = (
    "start",
    "main",
    "events",
    "commands",
    "facts",
    "names",
    "files",
    "receipt",
    "lock",
    "apart",
    "others",
    "originals",
    "ownership",
    "space",
    "guard",
    "remove",
    "accounts",
    "apt",
    "starts",
    "packages",
    "units",
    "checks",
    "observe",
    "converge",
    "records",
    "lease",
)

# Without line breaks, so that any login shell passes it on.
LOADER = (
    "import json,sys; document=json.loads(sys.stdin.buffer.read()); scope={'__name__':'hpcforge.node.start'}; "
    "exec(document['modules']['hpcforge.node.start'],scope); scope['start'](document)"
)


@cache
def sources() -> Mapping[str, str]:
    """Sources of the modules that travel, by their full name."""
    folder = Path(__file__).parent
    return {f"hpcforge.node.{name}": (folder / f"{name}.py").read_text("utf-8") for name in MODULES}


def payload(request: Mapping[str, Any]) -> str:
    """The JSON document for the program's standard input. It may hold secrets."""
    return json.dumps({"modules": sources(), "request": request})


def first_command(become: bool) -> str:
    """The command line for a payload's ssh exec; works in any login shell, also on a node without Python.

    `become`: by sudo without a password; else the login has to be root. Where it cannot start the program it reads
    the payload to its end and answers with one JSON line, see `hpcforge.node.contact`.
    """
    sudo = "sudo -n" if become else ""
    return f"sh -c {shlex.quote(FIRST_CONTACT)} hpcforge {shlex.quote(sudo)} {shlex.quote(LOADER)}"
