"""The first code on a node: makes the received modules importable, then answers the request.

Every Python 3 must be able to read this file, at least to report that it is too old.
"""

import importlib.machinery
import json
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OLDEST = (3, 9)


class BundleFinder:
    """Finds modules among the received sources, and compiles each at its first import."""

    def __init__(self, sources: "dict[str, str]") -> None:
        self.sources = sources
        self.packages = {name[:at] for name in sources for at, letter in enumerate(name) if letter == "."}

    def find_spec(
        self, name: str, _path: object = None, _target: object = None
    ) -> "importlib.machinery.ModuleSpec | None":
        """Return a spec for a received module, or for a package around one, which may have no source."""
        if name not in self.sources and name not in self.packages:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=name in self.packages)  # type: ignore[arg-type]

    def create_module(self, _spec: object) -> None:
        """Use Python's default kind of module."""

    def exec_module(self, module: "Any") -> None:
        """Run a module's source in it."""
        exec(compile(self.sources.get(module.__name__, ""), module.__name__, "exec"), module.__dict__)  # noqa: S102


def start(document: "Any") -> None:
    """Answer the request of a document, see `hpcforge.node`."""
    if sys.version_info[:2] < OLDEST:
        too_old = "python3 on this node is {}.{}, and {}.{} is needed".format(*(tuple(sys.version_info[:2]) + OLDEST))
        failed = {"event": "failed", "role": None, "kind": "node", "name": "python", "error": too_old}
        end = {"event": "done", "changed": 0, "failed": [], "skipped": [], "facts": {}}
        sys.stdout.write(json.dumps(failed) + "\n" + json.dumps(end) + "\n")
        return
    sys.meta_path.insert(0, BundleFinder(document["modules"]))
    from hpcforge.node.main import main  # noqa: PLC0415 - a received module, not importable before

    main(document["request"])
