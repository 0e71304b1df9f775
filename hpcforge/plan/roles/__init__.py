"""Roles: their folders and specification, templates in a sandbox, and contributions to each other. Pure.

`hpcforge.plan.compile` makes the desired state of nodes from them. The package may import the types of `hpcforge.plan`,
the model of `hpcforge.cluster`, `hpcforge.kinds`, `hpcforge.catalog` and `hpcforge.blueprint`. Names of single roles do
not belong here: a role is data in `roles/`.
"""
