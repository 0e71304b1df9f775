"""Checks of a blueprint against the catalog, the inventory, files and the resolved cluster: a file for each subject.

A check is a function here and a row in `hpcforge.cluster.check_table`. It may import the same packages as
`hpcforge.cluster`. Checks of a single section are beside its schema, in `hpcforge.blueprint.sections`; checks between
sections are in `hpcforge.blueprint.checks`; rules of racks, power, fabrics and storage are in `hpcforge.design`.
"""
