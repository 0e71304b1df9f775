"""Connections to nodes: one ssh connection each for the node program, commands and pyinfra; Ansible for site roles.

`tasks` has the types, `Engines` runs them. A task is started, its events come out of one queue, the last of them is
its "result". All ssh connections are in one child process (`child`, `ssh`, `deploy`), because gevent has to patch
Python before anything else is imported; `ansible` starts ansible-runner as a child process of its own.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpcforge.engines.engines import Engines

__all__ = ["Engines"]


def __getattr__(name: str) -> Any:
    """Import `Engines` on request: the child process imports this package, too, and does not need it."""
    if name == "Engines":
        from hpcforge.engines.engines import Engines  # noqa: PLC0415

        return Engines
    raise AttributeError(name)
