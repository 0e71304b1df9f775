"""Racks, power, cooling and weight of what a blueprint describes. Pure."""
