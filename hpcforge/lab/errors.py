"""Errors of labs."""

from hpcforge.host.commands import HostError


class LabError(HostError):
    """A lab cannot do what was asked."""


class UnknownKindError(LabError):
    """A lab was made by a version of hpcforge that has a kind more; only that one can do anything with it."""
