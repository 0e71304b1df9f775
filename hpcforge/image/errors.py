"""What goes wrong with an image."""

from hpcforge.errors import ExpectedError


class ImageError(ExpectedError):
    """An image cannot be made, used or removed."""
