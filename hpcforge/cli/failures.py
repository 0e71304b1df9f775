"""Messages and exit codes of expected errors."""

from __future__ import annotations

import errno

from hpcforge.cli.exit_codes import OF_ERRORS, Exit
from hpcforge.errors import ExpectedError, error_text

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def explain(error: Exception) -> tuple[str | None, Exit]:
    """Return message and exit code; no message for an unexpected error."""
    if isinstance(error, ExpectedError):
        return error.shown(), OF_ERRORS[error.kind]
    if isinstance(error, OSError) and (error.errno in _NO_ROOM or "temporary directory" in str(error)):
        where = error.filename or "on this machine"
        return error_text(f"{where}: {error.strerror}", "make room, then run it again"), Exit.ERROR
    if isinstance(error, OSError) and error.filename is not None:
        return error_text(f"{error.filename}: {error.strerror}"), Exit.ERROR
    return None, Exit.ERROR
