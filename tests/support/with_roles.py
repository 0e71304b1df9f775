"""hpcforge with other roles than the shipped ones: `python -P tests/support/with_roles.py FOLDER VERB ...`.

A blueprint adds roles to the shipped ones; a test that needs few and quick ones begins the program here. The blueprint
may still name each service of the shipped roles. The program imports its modules in the order in which it always does.
"""

from __future__ import annotations

import runpy
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

_READER = "hpcforge.plan.roles.role"


class _Replaced(MetaPathFinder):
    """Finds the module that reads roles, and replaces the first of all folders, the shipped one, after its import."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != _READER or (spec := PathFinder.find_spec(name, path, target)) is None:
            return None
        loader: Any = spec.loader
        run = loader.exec_module

        def exec_module(module: Any) -> None:
            run(module)
            replace(module, self._folder)

        loader.exec_module = exec_module
        return spec


def replace(module: Any, folder: Path) -> None:
    """Have a module that reads roles read this folder in place of the shipped one."""
    read = module.load_roles
    module.load_roles = lambda _, *own: read(folder, *own)


def instead(folder: Path) -> None:
    """Have hpcforge read this folder in place of the shipped roles."""
    if _READER in sys.modules:
        replace(sys.modules[_READER], folder)
    else:
        sys.meta_path.insert(0, _Replaced(folder))


if __name__ == "__main__":
    instead(Path(sys.argv.pop(1)))
    runpy.run_module("hpcforge", run_name="__main__", alter_sys=True)
