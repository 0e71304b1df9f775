"""Machines without a system: controllers, power, network boot, installation, and what installers are given."""
