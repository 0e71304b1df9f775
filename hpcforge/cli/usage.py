"""What is said of a command line that cannot be followed."""

from __future__ import annotations

from hpcforge.errors import ExpectedError


class UsageError(ExpectedError):
    """What was asked for cannot be done as asked; `hint` says how."""

    kind = "invalid"
