"""Roles: their folder and specification, templates in a sandbox, and what they contribute to each other. Pure.

`hpcforge.plan.compile` makes the desired state of nodes from them.
"""
