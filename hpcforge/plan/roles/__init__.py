"""Roles: their folder and specification, templates in a sandbox, and contributions to each other. Pure.

`hpcforge.plan.compile` makes the desired state of nodes from them.
"""
