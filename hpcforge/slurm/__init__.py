"""What Slurm's own programs print, read in one place: nodes and their states, jobs. Pure."""
