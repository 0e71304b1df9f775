"""What goes wrong with a lab."""

from hpcforge.errors import ExpectedError


class LabError(ExpectedError):
    """A lab cannot do what was asked."""
