"""hpcforge with the roles of one folder and none else: `python -P tests/with_roles.py FOLDER VERB ...`.

A blueprint adds roles to the shipped ones; a test that needs few and quick ones begins the program here. What a
blueprint may say is as ever: its services are those of the shipped roles.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from hpcforge.plan import role

_read = role.load_roles


def only(folder: Path) -> None:
    """Have every set of roles that is read be that of this folder."""
    role.load_roles = lambda *_: _read(folder)


if __name__ == "__main__":
    only(Path(sys.argv.pop(1)))
    runpy.run_module("hpcforge", run_name="__main__", alter_sys=True)
