"""A first blueprint and inventory: from a template, or from the machines of a site's own files. Pure.

A template is a file in `templates/`: a front matter with its description and default answers, then a blueprint as a
Jinja2 text over `answers` and `groups`. `readers` read a site's files, `draft` writes the text. The package may import
`hpcforge.cluster`, `hpcforge.design`, `hpcforge.catalog` and the packages below them. It asks neither users nor
machines: `hpcforge.cli.init` and `hpcforge.run.probe` do.
"""
