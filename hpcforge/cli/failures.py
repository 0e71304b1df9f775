"""Messages and exit codes of expected errors."""

from __future__ import annotations

import errno

from hpcforge.cli.exit_codes import OF_ERRORS, Exit
from hpcforge.errors import ExpectedError

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def explain(error: Exception) -> tuple[str | None, Exit]:
    """Return message and exit code; no message for an unexpected error."""
    if isinstance(error, ExpectedError):
        return error.shown(), OF_ERRORS[error.kind]
    if isinstance(error, OSError) and (error.errno in _NO_ROOM or "temporary directory" in str(error)):
        place = error.filename or "on this machine"
        return f"error: {place}: {error.strerror}\nhint: make room, then run it again\n", Exit.ERROR
    if isinstance(error, OSError) and error.filename is not None:
        return f"error: {error.filename}: {error.strerror}\n", Exit.ERROR
    return None, Exit.ERROR
