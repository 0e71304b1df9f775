"""The design of a site: facility, fabrics and storage, and the rules that judge them. Pure.

`site` joins the three parts. Each part has its rules and their functions in modules of its own. Fabrics and storage may
import the facility, not each other; all may import `hpcforge.catalog`, `hpcforge.blueprint` and the packages below
them. Resolved nodes are in `hpcforge.cluster`; tables, pages and drawings of a design are in `hpcforge.report`.
"""
