"""Racks, power, cooling and weight of a blueprint's site. Pure."""
