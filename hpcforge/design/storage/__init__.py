"""Capacity and bandwidth of file systems that the cluster serves, checked against the needs. Pure."""
