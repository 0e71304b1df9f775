"""Fabrics: every switch, port and cable, from the name of a topology; and real cables compared with them. Pure.

`build` makes a fabric, `placement` puts it into the room, `rules` judge it, and `neighbour_matching`, `as_built` and
`recabling` compare it with reports of devices. The package may import `hpcforge.design.facility`, `hpcforge.catalog`
and `hpcforge.blueprint`. It never asks a device, and draws nothing.
"""
