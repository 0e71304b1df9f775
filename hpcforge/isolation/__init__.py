"""Isolation of bad parts: choose the next round of measurements, or name the bad parts. Pure.

`step` decides from the state, which can be written as JSON; `cover` chooses pairs, `judging`, `evidence` and `explain`
weigh their values, and `names` describes parts. `evidence`, `explain`, `judging`, `lines` and `unsteady` are for this
package alone. The package may import `hpcforge.design.fabric`. It starts no test: `hpcforge.verify.isolate` does.
"""
