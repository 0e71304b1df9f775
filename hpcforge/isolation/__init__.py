"""Isolation of bad parts: choose the next round of measurements, or name the bad parts. Pure."""
