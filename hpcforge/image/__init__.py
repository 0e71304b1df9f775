"""Node images: one root archive for all nodes of a blueprint, with the packages of their roles in it.

`request` has the request, `apt` chooses the exact packages (a `Lock`) and fetches them, `build` makes and checks the
archive, and `store` keeps it with its manifest. An archive is a function of its lock.
"""
