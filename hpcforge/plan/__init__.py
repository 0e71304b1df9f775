"""The plan: desired state of nodes, compared with their answers, as changes with reasons. Pure.

`roles` reads and renders roles, `compile` makes `Desired`, `diff` makes the `Plan`, and further modules judge
admission, clocks, GPUs and the choice of tests. The package may import `hpcforge.cluster` and the packages below it.
Execution belongs to `hpcforge.run`, text for people to `hpcforge.report`, and values of secrets are never part of a
plan.
"""
