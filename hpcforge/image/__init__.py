"""Node images: one root archive for all nodes of a blueprint, with the packages of their roles in it.

`request` says what is asked for, `apt` finds the exact packages (a `Lock`) and fetches them, `build` makes the archive
and `inspect` looks through it before `store` keeps it beside its manifest. An archive is a function of its lock.
"""
