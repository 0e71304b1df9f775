"""Every error that is expected, as what the person at the terminal reads and the code they get."""

from __future__ import annotations

import errno

from hpcforge.blueprint.diagnostics import InvalidInput, render_all
from hpcforge.blueprint.edit import EditError
from hpcforge.cli.exit_codes import Exit
from hpcforge.cluster.select import SelectionError
from hpcforge.engines.tasks import EngineError
from hpcforge.lab.errors import LabError
from hpcforge.plan.plan_file import PlanFileError
from hpcforge.plan.role import RoleError
from hpcforge.report.text import one_line
from hpcforge.run.lease import LeaseHeldError
from hpcforge.run.secrets import SecretsError
from hpcforge.run.succession import OlderError
from hpcforge.run.wheels import FetchError

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)  # of a write, which does not say what to


class UsageError(Exception):
    """What was asked for cannot be done as asked; `hint` says how."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def explain(error: Exception) -> tuple[str | None, Exit]:
    """Message and exit code; no message for an error that nobody expected."""
    if isinstance(error, InvalidInput):
        return render_all(error.diagnostics), Exit.INVALID
    if isinstance(error, UsageError | SelectionError | EditError):
        return f"error: {error}\nhint: {error.hint}\n", Exit.INVALID
    if isinstance(error, LeaseHeldError):
        return f"error: {one_line(str(error))}\nhint: {error.hint}\n", Exit.BUSY
    if isinstance(error, SecretsError | LabError | FetchError | OlderError):
        return f"error: {error}\n" + (f"hint: {error.hint}\n" if error.hint else ""), Exit.ERROR
    if isinstance(error, PlanFileError):
        return f"error: {error}\nhint: {error.hint}\n", Exit.INVALID
    if isinstance(error, RoleError):
        return f"error: {error}\nhint: this is a fault in a role, not in the blueprint\n", Exit.ERROR
    if isinstance(error, EngineError):
        return f"error: {error}\n", Exit.ERROR
    if isinstance(error, OSError) and error.filename is not None:
        return f"error: {error.filename}: {error.strerror}\n", Exit.ERROR
    if isinstance(error, OSError) and (error.errno in _NO_ROOM or "temporary directory" in str(error)):
        return (
            f"error: on this machine: {error.strerror}\nhint: make room, then run it again\n",
            Exit.ERROR,
        )
    return None, Exit.ERROR
