"""Checks of a blueprint against the catalog, the inventory, files and the resolved cluster: a file for each subject.

A check is a function here and a row in `hpcforge.cluster.check_table`. Checks within one section are next to its
schema, in `hpcforge.blueprint.sections`.
"""
