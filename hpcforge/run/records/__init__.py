"""The head's records of runs: the lease, the history and the roster.

The modules may import the same packages as `hpcforge.run`. The command line may not import them: a session uses the
lease and the history. Records of smoke tests are in `hpcforge.verify`; the node's side is `hpcforge.node.lease` and
`hpcforge.node.head_records`.
"""
