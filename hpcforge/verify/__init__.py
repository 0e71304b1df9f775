"""Smoke tests on a cluster: launched through Slurm as an ordinary user, watched, judged.

`verify` runs the tests, `submit`, `jobs` and `reservation` use Slurm, and `step_verdict`, `attribution` and
`measurements` judge the output, as pure functions. The package may import `hpcforge.isolation`, `hpcforge.slurm`,
`hpcforge.cluster`, `hpcforge.launchers`, `hpcforge.programs` and everything above the line, no engine: it reaches the
head through `head.Head`. Programs of tests are in `smoke_tests/`.
"""
