"""A design as text, tables, a page and drawings.

The modules may import `hpcforge.design`, `hpcforge.cluster`, `hpcforge.blueprint` and the shared modules of
`hpcforge.report`. Other packages use `hpcforge.report.design_forms` instead of these modules. Quantities are computed
in `hpcforge.design`, not here.
"""
