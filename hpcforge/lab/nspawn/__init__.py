"""Labs of nspawn containers."""
