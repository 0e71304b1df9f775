#!/usr/bin/env python3
"""Plain Ansible sees a blueprint's nodes, in groups such as function_worker, rack_r1 and partition_main.

HPCFORGE_BLUEPRINT=blueprints/rehearsal.yaml ansible -i inventory/for_ansible.py function_worker -m ping

Host keys are those that hpcforge knows, and no others. What the blueprint and its inventory say is in variables
(hpcforge_machine), marked so that a brace in it is a brace. HPCFORGE_LAB names a rehearsal.
"""

import os
import sys
from pathlib import Path

try:
    from hpcforge.cli.inventory import ansible
except (
    ModuleNotFoundError
):  # Ansible starts the first python3 of the PATH: go on in that of the environment this file lies in
    places = [place for folder in Path(__file__).resolve().parents for place in (folder, folder / ".venv")]
    pythons = [place / "bin" / "python" for place in places if (place / "pyvenv.cfg").exists()]
    if not pythons or os.environ.get("HPCFORGE_STARTED_BY") == str(pythons[0]):
        sys.exit("hpcforge is not installed for this Python: put its environment's bin/ first in PATH")
    os.environ["HPCFORGE_STARTED_BY"] = str(pythons[0])
    os.execv(pythons[0], [str(pythons[0]), *sys.argv])  # noqa: S606 - no shell

if __name__ == "__main__":
    sys.exit(ansible())
