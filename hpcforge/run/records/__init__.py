"""What the head keeps of runs: the lease, the history and the verdicts."""
