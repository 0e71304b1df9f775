"""Errors of labs."""

from hpcforge.host.commands import HostError


class LabError(HostError):
    """A lab cannot fulfil a request."""


class UnknownKindError(LabError):
    """A lab of a kind that only another version of hpcforge supports."""
