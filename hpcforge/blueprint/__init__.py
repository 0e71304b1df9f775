"""Blueprints and inventories: YAML with positions, the schema, and every error of a file in one pass. Pure.

Here are the reader, the types of values, the sections with their checks, and edits that keep the rest of a file as it
is. The package may import `hpcforge.launchers`, `hpcforge.frameworks` and shared modules, no other package. Facts of
hardware are in `hpcforge.catalog`; defaults, addresses and everything else that needs the catalog are in
`hpcforge.cluster`.
"""
