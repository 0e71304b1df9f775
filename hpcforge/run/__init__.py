"""One apply and the other work on nodes: observe, lease, execute the plan, admit, verify. Below the line.

`session` is one apply, `executor` walks the stages of `stages`, `rollout` sets the order of nodes, and `site` joins a
blueprint with its roles, secrets and connections. The package may import `hpcforge.downloads`, `hpcforge.secrets`,
`hpcforge.engines`, `hpcforge.verify`, `hpcforge.node`, `hpcforge.image` and everything above the line, but not the
actions of `hpcforge.metal`, `hpcforge.report` or `hpcforge.cli`. It prints nothing.
"""
