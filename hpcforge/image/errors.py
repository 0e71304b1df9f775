"""Errors of images."""

from hpcforge.errors import ExpectedError


class ImageError(ExpectedError):
    """An image cannot be made, used or removed."""
