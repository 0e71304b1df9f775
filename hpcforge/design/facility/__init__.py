"""The facility: racks, power, cooling and weight of a blueprint's site, and the rules that judge them. Pure.

`placement` puts items into racks, `loads` and `feeds` compute power with all feeds and with each one lost, and the
modules with `rules` in their names judge the result. The package may import `hpcforge.catalog` and
`hpcforge.blueprint`. It knows no fabrics, no file systems and no software.
"""
