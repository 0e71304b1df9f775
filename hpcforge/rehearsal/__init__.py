"""Stand-ins: the parts of a site that a rehearsal on one machine replaces or omits, as rules over a `Cluster`. Pure.

`stand_in_rules` has the rules, `stand_ins` applies them, `compare` shows the changed files, and `package_sources` and
`node_choice` handle sources and nodes. The package may import `hpcforge.plan`, `hpcforge.cluster` and the packages
below them. It starts no node: `hpcforge.lab` does, and gives its facts as `LabFacts`.
"""
