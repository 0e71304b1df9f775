"""Plain pyinfra sees a blueprint's nodes, in groups such as function_worker, rack_r1 and partition_main.

HPCFORGE_BLUEPRINT=blueprints/rehearsal.yaml pyinfra inventory/for_pyinfra.py --limit function_worker exec -- hostname

Host keys are those that hpcforge knows, and no others. What the blueprint and its inventory say is in host.data
(hpcforge_machine). HPCFORGE_LAB names a rehearsal.
"""

from pyinfra.api.exceptions import PyinfraError

from hpcforge.cli.inventory import pyinfra
from hpcforge.errors import ExpectedError

try:
    globals().update(pyinfra())
except ExpectedError as error:
    raise PyinfraError(error.shown()) from error
