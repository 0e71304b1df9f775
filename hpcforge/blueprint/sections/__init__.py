"""The sections of a blueprint: a file each, with the section's schema and the checks of the section alone.

A section may import another, never `hpcforge.blueprint.schema`, which composes them. What sections say together is
checked in `hpcforge.blueprint.checks`; what a section says against hardware or files, in `hpcforge.cluster`.
"""
