"""The start of `hpcforge` and `python -m hpcforge`: the work before all other imports."""

from __future__ import annotations

import atexit
import gc
import os
import sys

from hpcforge import process

_REACHES_NODES = ("plan", "apply", "verify", "status", "logs", "trust", "power")


def main() -> None:
    """Run one command and exit with its code."""
    process.forbid_core_dumps()  # before any secret is read
    # A plan of 10,000 nodes has millions of objects that live to the end: the default garbage collection takes a fourth
    # of the time. Modules have many objects, too.
    gc.set_threshold(1_000_000, 20, 100)
    # Else pydantic reads the records of all installed distributions, and runs the plugins of any.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    atexit.register(gc.freeze)  # else Python's last collections traverse all objects: a fifth of the time of `validate`
    if sys.argv[1:2] and sys.argv[1] in _REACHES_NODES and not {"-h", "--help", "--offline"} & set(sys.argv):
        from hpcforge.engines.child_process import begin  # noqa: PLC0415

        begin()
        from hpcforge.cli import signals  # noqa: PLC0415

        signals.at_once()
    from hpcforge.cli import run  # noqa: PLC0415

    sys.exit(run(sys.argv[1:], process.process_began_s()))


if __name__ == "__main__":
    main()
