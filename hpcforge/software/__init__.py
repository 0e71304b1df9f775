"""Software of GPUs: whether drivers, kernels, libraries and GPUs fit together, and the nearest set that does. Pure.

`rules` has the rules of the catalog's compatibility.yaml, `rule_checks` judges a blueprint, and `solve` finds the
nearest valid set. The package may import `hpcforge.design.facility`, `hpcforge.catalog`, `hpcforge.blueprint` and
`hpcforge.frameworks`. Facts of releases belong into the catalog, installation into roles.
"""
