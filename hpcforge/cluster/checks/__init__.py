"""Checks of a blueprint against the catalog, the inventory, files, and what it resolves to: a file for each subject.

A check is a function here and a row in `hpcforge.cluster.check_table`. What a section says by itself is checked beside
its schema, in `hpcforge.blueprint.sections`.
"""
