"""What a rehearsal on one machine stands in for, and what it leaves out: rules over a `Cluster`. Pure."""
