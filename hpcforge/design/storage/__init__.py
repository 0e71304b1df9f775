"""Storage: capacity and bandwidth of the file systems that the cluster serves, compared with the needs. Pure.

`capacity` computes, `rules` and `rule_checks` judge. The package may import `hpcforge.design.facility`,
`hpcforge.kinds`, `hpcforge.catalog` and `hpcforge.blueprint`, not the fabrics. How nodes make and mount file systems
does not belong here, but into roles and `hpcforge.node`.
"""
