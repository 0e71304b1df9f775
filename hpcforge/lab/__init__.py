"""Rehearsal clusters: real Debian nodes, containers or virtual machines, on one host and reached over SSH like any."""
