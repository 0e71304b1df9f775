"""The sections of a blueprint: a file each, with the section's schema and the checks of that section alone. Pure.

A section may import other sections and the types of `hpcforge.blueprint`, never `hpcforge.blueprint.schema`, which
composes the sections. Checks between sections are in `hpcforge.blueprint.checks`; checks against hardware or files are
in `hpcforge.cluster`.
"""
