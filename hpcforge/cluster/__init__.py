"""The resolved model: every node named and addressed, every default applied. Pure but for reading the files named."""

from hpcforge.cluster.load import load
from hpcforge.cluster.load.loaded import Loaded

__all__ = ["Loaded", "load"]
