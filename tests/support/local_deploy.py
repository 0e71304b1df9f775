"""A role's deploy.py on this machine, each operation at once as on a node: `python -m tests.support.local_deploy`.

Arguments: the deploy.py, and its data as JSON. A test changes PATH, so that programs are stubs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import gevent.monkey

gevent.monkey.patch_all()

from pyinfra import context  # noqa: E402
from pyinfra.api import Config, Inventory, State  # noqa: E402
from pyinfra.api.connect import connect_all  # noqa: E402
from pyinfra.api.state import StateStage  # noqa: E402


def main(source: str, data: str) -> None:
    """Run it. Raises what it raises."""
    inventory = Inventory((["@local"], json.loads(data)))
    state = State(inventory, Config(), check_for_changes=False)
    connect_all(state)
    [host] = inventory
    for name, value in (("state", state), ("inventory", inventory), ("config", state.config), ("host", host)):
        getattr(context, f"ctx_{name}").set(value)
    state.set_stage(StateStage.Execute)
    state.is_executing = True
    exec(compile(Path(source).read_bytes(), source, "exec"), {"__name__": "role", "__file__": source})


if __name__ == "__main__":
    main(*sys.argv[1:])
