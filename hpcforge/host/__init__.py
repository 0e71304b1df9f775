"""The machine that hpcforge runs on: its programs, processes, memory, folders and package sources.

Rehearsals and images use it. The package may import `hpcforge.catalog`, `hpcforge.blueprint` and shared modules; of
`hpcforge.lab` and `hpcforge.image`, which are above it, it knows nothing. Nodes do not belong here: `hpcforge.engines`
reaches them.
"""
