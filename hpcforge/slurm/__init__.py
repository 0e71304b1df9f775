"""Output of Slurm's own programs, read in one place: nodes and their states, jobs. Pure."""
