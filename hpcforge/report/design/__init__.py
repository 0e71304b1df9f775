"""A design as text, tables, a page and drawings."""
