"""Rehearsal clusters: real Debian nodes, containers or virtual machines, on one host and reached over SSH like any.

`lab` has the actions (up, status, save, restore, down), `kinds` the table of the kinds of labs, `state` the record of
each lab, and `network`, `packages` and `ssh` the parts that all kinds share. The package may import `hpcforge.image`,
`hpcforge.host`, `hpcforge.rehearsal` and `hpcforge.blueprint`. Rules for stand-ins are in `hpcforge.rehearsal`; nothing
here applies roles.
"""
