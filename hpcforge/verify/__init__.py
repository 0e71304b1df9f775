"""Smoke tests on a cluster: launched through Slurm as an ordinary user, watched, judged."""
