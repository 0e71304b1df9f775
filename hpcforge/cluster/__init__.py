"""The resolved cluster: every node with a name and an address, every default applied. Pure but for reading files.

`load` reads the files, `resolve` adds the catalog's facts and defaults, `model` is the result, and `checks` compare the
files with each other and with the catalog. The package may import `hpcforge.design`, `hpcforge.software`,
`hpcforge.catalog`, `hpcforge.slurm`, `hpcforge.blueprint` and the packages below them; of `hpcforge.plan` only the
evaluation of a role's expressions. The resources of roles and the answers of nodes do not belong here.
"""

from hpcforge.cluster.load import load
from hpcforge.cluster.load.loaded import Loaded

__all__ = ["Loaded", "load"]
