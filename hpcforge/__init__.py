"""hpcforge: a GPU cluster from a blueprint and an inventory, configured and tested.

A package above the line (docs/architecture.md) computes values from values; a package below it reaches nodes, processes
and the network. The modules of this folder itself are small parts that several packages share, such as `errors`,
`locks` and `typed_json`. They import no package of hpcforge; only `__main__` starts the engines' child and the command
line.
"""

__version__ = "0.2.0"
