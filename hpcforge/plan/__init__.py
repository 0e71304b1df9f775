"""Roles, rendering, Desired, diff: from a `Cluster` and what nodes answered to a `Plan`. Pure."""
