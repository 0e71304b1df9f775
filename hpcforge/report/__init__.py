"""Plans, progress, results and pages as text, JSON, HTML and SVG.

A module has a subject; `printing` is the only way to stdout and stderr, and `colour`, `pager` and `pages` are for this
package alone. It may import every package except `hpcforge.cli`. The packages below it print nothing for people.
Nothing here decides: a report shows values that other packages computed.
"""
