"""A first blueprint and inventory: from a template, or from the machines of a file that a site has. Pure.

A template is a file in `templates/`: a front matter with its description and its usual answers, then a blueprint as a
Jinja2 text over `answers` and `groups`.
"""
