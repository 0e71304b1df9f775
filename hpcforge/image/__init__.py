"""Node images: one root archive for all nodes of a blueprint, with the packages of their roles in it.

`request` is the request, `apt` resolves it to exact packages (a `Lock`) and fetches them, `build` makes the archive and
checks it, and `store` keeps it beside its manifest. An archive is a function of its lock. The package may import
`hpcforge.host`, `hpcforge.plan`, `hpcforge.kinds` and shared modules, not `hpcforge.lab`. An image contains no secret
and no configuration of a node.
"""
