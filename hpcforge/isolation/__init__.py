"""Isolation of bad parts: from measurements so far to the next round of them, or to the names of what is bad. Pure."""
