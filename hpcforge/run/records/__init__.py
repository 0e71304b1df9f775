"""The head's records of runs: the lease, the history and the verdicts."""
