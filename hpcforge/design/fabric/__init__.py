"""Fabrics: from a topology's name to every switch, port and cable. Pure."""
