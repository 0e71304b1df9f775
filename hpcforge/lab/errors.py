"""What goes wrong with a lab."""

from hpcforge.errors import ExpectedError


class LabError(ExpectedError):
    """A lab cannot do what was asked. `message` says what and where, `hint` what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
