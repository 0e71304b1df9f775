"""Roles, rendering, Desired, diff: a `Plan` from a `Cluster` and the answers of nodes. Pure."""
