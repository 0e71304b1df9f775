"""hpcforge with other roles than the shipped ones: `python -P tests/support/with_roles.py FOLDER VERB ...`.

A blueprint adds roles to the shipped ones; a test that needs few and quick ones begins the program here. What a
blueprint may say is as ever: its services are those of the shipped roles.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from hpcforge.plan.roles import role

_read = role.load_roles


def instead(folder: Path) -> None:
    """Have the first of all folders of roles that are read, the shipped one, be this."""
    role.load_roles = lambda _, *own: _read(folder, *own)


if __name__ == "__main__":
    instead(Path(sys.argv.pop(1)))
    runpy.run_module("hpcforge", run_name="__main__", alter_sys=True)
