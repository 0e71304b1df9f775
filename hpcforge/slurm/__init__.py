"""Slurm: command lines of its programs, and parsers of their output: nodes and their states, jobs, accounts. Pure.

The package may import `hpcforge.blueprint` and the packages below it, not the catalog. It runs no command: callers do,
on the head or on a worker. slurm.conf is not here either: a role's template writes it.
"""
