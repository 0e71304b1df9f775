"""Connections to nodes: one ssh connection each for the node program, commands and pyinfra; Ansible for site roles.

`tasks` has the types, `Engines` runs them: a task starts, its events come out of one queue, and the last event is its
"result". One child process (`child`, `ssh`, `connections`) has all of ssh, because gevent has to patch Python before
any other import; `ansible` starts ansible-runner as a child process of its own. The package may import `hpcforge.node`
and shared modules. Plans, roles and the order of work belong to `hpcforge.run`.
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
